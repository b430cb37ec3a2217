"""Change several files so that each is the old or the new one whatever happens, and none changes where one cannot."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from draftwire.patching.refusals import PatchError

SUFFIX = ".draftwire-new"


def write(files: Mapping[Path, bytes | None]) -> None:
    """Replace (or, for None, delete) each file, in order. Everything is on disk before the first is replaced.

    Raises PatchError, with nothing changed, where one of them cannot be written.
    """
    staged: dict[Path, Path] = {}
    try:
        for path, data in files.items():
            if data is None:
                require_writable(path)
            else:
                staged[path] = path.with_name(path.name + SUFFIX)
                _stage(path, staged[path], data)
    except OSError as error:
        for new in staged.values():
            with contextlib.suppress(OSError):
                new.unlink(missing_ok=True)
        raise PatchError("a tree that can be written", error.strerror, path, "nothing was changed") from None
    for path, data in files.items():
        if data is None:
            path.unlink(missing_ok=True)
        else:
            os.replace(staged[path], path)


def require_writable(path: Path) -> None:
    probe = path.with_name(path.name + SUFFIX)
    probe.touch()
    probe.unlink()


def _stage(path: Path, new: Path, data: bytes) -> None:
    new.parent.mkdir(parents=True, exist_ok=True)
    with new.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    if path.exists():
        new.chmod(path.stat().st_mode & 0o7777)
