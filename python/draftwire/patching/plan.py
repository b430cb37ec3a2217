"""Look at a tree and decide: whose it is, which patch is or would be on it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from draftwire.patching import codemod, diff, lock, record
from draftwire.patching.diff import Patch
from draftwire.patching.insertion import remove
from draftwire.patching.lock import Locked
from draftwire.patching.refusals import PatchError
from draftwire.patching.tree import PATCHED, RECORD, UPSTREAM, State, Tree, compare, identify, whose

RESTORE = "restore upstream's file or install SGLang again"
TAKE_OFF = f"take the patch off with what put it on (`git apply -R`), {RESTORE}"
AGAIN = "run `draftwire patch TREE --revert`, which takes that one off, then `draftwire patch TREE`"
CODEMOD = "codemod"
OURS = ("sglang.srt.speculative.draft_wiring", "isinstance(layer_ids, CaptureList)")


class Plan(NamedTuple):
    """What holds of a tree: its `state`, the `patch` that is or would be on it, and how that was found.

    `is_ours`: false where it is, or was to be, the patch of another draftwire, which only `revert` takes.
    """

    tree: Tree
    state: State
    patch: Patch
    source: str
    is_ours: bool = True

    @property
    def is_patched(self) -> bool:
        return self.is_ours and self.state.holds_only(PATCHED)

    @property
    def is_untouched(self) -> bool:
        return self.state.holds_only(UPSTREAM)

    @property
    def verdict(self) -> str:
        if self.is_untouched:
            return "not patched"
        if not self.is_ours:
            return f"patched by another draftwire, {AGAIN}"
        return "patched" if self.is_patched else "half patched, run it again"

    def __str__(self) -> str:
        lines = sum(len(i.lines) for group in self.patch.insertions.values() for i in group)
        added = ", ".join(self.patch.added)
        return f"{lines} lines in {len(self.patch.insertions)} files, and {added} ({self.source})"


def plan(place: Path) -> Plan:
    """Writes nothing. Raises PatchError where it is neither upstream's nor ours."""
    tree, folder = Tree(place), lock.folder()
    kept, known = record.read(tree), lock.read(folder)
    state = identify(tree, known)
    is_known = state is not None and state.holds_only(UPSTREAM, PATCHED)
    if kept is not None and (state is None or kept[0].hashes != state.locked.hashes):
        recorded = compare(tree, kept[0])
        if recorded.holds_only(UPSTREAM, PATCHED) and not (is_known and recorded.holds_only(UPSTREAM)):
            ours = kept[0].patch == CODEMOD and _is_this_codemods(tree, recorded, kept[1])
            return Plan(tree, recorded, kept[1], f"as recorded in {RECORD}", ours)
    if state is not None and is_known:
        patch = diff.parse((folder / state.locked.patch).read_text(encoding="utf-8"), state.locked.patch)
        return Plan(tree, state, patch, f"SGLang {state.locked.release}, patches/{state.locked.patch}")
    return _modified(tree, state, known)


def _is_this_codemods(tree: Tree, state: State, patch: Patch) -> bool:
    """Whether the codemod still makes this patch of the tree's files; without LibCST the added files decide."""
    if patch.added != codemod.added_files():
        return False

    def upstreams(file: str) -> str:
        on = state.files.get(file) == PATCHED and file in patch.insertions
        return remove(tree.text(file), patch.insertions[file]) if on else tree.text(file)

    try:
        return codemod.change(upstreams).insertions == patch.insertions
    except ImportError:
        return True
    except PatchError:
        return False


def _modified(tree: Tree, state: State | None, known: dict[str, Locked]) -> Plan:
    """A tree that is no known release: the codemod's plan for it, where nothing of ours is on it yet."""
    found = f"SGLang {tree.release() or 'of an unknown release'}"
    if state is not None:
        owner = whose(tree, state.odd, known)
        if owner and state.locked.release not in owner.split(", "):
            raise neither(tree, state.odd, f"the file of SGLang {owner} in {found}")
        if PATCHED in state.files.values():
            raise neither(tree, state.odd, f"another file beside patched ones in {found}", TAKE_OFF)
    for file in [*codemod.ADDED, *(state.files if state else ())]:
        data = tree.read(file)
        if data is not None and (file in codemod.ADDED or any(mark.encode() in data for mark in OURS)):
            raise neither(tree, file, f"a tree patched by hand or by another draftwire, {found}", TAKE_OFF)
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
    locked = Locked(tree.release() or "unknown", CODEMOD, hashes)
    source = f"{found} is modified or unreleased: by the codemod, not by a patch that was tested with it"
    return Plan(tree, compare(tree, locked), Patch(change.insertions, codemod.added_files()), source)


def neither(tree: Tree, file: str, found: str, remedy: str = RESTORE) -> PatchError:
    return PatchError("upstream's file or ours", found, tree.root / file, remedy)
