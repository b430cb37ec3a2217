"""What stops a patch: always one line."""

from __future__ import annotations


class PatchError(Exception):
    """A tree, a file or a place that is not as expected; nothing was written. One line for the user."""

    def __init__(self, expected: object, found: object, where: object, remedy: str):
        text = f"expected {expected}; found {found} in {where}; {remedy}"
        super().__init__("".join(c if c.isprintable() else "?" for c in " ".join(text.split())))
