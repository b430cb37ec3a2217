"""Read what safetensors headers say, without torch and without reading a tensor."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import NamedTuple

LARGEST_HEADER = 100 * 1024 * 1024


class Tensor(NamedTuple):
    """A tensor as its header describes it: `dtype` in safetensors' spelling (BF16), `shape`, the file."""

    dtype: str
    shape: tuple[int, ...]
    file: Path


class TensorError(ValueError):
    """A safetensors file whose header cannot be believed; one line naming the file."""


def read_header(file: Path) -> dict[str, Tensor]:
    """Every tensor of one file by name. Raises TensorError on a truncated or lying header, OSError as open does."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        start = stream.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else -1
        most = min(LARGEST_HEADER, size - 8)
        if not 2 <= length <= most:
            raise TensorError(f"expected a header length of 2 to {max(most, 2)} bytes, found {length} in {file}")
        try:
            entries = json.loads(stream.read(length))
            entries.pop("__metadata__", None)
            tensors = {n: Tensor(str(e["dtype"]), tuple(map(int, e["shape"])), file) for n, e in entries.items()}
            ends = [int(e["data_offsets"][1]) for e in entries.values()]
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
            raise TensorError(f"expected a safetensors header, found {type(error).__name__} in {file}") from None
    if max(ends, default=0) > size - 8 - length:
        raise TensorError(f"expected {max(ends)} bytes of tensors, found {size - 8 - length} in {file}")
    return tensors


def read_directory(directory: Path) -> dict[str, Tensor]:
    """Every tensor of all `*.safetensors` files in a model directory, by name."""
    tensors: dict[str, Tensor] = {}
    for file in sorted(directory.glob("*.safetensors")):
        tensors.update(read_header(file))
    return tensors
