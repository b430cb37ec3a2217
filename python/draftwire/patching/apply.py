"""Put the patch on a tree, take it off again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from draftwire.patching import codemod, diff, lock, record
from draftwire.patching.diff import Patch
from draftwire.patching.insertion import insert, remove
from draftwire.patching.plan import AGAIN, Plan, neither
from draftwire.patching.refusals import PatchError
from draftwire.patching.tree import PATCHED, RECORD, UPSTREAM
from draftwire.patching.writing import clean, leftovers, write


def applied(wanted: Plan) -> dict[Path, bytes | None]:
    """What is still to be written, in order, for the whole patch to be on. Raises PatchError.

    The launch check comes first and the mark, which it imports, last: in between the tree does not start.
    """
    if not wanted.is_ours:
        raise PatchError("upstream's files or this patch", "another draftwire's", wanted.tree.root / RECORD, AGAIN)
    if wanted.is_patched and wanted.tree.read(RECORD) is None:
        return {}  # by git
    locked = wanted.state.locked
    if odd := locked.hashes.keys() ^ {*wanted.patch.insertions, *wanted.patch.added}:
        raise PatchError(f"the patch of SGLang {locked.release}", "another", min(odd), "install draftwire again")
    files: dict[str, bytes | None] = {
        file: insert(wanted.tree.text(file), group).encode()
        for file, group in wanted.patch.insertions.items()
        if wanted.state.files[file] == UPSTREAM
    }
    files |= {file: text.encode() for file, text in wanted.patch.added.items()}
    for file, data in files.items():
        if lock.sha256(data or b"") != locked.hashes[file][1]:
            raise PatchError("the patched file's hash", "another", wanted.tree.root / file, "install draftwire again")
    kept: dict[str, bytes | None] = {RECORD: record.render(locked, wanted.patch)}
    return _pending(wanted, kept, files)


def reverted(wanted: Plan) -> dict[Path, bytes | None]:
    """What is still to be written, in order, for nothing of ours to be left. Raises PatchError.

    The order is that of `applied`, from its end.
    """
    files: dict[str, bytes | None] = dict.fromkeys(wanted.patch.added)
    for file, group in wanted.patch.insertions.items():
        if wanted.state.files[file] == PATCHED:
            data = remove(wanted.tree.text(file), group).encode()
            if lock.sha256(data) != wanted.state.locked.hashes[file][0]:
                raise neither(wanted.tree, file, "a patched file that does not turn into upstream's")
            files[file] = data
    return dict(reversed(_pending(wanted, {RECORD: None}, files).items()))


def _pending(wanted: Plan, kept: dict[str, bytes | None], files: dict[str, bytes | None]) -> dict[Path, bytes | None]:
    tree, installed = wanted.tree, wanted.tree.pip_record()
    ends = (codemod.LAUNCH, codemod.MARK)
    first, last = ({file: files[file]} if file in files else {} for file in ends)
    changed = {tree.root / file: data for file, data in (kept | first | files).items() if file not in last}
    if installed is not None:
        ours = kept | {file: data for file, data in files.items() if file in wanted.patch.added}
        ours = {f"sglang/{file}": data for file, data in ours.items()}
        changed[installed] = record.listed(ours, tree.read(installed) or b"")
    changed |= {tree.root / file: data for file, data in last.items()}
    return {path: data for path, data in changed.items() if data != tree.read(path)}


def is_done(wanted: Plan, changes: Mapping[Path, bytes | None]) -> bool:
    """Whether nothing is to be written and no killed run left anything behind."""
    return not changes and not leftovers(_touched(wanted))


def carry_out(wanted: Plan, changes: Mapping[Path, bytes | None]) -> None:
    """Write what `applied` or `reverted` found, all of it or, with a PatchError, nothing."""
    clean(_touched(wanted))
    write(changes, wanted.tree.root / codemod.LAUNCH)


def _touched(wanted: Plan) -> list[Path]:
    installed = wanted.tree.pip_record()
    files = [*wanted.patch.insertions, *wanted.patch.added, RECORD]
    return [wanted.tree.root / file for file in files] + ([installed] if installed else [])


def rendered(wanted: Plan) -> str:
    """The patch with the line numbers of this tree as upstream has it."""
    moved = {}
    for file, group in wanted.patch.insertions.items():
        text = wanted.tree.text(file)
        if wanted.state.files[file] == PATCHED:
            text = remove(text, group)
        moved[file] = [insertion._replace(at=insertion.places(text)[0]) for insertion in group]
    return diff.render(Patch(moved, wanted.patch.added))
