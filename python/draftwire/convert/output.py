"""What will be written: a config, tensors and launch flags."""

from __future__ import annotations

from typing import Any, NamedTuple

from draftwire.headers import Stored


class Piece(NamedTuple):
    """A tensor of the output: `source`'s bytes under a name and shape of their own, or `data` where they were made."""

    dtype: str
    shape: tuple[int, ...]
    source: Stored
    data: bytes | None = None

    @property
    def size(self) -> int:
        return self.source.size if self.data is None else len(self.data)


class Output(NamedTuple):
    """`pieces` by name. `flags`: SGLang's own, for serve.yaml. `requires`: what only the overlay serves."""

    config: dict[str, Any]
    pieces: dict[str, Piece]
    flags: dict[str, Any]
    notes: list[str]
    requires: list[str]
    boundaries: list[int]
