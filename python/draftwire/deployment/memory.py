"""The memory of one GPU: what a target, its draft, graphs and activations take, and the KV cache that is left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil, floor
from typing import NamedTuple

from draftwire.deployment.geometry import Draft, Target, Weight, draft_weights, target_weights

MIB = 1024 * 1024
# Taken before weights load: CUDA context, NCCL, all-reduce buffers. Assumed, not measured.
TAKEN = 1536 * MIB
PAGES = 1024


class Layout(NamedTuple):
    """How eight ranks serve: `dp` groups of attention, requests in all, decode graphs and prefill chunk of one launch.

    `least`: KV tokens a rank must have room for.
    """

    dp: int
    running: int
    graphs: tuple[int, ...]
    chunk: int
    least: int
    tp: int = 8

    @property
    def attention(self) -> int:
        """Ranks that share a token's attention."""
        return self.tp // self.dp


class Sum(NamedTuple):
    """Bytes of one GPU, KV bytes a token, and what follows: `fraction` for mem-fraction-static, `tokens` of KV cache.

    `copies`: kv_b_proj once more, as the two matrices that MLA's absorbed attention multiplies by.
    """

    total: int
    target: int
    copies: int
    draft: int
    reserve: int
    images: int
    target_token: int
    draft_token: int
    fraction: float
    tokens: int

    @property
    def weights(self) -> int:
        return self.target + self.copies + self.draft

    @property
    def kv(self) -> int:
        return self.tokens * (self.target_token + self.draft_token)

    @property
    def spare(self) -> int:
        """What no line names: rounding of the fraction and of the tokens."""
        return self.total - TAKEN - self.weights - self.kv - self.reserve - self.images


def rank_bytes(weights: Iterable[Weight], layout: Layout) -> int:
    """Bytes of the weights that one rank holds. MTP layers are not loaded."""
    ways = {"all": layout.tp, "attention": layout.attention, "none": 1}
    return sum(ceil(w.size / ways[w.split]) for w in weights if not w.part.startswith("mtp"))


def draft_bytes(draft: Draft, layout: Layout) -> int:
    """One rank's draft without an embedding, which is the target's. Under DP attention it is whole on every rank."""
    return rank_bytes((w for w in draft_weights(draft) if w.part != "embedding"), layout)


def absorbed_bytes(target: Target, layout: Layout) -> int:
    """One rank's second copy of kv_b_proj in bfloat16, an upper bound: a release may keep it in FP8."""
    return 2 * target.layers * target.heads * (target.nope + target.v) * target.kv_rank // layout.attention


def target_token_bytes(target: Target, width: int = 2) -> int:
    """KV bytes of a token: a latent and its rope part a layer, on every rank that attends to it. width: of a number."""
    return target.layers * (target.kv_rank + target.rope) * width


def draft_token_bytes(draft: Draft, layout: Layout, width: int = 2) -> int:
    """The draft layer's KV bytes of a token on one rank."""
    if draft.mla:
        return (draft.mla.kv_rank + draft.mla.rope) * width
    return 2 * ceil(draft.kv_heads / layout.attention) * draft.head_dim * width


def reserve_bytes(layout: Layout, total: int) -> int:
    """CUDA graphs and activations as SGLang estimates them where mem-fraction-static is left to it.

    Source: `handle_gpu_memory_settings` and `reserve_for_graph_mb` in 0.5.23's arg_groups/memory_hook.py, MLA target.
    """
    largest = max(layout.graphs)
    mib = 512 + 1.5 * max(layout.chunk // layout.dp, 2048) + layout.tp / 8 * 1024 + 2 * largest + 1.5 * 1024
    if layout.dp > 1:
        mib += largest * layout.dp * (4.5 if largest > 300 else 3)
    return int(max(mib, 10 * 1024 if total > 60 * 1024 * MIB else 0) * MIB)


def image_factor(layers: int, hidden: int) -> float:
    """What SGLang multiplies the static share by for an image tower: `adjust_mem_fraction_for_vlm`, the same file."""
    more = layers * hidden**2 / (24 * 1024**2) - 1
    return 0.95 * max(0.8, min(1.05, 1 - 0.1 * more))


def add_up(
    target: Target, storage: Mapping[str, str], draft: Draft, layout: Layout, total: int, images: float = 1.0
) -> Sum:
    """The sum for a GPU of `total` bytes; images: `image_factor`, 1 for a model without images.

    `tokens` is 0 or less where the weights leave no room.
    """
    reserve = reserve_bytes(layout, total)
    share = 1 - reserve / total
    fraction = floor(100 * share * images) / 100
    weights = rank_bytes(target_weights(target, storage), layout)
    copies, drafted = absorbed_bytes(target, layout), draft_bytes(draft, layout)
    tokens = (target_token_bytes(target), draft_token_bytes(draft, layout))
    left = fraction * (total - TAKEN) - weights - copies - drafted
    return Sum(
        total, weights, copies, drafted, reserve, int(share * (1 - images) * (total - TAKEN)), *tokens, fraction,
        floor(left / sum(tokens) / PAGES) * PAGES,
    )  # fmt: skip
