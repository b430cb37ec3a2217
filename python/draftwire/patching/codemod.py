"""Run every change over a tree: the insertions, and the texts that they make of upstream's files."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType

from draftwire.patching.insertion import Insertion, insert
from draftwire.patching.refusals import PatchError

LAUNCH = "srt/server_args.py"
MARK = "srt/speculative/aux_boundaries.py"
READER = "srt/speculative/draft_wiring.py"
LOADER = "srt/speculative/draft_weights.py"
ADDED = (READER, LOADER, MARK)


@cache
def added_files() -> dict[str, str]:
    """The files that a patch brings, path below `sglang/` -> text. The rule is the overlay's own file."""
    import draftwire_overlay

    overlay = Path(next(iter(draftwire_overlay.__path__)))
    return {
        READER: Path(__file__).with_name("draft_wiring.py").read_text(encoding="utf-8"),
        LOADER: Path(__file__).with_name("draft_weights.py").read_text(encoding="utf-8"),
        MARK: (overlay / MARK).read_text(encoding="utf-8"),
    }


class Change:
    """What the codemod makes of a tree. `insertions` by file; `after` the changed and the added files' text.

    `transforms`: the changes that the tree needs.
    """

    def __init__(self, insertions: dict[str, list[Insertion]], before: dict[str, str], transforms: list[ModuleType]):
        self.insertions, self.before, self.transforms = insertions, before, transforms
        self.after = {file: insert(before[file], found) for file, found in insertions.items()}
        for file, text in self.after.items():
            _require_python(file, text)
        self.after |= added_files()


def change(read: Callable[[str], str]) -> Change:
    """Find every place in a tree, once each. `read` takes a path below `sglang/`.

    Raises PatchError where a place is not there, is there twice, or a changed file does not parse.
    """
    from draftwire.patching.source import Sources
    from draftwire.patching.transforms import TRANSFORMS

    files = Sources(read)
    found: dict[str, list[Insertion]] = {}
    needed = []
    for transform in TRANSFORMS:
        insertions = transform.places(files)
        needed += [transform] if insertions else []
        for insertion in insertions:
            found.setdefault(insertion.file, []).append(insertion)
    ordered = {file: sorted(found[file], key=lambda i: i.at) for file in sorted(found)}
    for file, insertions in ordered.items():
        for first, second in pairwise(insertions):
            if second.at - first.at < 2:
                raise PatchError("changes that share no line", f"two at line {second.at}", file, "move one of them")
    return Change(ordered, {file: files[file].text for file in ordered}, needed)


def _require_python(file: str, text: str) -> None:
    try:
        ast.parse(text)
    except SyntaxError as error:
        raise PatchError("Python", f"{error.msg} at line {error.lineno}", f"the patched {file}", "report it") from None
