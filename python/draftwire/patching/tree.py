"""Where SGLang lies in a tree, which release it says it is, and what state each touched file is in."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from draftwire.patching import lock
from draftwire.patching.lock import Locked
from draftwire.patching.refusals import PatchError

RECORD = "draftwire.patch"
VERSION = re.compile(r"^__version__ = (?:version = )?['\"]([^'\"]+)['\"]", re.M)
UPSTREAM, PATCHED, OTHER = "upstream's", "patched", "neither upstream's nor ours"


class Tree:
    """The package `sglang` of a git checkout, an sdist, an unpacked wheel or a site-packages folder."""

    def __init__(self, place: Path):
        candidates = [place / "python" / "sglang", place / "sglang", place]
        self.root = next((p for p in candidates if os.path.isdir(p / "srt")), place)
        if not os.path.isdir(self.root / "srt"):
            raise PatchError("python/sglang/srt or sglang/srt", "neither", place, "name an SGLang tree")

    def read(self, file: str | Path) -> bytes | None:
        """The bytes of a file below `sglang/`, or of an absolute path; None where there is none."""
        try:
            return (self.root / file).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise PatchError("a file that can be read", error.strerror, self.root / file, "check the tree") from None

    def text(self, file: str) -> str:
        """The same as text. Raises KeyError where there is none, UnicodeDecodeError."""
        data = self.read(file)
        if data is None:
            raise KeyError(file)
        return data.decode("utf-8")

    def release(self) -> str:
        """What the tree says of itself; empty where it says nothing."""
        for file, pattern in (("_version.py", VERSION), ("version.py", VERSION)):
            found = pattern.search((self.read(file) or b"").decode("utf-8", "replace"))
            if found and found[1] != "0.0.0.dev0":
                return found[1].partition("+")[0]
        info = self.pip_record()
        return info.parent.name.removeprefix("sglang-").removesuffix(".dist-info") if info else ""

    def pip_record(self) -> Path | None:
        """pip's list of this installation's files, where it was installed by pip."""
        found = sorted(self.root.parent.glob("sglang-*.dist-info/RECORD"))
        return found[0] if len(found) == 1 else None


class State(NamedTuple):
    """A tree compared with one release: `files` holds UPSTREAM, PATCHED or OTHER for each touched file."""

    locked: Locked
    files: dict[str, str]

    def holds_only(self, *states: str) -> bool:
        return set(self.files.values()) <= set(states)

    @property
    def odd(self) -> str:
        """The first file that is neither."""
        return next(file for file, state in self.files.items() if state == OTHER)


def compare(tree: Tree, locked: Locked) -> State:
    """Each touched file by its hash. A file that the patch adds counts as upstream's where it is not there."""
    files = {}
    for file, (before, after) in locked.hashes.items():
        data = tree.read(file)
        found = lock.NEW if data is None else lock.sha256(data)
        files[file] = {before: UPSTREAM, after: PATCHED}.get(found, OTHER)
    return State(locked, files)


def identify(tree: Tree, known: dict[str, Locked]) -> State | None:
    """The release that the tree is: by its own word, else by its files. None where it is no known release."""
    said = tree.release()
    if said in known:
        return compare(tree, known[said])
    for locked in reversed(known.values()):
        state = compare(tree, locked)
        if state.holds_only(UPSTREAM, PATCHED):
            return state
    return None


def whose(tree: Tree, file: str, known: dict[str, Locked]) -> str:
    """The releases that a file's bytes belong to, oldest first, or nothing."""
    data = tree.read(file)
    found = data is not None and lock.sha256(data)
    return ", ".join(release for release, locked in known.items() if found in locked.hashes.get(file, ()))
