"""Put the patch on a tree, take it off again, say which of the two it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from draftwire.patching import codemod, diff, lock, record
from draftwire.patching.diff import Patch
from draftwire.patching.insertion import insert, remove
from draftwire.patching.lock import Locked
from draftwire.patching.refusals import PatchError
from draftwire.patching.tree import PATCHED, RECORD, UPSTREAM, State, Tree, compare, identify, whose
from draftwire.patching.writing import write

RESTORE = "restore upstream's file or install SGLang again"
OURS = ("sglang.srt.speculative.draft_wiring", "isinstance(layer_ids, CaptureList)")


class Plan(NamedTuple):
    """What holds of a tree: its `state`, the `patch` that is or would be on it, and how that was found."""

    tree: Tree
    state: State
    patch: Patch
    source: str

    @property
    def is_patched(self) -> bool:
        return self.state.holds_only(PATCHED)

    @property
    def is_untouched(self) -> bool:
        return self.state.holds_only(UPSTREAM)

    def __str__(self) -> str:
        lines = sum(len(i.lines) for group in self.patch.insertions.values() for i in group)
        added = ", ".join(self.patch.added)
        return f"{lines} lines in {len(self.patch.insertions)} files, and {added} ({self.source})"


def plan(place: Path) -> Plan:
    """Look at a tree and decide; writes nothing. Raises PatchError where it is neither upstream's nor ours."""
    tree, folder = Tree(place), lock.folder()
    kept, known = record.read(tree), lock.read(folder)
    state = identify(tree, known)
    if state is not None and state.holds_only(UPSTREAM, PATCHED):
        patch = diff.parse((folder / state.locked.patch).read_text(encoding="utf-8"), state.locked.patch)
        return Plan(tree, state, patch, f"SGLang {state.locked.release}, patches/{state.locked.patch}")
    if kept is not None:
        state = compare(tree, kept[0])
        if state.holds_only(UPSTREAM, PATCHED) and not state.holds_only(UPSTREAM):
            return Plan(tree, state, kept[1], f"as recorded in {RECORD}")
    return _modified(tree, state, known)


def _modified(tree: Tree, state: State | None, known: dict[str, Locked]) -> Plan:
    """A tree that is no known release: the codemod's plan for it, where nothing of ours is on it yet."""
    found = f"SGLang {tree.release() or 'of an unknown release'}"
    if state is not None:
        owner = whose(tree, state.odd, known)
        if owner and state.locked.release not in owner.split(", "):
            raise _neither(tree, state.odd, f"the file of SGLang {owner} in {found}")
        if PATCHED in state.files.values():
            raise _neither(tree, state.odd, f"another file beside patched ones in {found}")
    for file in [*codemod.ADDED, *(state.files if state else ())]:
        data = tree.read(file)
        if data is not None and (file in codemod.ADDED or any(mark.encode() in data for mark in OURS)):
            raise _neither(tree, file, f"a tree patched by hand or by another draftwire, {found}")
    try:
        change = codemod.change(tree.text)
    except ImportError:
        where = tree.root / (state.odd if state else "srt")
        raise PatchError(
            "a release's own files", f"{found}, modified", where, "pip install 'draftwire[patch]' to try the codemod"
        ) from None
    except PatchError as error:
        first = f"{tree.root / state.odd} differs from upstream's; " if state else ""
        raise PatchError("a tree that the codemod fits", f"{found}: {first}{error}", tree.root, RESTORE) from None
    hashes = {file: (lock.NEW, lock.sha256(text.encode())) for file, text in change.after.items()}
    hashes |= {file: (lock.sha256(text.encode()), hashes[file][1]) for file, text in change.before.items()}
    locked = Locked(tree.release() or "unknown", "codemod", hashes)
    source = f"{found} is modified or unreleased: by the codemod, not by a patch that was tested with it"
    return Plan(tree, compare(tree, locked), Patch(change.insertions, codemod.added_files()), source)


def _neither(tree: Tree, file: str, found: str) -> PatchError:
    return PatchError("upstream's file or ours", found, tree.root / file, RESTORE)


def apply(wanted: Plan) -> None:
    """Make every touched file the patched one. A run that was cut short is completed."""
    files = {
        file: insert(wanted.tree.text(file), group).encode()
        for file, group in wanted.patch.insertions.items()
        if wanted.state.files[file] == UPSTREAM
    }
    files |= {file: text.encode() for file, text in wanted.patch.added.items()}
    for file, data in files.items():
        if lock.sha256(data) != wanted.state.locked.hashes[file][1]:
            raise PatchError("the patched file's hash", "another", file, "install draftwire again")
    ours = {RECORD: record.render(wanted.state.locked, wanted.patch)}
    ours |= {file: data for file, data in files.items() if file in wanted.patch.added}
    # The reader's import of the mark fails while the mark is not there: a tree that is half done does not serve.
    mark = files.pop(codemod.MARK)
    root = wanted.tree.root
    write({root / file: data for file, data in {RECORD: ours[RECORD], **files}.items()} | _pip(wanted.tree, ours)
          | {root / codemod.MARK: mark})  # fmt: skip


def revert(wanted: Plan) -> None:
    """Make every touched file upstream's again and delete ours."""
    root, files = wanted.tree.root, {}
    for file, group in wanted.patch.insertions.items():
        if wanted.state.files[file] == PATCHED:
            files[file] = remove(wanted.tree.text(file), group).encode()
            if lock.sha256(files[file]) != wanted.state.locked.hashes[file][0]:
                raise _neither(wanted.tree, file, "a patched file that does not turn into upstream's")
    ours = dict.fromkeys([codemod.MARK, *wanted.patch.added, RECORD])
    last = {root / file: None for file in ours if file != codemod.MARK}
    write({root / codemod.MARK: None} | {root / f: data for f, data in files.items()} | _pip(wanted.tree, ours) | last)


def _pip(tree: Tree, ours: Mapping[str, bytes | None]) -> dict[Path, bytes]:
    installed = tree.pip_record()
    if installed is None:
        return {}
    return {installed: record.listed({f"sglang/{file}": data for file, data in ours.items()}, installed.read_bytes())}


def rendered(wanted: Plan) -> str:
    """The patch with the line numbers of this tree as upstream has it."""
    moved = {}
    for file, group in wanted.patch.insertions.items():
        text = wanted.tree.text(file)
        if wanted.state.files[file] == PATCHED:
            text = remove(text, group)
        moved[file] = [insertion._replace(at=insertion.places(text)[0]) for insertion in group]
    return diff.render(Patch(moved, wanted.patch.added))
