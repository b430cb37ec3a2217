"""Tensors of safetensors files as torch's, mapped and not copied, and the few that a doctor needs of a target."""

from __future__ import annotations

import json
import mmap
from pathlib import Path
from typing import Any, NamedTuple

from draftwire.draft import DraftError
from draftwire.headers import INDEX, LARGEST_HEADER, Stored, read_header
from draftwire.target import Target

TYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64", "I64": "int64", "I32": "int32",
         "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool"}  # fmt: skip
PARTS = {"embed": "embed_tokens.weight", "norm": "norm.weight", "head": "lm_head.weight"}


def to_tensor(stored: Stored, name: str) -> Any:
    """A tensor over the file's pages: what is not looked at is not read. Raises DraftError on other dtypes."""
    import torch

    if stored.dtype not in TYPES:
        raise DraftError(f"{name} of {', '.join(TYPES)}", stored.dtype, stored.file, "save it in bfloat16 or float32")
    dtype = getattr(torch, TYPES[stored.dtype])
    if not stored.size:
        return torch.empty(stored.shape, dtype=dtype)
    with stored.file.open("rb") as stream:
        pages = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
    return (
        torch.frombuffer(pages, dtype=torch.uint8, count=stored.size, offset=stored.start)
        .view(dtype)
        .view(stored.shape)
    )


class RowTable:
    """A stored table [rows, width] of which only the rows that are asked for are read, not mapped: a page fault can
    bring in 2 MiB for a row."""

    def __init__(self, stored: Stored, name: str):
        import torch

        if stored.dtype not in TYPES or len(stored.shape) != 2:
            raise DraftError(
                f"{name} [rows, width]", f"{list(stored.shape)} of {stored.dtype}", stored.file, "check it"
            )
        self.stored, self.name, self.shape = stored, name, stored.shape
        self.dtype = getattr(torch, TYPES[stored.dtype])

    def rows(self, ids: Any) -> Any:
        """[n, width] for ids [n] below `shape[0]`."""
        import torch

        wanted, places = ids.unique(return_inverse=True)
        size = self.stored.size // self.shape[0]
        with self.stored.file.open("rb", buffering=0) as stream:
            parts = []
            for row in wanted.tolist():
                stream.seek(self.stored.start + row * size)
                parts.append(stream.read(size))
        table = torch.frombuffer(bytearray(b"".join(parts)), dtype=self.dtype).view(len(parts), self.shape[1])
        return table[places]

    def whole(self) -> Any:
        """All of it, mapped."""
        return to_tensor(self.stored, self.name)


class TargetParts(NamedTuple):
    """`embed`: a RowTable [vocab, hidden]; `norm` [hidden], `head` [vocab, hidden]. None where the files lack one."""

    embed: Any
    norm: Any
    head: Any
    eps: float


def read_parts(target: Target) -> TargetParts:
    """Embedding, final norm and head of a target, from whichever shards hold them; nothing else is read.

    Raises DraftError where one has another shape than the target's config says.
    """
    found = {part: _find(target.directory, name) for part, name in PARTS.items()}
    if found["head"] is None and target.text.get("tie_word_embeddings", target.config.get("tie_word_embeddings")):
        found["head"] = found["embed"]
    embed = found["embed"]
    vocabulary = target.vocab_size or (embed.shape[0] if embed is not None and embed.shape else 0)
    shapes = {"embed": (vocabulary, target.hidden_size), "norm": (target.hidden_size,)}
    shapes["head"] = shapes["embed"]
    tensors = {}
    for part, stored in found.items():
        if stored is not None and stored.shape != shapes[part]:
            raise DraftError(f"{PARTS[part]} {list(shapes[part])}", list(stored.shape), stored.file, "check the target")
        make = RowTable if part == "embed" else to_tensor
        tensors[part] = None if stored is None else make(stored, PARTS[part])
    eps = target.text.get("rms_norm_eps", 1e-6)
    return TargetParts(**tensors, eps=float(eps) if isinstance(eps, (int, float)) else 1e-6)


def _find(directory: Path, name: str) -> Stored | None:
    """The tensor of that name outside of the layers, by the shortest prefix."""
    index = directory / INDEX
    if index.is_file() and index.stat().st_size <= LARGEST_HEADER:
        try:
            places = json.loads(index.read_bytes())["weight_map"]
            full = _pick(places, name)
            shard = places[full] if full else None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as failure:
            raise DraftError("a weight_map", type(failure).__name__, index, "download the target again") from None
        if full is None:
            return None
        if not isinstance(shard, str) or Path(shard).name != shard:
            raise DraftError("names of files beside it", repr(shard)[:60], index, "download the target again")
        file = directory / shard
        return read_header(file).get(full) if file.is_file() else None
    for file in sorted(directory.glob("*.safetensors"))[:200]:
        tensors = read_header(file)
        if full := _pick(tensors, name):
            return tensors[full]
    return None


def _pick(names: Any, wanted: str) -> str | None:
    fitting = [n for n in names if (n == wanted or n.endswith(f".{wanted}")) and ".layers." not in n]
    plain = [n for n in fitting if n in (wanted, f"model.{wanted}") or "vision" not in n]
    return min(plain, key=len, default=None)
