"""Values of a tensor as they lie in a safetensors file, as Python numbers. Needs no torch."""

from __future__ import annotations

import struct
import sys
from array import array

from draftwire.headers import AGAIN, DraftError, Stored

WIDTHS = {"BF16": 2, "F16": 2, "F32": 4, "F64": 8}


def read_row(tensor: Stored, row: int, most: int | None = None) -> list[float] | None:
    """The first `most` values, or all, of a row of a matrix [rows, columns]; None for a dtype that is not floating
    point."""
    if tensor.dtype not in WIDTHS or len(tensor.shape) != 2:
        return None
    columns = tensor.shape[1] if most is None else min(most, tensor.shape[1])
    return _read(tensor, row * tensor.shape[1], columns, f"row {row}")


def read_vector(tensor: Stored, most: int) -> list[float] | None:
    """The first `most` values of a tensor [n]; None for a dtype that is not floating point."""
    if tensor.dtype not in WIDTHS or len(tensor.shape) != 1:
        return None
    return _read(tensor, 0, min(most, tensor.shape[0]), "its values")


def _read(tensor: Stored, first: int, count: int, what: str) -> list[float]:
    width = WIDTHS[tensor.dtype]
    with tensor.file.open("rb") as stream:
        stream.seek(tensor.start + first * width)
        data = stream.read(count * width)
    if len(data) != count * width:
        raise DraftError(what, "the end of the file", tensor.file, AGAIN)
    if tensor.dtype == "BF16":
        # The upper half of a float32: the lower one is zero.
        wide = bytearray(2 * len(data))
        wide[2::4], wide[3::4] = data[0::2], data[1::2]
        return list(struct.unpack(f"<{count}f", wide))
    code = {"F16": "e", "F32": "f", "F64": "d"}[tensor.dtype]
    return list(struct.unpack(f"<{count}{code}", data))


def read_integers(tensor: Stored) -> array:
    """All values of an I64 or I32 tensor."""
    values = array("q" if tensor.dtype == "I64" else "i")
    values.frombytes(tensor.read())
    if sys.byteorder == "big":
        values.byteswap()
    return values
