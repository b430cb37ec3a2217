"""Values of a tensor as they lie in a safetensors file, as Python numbers. Needs no torch."""

from __future__ import annotations

import struct
import sys
from array import array

from draftwire.headers import AGAIN, DraftError, Stored

WIDTHS = {"BF16": 2, "F16": 2, "F32": 4, "F64": 8}


def read_row(tensor: Stored, row: int, most: int) -> list[float] | None:
    """The first `most` values of a row of a matrix [rows, columns]; None for a dtype that is not floating point."""
    width = WIDTHS.get(tensor.dtype)
    if width is None or len(tensor.shape) != 2:
        return None
    columns = min(most, tensor.shape[1])
    with tensor.file.open("rb") as stream:
        stream.seek(tensor.start + row * tensor.shape[1] * width)
        data = stream.read(columns * width)
    if len(data) != columns * width:
        raise DraftError(f"row {row}", "the end of the file", tensor.file, AGAIN)
    if tensor.dtype == "BF16":
        halves = array("H", data)
        if sys.byteorder == "big":
            halves.byteswap()
        return list(struct.unpack(f"<{columns}f", struct.pack(f"<{columns}I", *(half << 16 for half in halves))))
    code = {"F16": "e", "F32": "f", "F64": "d"}[tensor.dtype]
    return list(struct.unpack(f"<{columns}{code}", data))


def read_integers(tensor: Stored) -> array:
    """All values of an I64 or I32 tensor."""
    values = array("q" if tensor.dtype == "I64" else "i")
    values.frombytes(tensor.read())
    if sys.byteorder == "big":
        values.byteswap()
    return values
