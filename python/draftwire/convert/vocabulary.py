"""The map from the draft's vocabulary to the target's, as offsets: target id = draft id + d2t[draft id]."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping
from itertools import pairwise

from draftwire.headers import DraftError, Stored
from draftwire.rows import read_integers

REMEDY = "export the draft with the vocabulary map that it was trained with"


def read_offsets(tensors: Mapping[str, Stored], draft_size: int, size: int) -> tuple[array | None, list[str]]:
    """d2t as int64 offsets where it must be rewritten, else None (the stored tensor is right), and what was done.

    draft_size, size: tokens of the draft's and of the target's vocabulary. A list of target ids is turned into
    offsets where t2d, or being impossible as offsets, proves it to be one. Raises DraftError where it is neither.
    """
    d2t, t2d = tensors.get("d2t"), tensors.get("t2d")
    if d2t is None:
        raise DraftError(f"d2t for a draft vocabulary of {draft_size} of {size} tokens", "none", _at(tensors), REMEDY)
    values = _map(d2t, draft_size)
    as_offsets = [i + value for i, value in enumerate(values)]
    if t2d is not None:
        hot = _hot(t2d, draft_size, size)
        is_offsets, is_ids = as_offsets == hot, list(values) == hot
    else:
        is_offsets, is_ids = _ascending(as_offsets, size), _ascending(list(values), size)
        if is_offsets and is_ids and draft_size > 1:
            raise DraftError("d2t that is either offsets or target ids", "both possible, no t2d", d2t.file, REMEDY)
    if is_offsets:
        return (None if d2t.dtype == "I64" else array("q", values)), []
    if is_ids:
        return array("q", [value - i for i, value in enumerate(values)]), ["d2t held target ids, written as offsets"]
    raise DraftError(
        f"d2t that names {draft_size} ascending tokens of {size}" + (", those of t2d" if t2d else ""),
        f"{as_offsets[:3]}..", d2t.file, REMEDY,
    )  # fmt: skip


def require_identity(tensors: Mapping[str, Stored], size: int) -> None:
    """Raises DraftError where d2t or t2d of a draft with the whole vocabulary of `size` tokens would move a token.

    d2t is the identity as offsets (all 0) or as target ids (0, 1, 2, ..); t2d keeps every token.
    """
    d2t, t2d = tensors.get("d2t"), tensors.get("t2d")
    if d2t is not None:
        values = _map(d2t, size)
        if any(values) and any(i != value for i, value in enumerate(values)):
            moved = next(i for i, value in enumerate(values) if value)
            raise DraftError(
                f"d2t of zeros: the draft has the whole vocabulary of {size}", f"{values[moved]} at {moved}", d2t.file,
                "correct draft_vocab_size, or export the draft again",
            )  # fmt: skip
    if t2d is not None:
        _hot(t2d, size, size)


def little_endian(values: array) -> bytes:
    """int64 little-endian, as safetensors stores it."""
    if sys.byteorder == "big":
        values = array("q", values)
        values.byteswap()
    return values.tobytes()


def _map(d2t: Stored, draft_size: int) -> array:
    if d2t.dtype not in ("I64", "I32") or d2t.shape != (draft_size,):
        raise DraftError(f"d2t I64 [{draft_size}]", f"{d2t.dtype} {list(d2t.shape)}", d2t.file, REMEDY)
    return read_integers(d2t)


def _hot(t2d: Stored, draft_size: int, size: int) -> list[int]:
    if t2d.dtype not in ("BOOL", "U8") or t2d.shape != (size,):
        raise DraftError(f"t2d BOOL [{size}]", f"{t2d.dtype} {list(t2d.shape)}", t2d.file, REMEDY)
    hot = [token for token, kept in enumerate(t2d.read()) if kept]
    if len(hot) != draft_size:
        raise DraftError(f"t2d that keeps {draft_size} tokens", len(hot), t2d.file, REMEDY)
    return hot


def _ascending(ids: list[int], size: int) -> bool:
    return ids[0] >= 0 and ids[-1] < size and all(a < b for a, b in pairwise(ids))


def _at(tensors: Mapping[str, Stored]) -> object:
    return next(iter(tensors.values())).file.parent if tensors else "the draft"
