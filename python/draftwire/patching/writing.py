"""Change several files, all or none, one run at a time: each is the old or the new one whatever happens."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from draftwire.patching.refusals import PatchError

NEW, OLD = ".draftwire-new", ".draftwire-old"


@contextlib.contextmanager
def alone(root: Path) -> Iterator[None]:
    """Hold the tree's lock, which a killed run gives up. Raises PatchError where another run holds it."""
    import fcntl

    with contextlib.ExitStack() as stack:
        try:
            folder = os.open(root, os.O_RDONLY)
            stack.callback(os.close, folder)
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PatchError("one run at a time", "another at work", root, "wait for it to end") from None
        except OSError as error:
            raise PatchError("a tree that can be locked", error.strerror, root, "copy it to a local disk") from None
        yield


def leftovers(paths: Iterable[Path]) -> list[Path]:
    """What a killed run left beside these files."""
    return [beside for path in paths for beside in _both(path) if os.path.lexists(beside)]


def write(files: Mapping[Path, bytes | None], like: Path) -> None:
    """Replace (or, for None, delete) each file, in order. Everything is on disk before the first is replaced.

    like: the file whose owner and mode a new file gets; the others keep their own.
    Raises PatchError where one of them cannot be written; what was replaced by then is taken back first.
    """
    done: list[Path] = []
    path = like
    try:
        clean(files)
        for path, data in files.items():
            _stage(path, data, path if path.exists() else like)
        for path, data in files.items():
            done.append(path)
            _replace(path, data)
    except BaseException as error:
        _take_back(done, path, error)
        with contextlib.suppress(PatchError):
            clean(files)
        if isinstance(error, OSError):
            raise PatchError("a tree that can be written", error.strerror, path, "nothing was changed") from None
        raise
    with contextlib.suppress(PatchError):
        clean(files)


def clean(paths: Iterable[Path]) -> None:
    """Delete what a killed run left beside these files. Raises PatchError where that is not to be deleted."""
    for beside in leftovers(paths):
        try:
            beside.unlink()
        except OSError as error:
            raise PatchError("a tree that can be written", error.strerror, beside, "nothing was changed") from None


def _both(path: Path) -> tuple[Path, Path]:
    return path.with_name(path.name + NEW), path.with_name(path.name + OLD)


def _stage(path: Path, data: bytes | None, like: Path) -> None:
    new, old = _both(path)
    if path.is_symlink():
        raise PatchError("a file", f"a link to {os.readlink(path)}", path, "patch the tree that it leads to")
    if path.exists():
        try:
            os.link(path, old)
        except OSError:
            shutil.copy2(path, old)
            _own(old, path)
    with new.open("xb") as stream:
        stream.write(data or b"")
        stream.flush()
        os.fsync(stream.fileno())
    _own(new, like)


def _own(path: Path, like: Path) -> None:
    wanted, given = like.stat(), path.stat()
    if (wanted.st_uid, wanted.st_gid) != (given.st_uid, given.st_gid):
        try:
            os.chown(path, wanted.st_uid, wanted.st_gid)
        except PermissionError:
            found = f"one of user {wanted.st_uid}, group {wanted.st_gid}"
            raise PatchError("a file whose owner can be kept", found, like, "run it as that user") from None
    path.chmod(wanted.st_mode & 0o7777)


def _replace(path: Path, data: bytes | None) -> None:
    if data is None:
        path.unlink(missing_ok=True)
    else:
        os.replace(_both(path)[0], path)


def _take_back(done: list[Path], at: Path, cause: BaseException) -> None:
    for path in reversed(done):
        new, old = _both(path)
        try:
            if os.path.lexists(new) and os.path.lexists(path):
                continue  # not reached
            if os.path.lexists(old):
                os.replace(old, path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            first = getattr(cause, "strerror", None) or repr(cause)
            raise PatchError(
                "a tree that can be written",
                f"{first} at {at.name}, and {error.strerror} at taking it back",
                path,
                "it may not start; run the same command again, which completes it",
            ) from None
