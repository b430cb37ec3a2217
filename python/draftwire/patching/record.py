"""What `--revert` needs, kept in the patched tree: `sglang/draftwire.patch`, and the lines in pip's RECORD."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping

from draftwire.patching import diff, lock
from draftwire.patching.diff import Patch
from draftwire.patching.lock import Locked
from draftwire.patching.refusals import PatchError
from draftwire.patching.tree import RECORD, Tree

FIRST_LINE = "Applied by `draftwire patch`, which needs this file to take it off again (`draftwire patch --revert`)."


def render(locked: Locked, patch: Patch) -> bytes:
    """The record: hashes of each file before and after, and the patch itself."""
    return (lock.render([locked], FIRST_LINE) + "\n" + diff.render(patch)).encode()


def read(tree: Tree) -> tuple[Locked, Patch] | None:
    """The tree's record, None where there is none. Raises PatchError where it cannot be read."""
    data = tree.read(RECORD)
    if data is None:
        return None
    try:
        text = data.decode("utf-8")
        locked = next(iter(lock.parse(text.split("\ndiff --git ")[0]).values()))
        return locked, diff.parse(text, RECORD)
    except (ValueError, StopIteration, IndexError, PatchError):
        raise PatchError("a record of a patch", "another form", tree.root / RECORD, "install SGLang again") from None


def listed(names: Mapping[str, bytes | None], installed: bytes) -> bytes:
    """pip's RECORD with a line for each file (None: without one), so that `pip uninstall` takes it along.

    Ours end as its first line does and stand ahead of its last, which may end as it likes.
    """
    end = b"\r\n" if installed.partition(b"\n")[0].endswith(b"\r") else b"\n"
    ours = {name.encode() for name in names}
    lines = [line for line in installed.splitlines(keepends=True) if line.rsplit(b",", 2)[0] not in ours]
    last = len(lines) - 1 if lines else 0
    for name, data in sorted(names.items()):
        if data is not None:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.insert(last, f"{name},sha256={digest},{len(data)}".encode() + end)
            last += 1
    return b"".join(lines)
