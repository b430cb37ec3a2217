"""Safetensors headers with the place of every tensor, checked against the file before they are believed."""

from __future__ import annotations

import json
import math
import stat
import struct
from pathlib import Path
from typing import Any, NamedTuple

LARGEST_HEADER = 100 * 1024 * 1024
INDEX = "model.safetensors.index.json"
WIDTH = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 1),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 2),
    **dict.fromkeys(("I32", "U32", "F32"), 4),
    **dict.fromkeys(("I64", "U64", "F64"), 8),
}
AGAIN = "export the draft again"


class DraftError(ValueError):
    """A draft that cannot be read or converted; the message is one line for the user."""

    def __init__(self, expected: object, found: object, where: object, remedy: str):
        text = f"expected {expected}; found {found} in {where}; {remedy}"
        super().__init__("".join(c if c.isprintable() else "?" for c in " ".join(text.split())))


class Stored(NamedTuple):
    """A tensor where it lies: safetensors dtype (BF16), shape, and `size` bytes from byte `start` of `file`."""

    dtype: str
    shape: tuple[int, ...]
    file: Path
    start: int
    size: int

    def read(self) -> bytes:
        """The tensor's bytes, little-endian and row-major. For small tensors."""
        with self.file.open("rb") as stream:
            stream.seek(self.start)
            data = stream.read(self.size)
        if len(data) != self.size:
            raise DraftError(f"{self.size} bytes at {self.start}", len(data), self.file, AGAIN)
        return data


def read_header(file: Path) -> dict[str, Stored]:
    """Every tensor of one file by name.

    Raises DraftError on a truncated file, on a header that is not JSON or not of the format, and on one that lies:
    a shape that does not fill its bytes, bytes outside of the file, tensors that overlap or leave gaps.
    """
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            raise DraftError("a safetensors file", "no regular file", file, AGAIN)
        total = status.st_size
        with file.open("rb") as stream:
            start = stream.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else -1
            if not 2 <= length <= min(LARGEST_HEADER, total - 8):
                raise DraftError(f"a header length of 2 to {max(total - 8, 2)} bytes", length, file, AGAIN)
            text = stream.read(length)
    except OSError as error:
        raise DraftError("a safetensors file", error.strerror or type(error).__name__, file, AGAIN) from None
    try:
        entries = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        found = str(error) if isinstance(error, KeyTwice) else type(error).__name__
        raise DraftError("a safetensors header", found, file, AGAIN) from None
    if not isinstance(entries, dict):
        raise DraftError("a safetensors header", type(entries).__name__, file, AGAIN)
    entries.pop("__metadata__", None)
    tensors = {name: _stored(name, entry, file, 8 + length) for name, entry in entries.items()}
    _require_tiled(tensors, file, 8 + length, total)
    return tensors


class KeyTwice(ValueError):
    pass


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise KeyTwice("a key that is there twice")
    return table


def _stored(name: str, entry: Any, file: Path, data: int) -> Stored:
    try:
        dtype, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        numbers = [begin, end, *shape]
    except (TypeError, KeyError, ValueError):
        raise DraftError(f"dtype, shape and data_offsets of {name!r}", "another form", file, AGAIN) from None
    if not all(type(n) is int and 0 <= n < 2**63 for n in numbers) or end < begin:
        raise DraftError(f"sizes and offsets of {name!r} that are whole numbers", numbers, file, AGAIN)
    if not isinstance(dtype, str) or dtype not in WIDTH:
        raise DraftError(f"a known dtype of {name!r}", repr(dtype), file, "save the draft in bfloat16 or float32")
    if math.prod(shape) * WIDTH[dtype] != end - begin:
        raise DraftError(
            f"{math.prod(shape) * WIDTH[dtype]} bytes for {name!r} {dtype} {shape}", end - begin, file, AGAIN
        )
    return Stored(dtype, tuple(shape), file, data + begin, end - begin)


def _require_tiled(tensors: dict[str, Stored], file: Path, data: int, total: int) -> None:
    at = data
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].start, item[1].size)):
        if tensor.start != at:
            raise DraftError(f"{name!r} from byte {at - data} of the data", tensor.start - data, file, AGAIN)
        at += tensor.size
    if at != total:
        raise DraftError(f"{at - data} bytes of tensors", total - data, file, AGAIN)


def read_tensors(directory: Path) -> dict[str, Stored]:
    """Every tensor of a directory by name: the shards of its index, else model.safetensors, else each *.safetensors.

    Raises DraftError where there is none, a shard is missing, or the index and the shards tell of different tensors.
    """
    if (directory / INDEX).is_file():
        return _read_shards(directory)
    single = directory / "model.safetensors"
    files = [single] if single.is_file() else sorted(directory.glob("*.safetensors"))
    if not files:
        other = sorted(p.name for p in [*directory.glob("*.bin"), *directory.glob("*.pt")])
        raise DraftError("*.safetensors files", other or "none", directory, "save the draft as safetensors")
    tensors: dict[str, Stored] = {}
    for file in files:
        for name, tensor in read_header(file).items():
            if name in tensors:
                raise DraftError(f"{name!r} in one file", f"also {tensors[name].file.name}", file, AGAIN)
            tensors[name] = tensor
    return tensors


def _read_shards(directory: Path) -> dict[str, Stored]:
    file = directory / INDEX
    if file.stat().st_size > LARGEST_HEADER:
        raise DraftError(f"an index of at most {LARGEST_HEADER} bytes", file.stat().st_size, file, AGAIN)
    try:
        places = json.loads(file.read_bytes())["weight_map"]
        shards = sorted(set(places.values()))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DraftError("a weight_map", type(error).__name__, file, AGAIN) from None
    tensors: dict[str, Stored] = {}
    for shard in shards:
        if not isinstance(shard, str) or Path(shard).name != shard or not shard.endswith(".safetensors"):
            raise DraftError("names of safetensors files beside it", repr(shard), file, AGAIN)
        found = read_header(directory / shard)
        listed = {name for name, place in places.items() if place == shard}
        if odd := sorted(found.keys() ^ listed):
            raise DraftError(f"the tensors that {INDEX} lists", f"a difference at {odd[0]!r}", directory / shard, AGAIN)
        tensors.update(found)
    return tensors
