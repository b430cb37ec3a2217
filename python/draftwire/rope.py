"""A RoPE block as configs write it, in the form of transformers 4 or 5."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple


class Rope(NamedTuple):
    """`theta`: the base, 10,000 where none is `written`. `kind`: default, linear, llama3, yarn or other. `block`: its
    further keys, from `where`.
    """

    theta: float
    kind: str
    block: Mapping[str, Any]
    where: str
    written: bool

    @property
    def factor(self) -> float:
        return number(self.block.get("factor")) or 1.0


def read_rope(layer: Mapping[str, Any]) -> Rope | None:
    """The RoPE of a layer's config; None where it is no table or the base no positive number."""
    table = layer.get("rope_parameters")
    where = "rope_parameters"
    if table is None:
        table, where = layer.get("rope_scaling") or {}, "rope_scaling"
    if not isinstance(table, Mapping):
        return None
    nested = next((t for t in (table.get("full_attention"), table.get("sliding_attention")) if t), table)
    if not isinstance(nested, Mapping):
        return None
    theta = number(nested.get("rope_theta", layer.get("rope_theta", 10000.0)))
    kind = nested.get("rope_type", nested.get("type", "default"))
    if theta is None or not isinstance(kind, str):
        return None
    block = {k: v for k, v in nested.items() if k not in ("rope_type", "type", "rope_theta") and v is not None}
    return Rope(theta, kind, block, where if table else "rope_theta", "rope_theta" in nested or "rope_theta" in layer)


def yarn_magnitude(rope: Rope, *, reads_mscale: bool) -> float:
    """What SGLang's YaRN multiplies cos and sin by: get(mscale) / get(mscale_all_dim) x attn_factor, where
    get(m) = 0.1 m ln(factor) + 1; without both, or before 0.5.16, get(1) x attn_factor (rotary_embedding/yarn.py)."""
    extra = number(rope.block.get("attn_factor")) or 1.0
    mscale, all_dim = (number(rope.block.get(key)) for key in ("mscale", "mscale_all_dim"))
    if reads_mscale and mscale is not None and all_dim is not None:
        return _get(rope.factor, mscale) / _get(rope.factor, all_dim) * extra
    return _get(rope.factor, 1.0) * extra


def trained_magnitude(rope: Rope) -> float:
    """What Hugging Face's YaRN multiplies them by (transformers' `_compute_yarn_parameters`)."""
    given = number(rope.block.get("attention_factor"))
    mscale, all_dim = (number(rope.block.get(key)) for key in ("mscale", "mscale_all_dim"))
    if given is not None:
        return given
    if mscale is not None and all_dim is not None:
        return _get(rope.factor, mscale) / _get(rope.factor, all_dim)
    return _get(rope.factor, 1.0)


def number(value: Any) -> float | None:
    """A positive finite number, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 < value < 1e15 else None


def _get(factor: float, mscale: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0
