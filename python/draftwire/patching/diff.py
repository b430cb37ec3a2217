"""Insertions and new files as a patch that git applies without fuzz, and back."""

from __future__ import annotations

from typing import NamedTuple

from draftwire.patching.insertion import Insertion
from draftwire.patching.refusals import PatchError

PREFIX = "python/sglang/"


class Patch(NamedTuple):
    """`insertions` by file of upstream's, and the text of each `added` file; paths below `sglang/`."""

    insertions: dict[str, list[Insertion]]
    added: dict[str, str]


def render(patch: Patch) -> str:
    """git's format, paths `python/sglang/...`, one line of upstream's above and below each hunk."""
    parts = []
    for file, insertions in sorted(patch.insertions.items()):
        path, grown = PREFIX + file, 0
        parts.append(f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n")
        for insertion in sorted(insertions, key=lambda i: i.at):
            size = len(insertion.lines)
            parts.append(f"@@ -{insertion.at},2 +{insertion.at + grown},{size + 2} @@\n")
            parts.append(_lines(" ", [insertion.above]) + _lines("+", insertion.lines) + _lines(" ", [insertion.below]))
            grown += size
    for file, text in sorted(patch.added.items()):
        path, lines = PREFIX + file, text.removesuffix("\n").split("\n")
        parts.append(f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n")
        parts.append(f"@@ -0,0 +1,{len(lines)} @@\n" + _lines("+", lines))
    return "".join(parts)


def parse(text: str, name: str) -> Patch:
    """The patch that `render` wrote, whatever stands before it. Raises PatchError on any other form."""
    patch = Patch({}, {})
    for section in text.split("\ndiff --git ")[1:]:
        head, *hunks = section.split("\n@@ ")
        file = head.split("\n")[0].partition(f" b/{PREFIX}")[2]
        for hunk in hunks:
            ranges, *lines = hunk.removesuffix("\n").split("\n")
            marks, bodies = "".join(line[:1] for line in lines), [line[1:] for line in lines]
            if "\nnew file mode " in head and set(marks) == {"+"}:
                patch.added[file] = "\n".join(bodies) + "\n"
            elif set(marks[1:-1]) == {"+"} and marks[0] == marks[-1] == " ":
                at = int(ranges.split(",")[0].removeprefix("-"))
                insertion = Insertion(file, at, bodies[0], bodies[-1], tuple(bodies[1:-1]))
                patch.insertions.setdefault(file, []).append(insertion)
            else:
                raise PatchError("added lines between one line above and one below", ranges, name, "generate it again")
    if not patch.added or not patch.insertions:
        raise PatchError("a patch with new files and insertions", "none", name, "install draftwire again")
    return patch


def _lines(mark: str, lines) -> str:
    return "".join(f"{mark}{line}\n" for line in lines)
