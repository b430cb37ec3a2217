"""Lines that go between two neighbouring lines of a file: the whole of what a patch may do to upstream's text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from draftwire.patching.refusals import PatchError


class Insertion(NamedTuple):
    """`lines` between `above` and `below`, neighbours in the file. Lines are without their newline.

    `at`: lines of the file before the insertion, as found by structure.
    """

    file: str
    at: int
    above: str
    below: str
    lines: tuple[str, ...]

    def places(self, text: str) -> list[int]:
        """Every place of `text` with this address, as a number of lines before it."""
        lines = text.split("\n")
        return [i + 1 for i in range(len(lines) - 1) if lines[i] == self.above and lines[i + 1] == self.below]


def insert(text: str, insertions: Iterable[Insertion]) -> str:
    """The text with every insertion at its address. Raises PatchError unless each address is there exactly once."""
    wanted = list(insertions)
    places = [(_only_place(text, insertion), insertion) for insertion in wanted]
    lines = text.split("\n")
    for place, insertion in sorted(places, key=lambda pair: pair[0], reverse=True):
        lines[place:place] = insertion.lines
    result = "\n".join(lines)
    require_additive(text, result, sum(len(i.lines) for i in wanted), wanted[0].file if wanted else "")
    return result


def remove(text: str, insertions: Iterable[Insertion]) -> str:
    """The text without the inserted lines. Raises PatchError where a block is not there exactly once."""
    lines = text.split("\n")
    for insertion in insertions:
        block = [insertion.above, *insertion.lines, insertion.below]
        size = len(block)
        found = [i for i in range(len(lines) - size + 1) if lines[i : i + size] == block]
        if len(found) != 1:
            raise _misplaced(len(found), insertion)
        del lines[found[0] + 1 : found[0] + size - 1]
    return "\n".join(lines)


def require_additive(before: str, after: str, added: int, file: str) -> None:
    """Refuse a result that is not every line of `before` in order and `added` lines between them."""
    rest = iter(after.split("\n"))
    kept = all(any(line == other for other in rest) for line in before.split("\n"))
    grown = after.count("\n") - before.count("\n")
    if not kept or grown != added:
        raise PatchError(f"upstream's lines and {added} more", f"{grown} more", file, "report this file")


def _only_place(text: str, insertion: Insertion) -> int:
    places = insertion.places(text)
    if len(places) != 1:
        raise _misplaced(len(places), insertion)
    return places[0]


def _misplaced(count: int, insertion: Insertion) -> PatchError:
    return PatchError(
        f"one place between {insertion.above.strip()!r} and {insertion.below.strip()!r}",
        count,
        insertion.file,
        "restore upstream's file, or report this release",
    )
