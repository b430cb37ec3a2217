"""Every weight of a DeepSeek-type target and of an EAGLE-3 draft, from the sizes in their configs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import ceil, prod
from typing import Any, NamedTuple

FP8_BLOCK = 128
INT4_GROUP = 32


class Target(NamedTuple):
    """Sizes of a DeepSeek-V3-type target. `vision`: parameters of an image tower and its projector.

    `mtp`: whether the checkpoint ends with a multi-token-prediction layer, which an EAGLE-3 server does not load.
    """

    layers: int
    dense_layers: int
    hidden: int
    vocab: int
    heads: int
    q_rank: int
    kv_rank: int
    nope: int
    rope: int
    v: int
    dense_width: int
    experts: int
    expert_width: int
    shared_experts: int
    vision: int = 0
    mtp: bool = False


class Draft(NamedTuple):
    """Sizes of a one-layer EAGLE-3 draft; `mla` as the target's where its attention is MLA, else heads of `head_dim`.

    `vocab`: of its head, `embedding`: rows of an embedding of its own in the file (0: none). `states`: captured ones.
    """

    hidden: int
    states: int
    width: int
    vocab: int
    heads: int
    kv_heads: int = 0
    head_dim: int = 0
    mla: Target | None = None
    embedding: int = 0
    target_vocab: int = 0


class Weight(NamedTuple):
    """`times` tensors of one shape, stored as f32, bf16, i64, bool, fp8 (blocks of 128 by 128) or int4 (groups of 32).

    `split`: what divides it: "all" ranks, the "attention" ranks (those that share a token), or "none".
    """

    part: str
    shape: tuple[int, ...]
    times: int
    storage: str
    split: str

    @property
    def parameters(self) -> int:
        return prod(self.shape) * self.times

    @property
    def size(self) -> int:
        """Bytes in a checkpoint, quantisation scales (float32 a block, bfloat16 a group) included."""
        elements = prod(self.shape)
        if self.storage == "fp8":
            blocks = ceil(self.shape[0] / FP8_BLOCK) * ceil(self.shape[1] / FP8_BLOCK)
            return (elements + 4 * blocks) * self.times
        if self.storage == "int4":
            return (elements // 2 + 2 * self.shape[0] * ceil(self.shape[1] / INT4_GROUP)) * self.times
        return elements * {"bool": 1, "bf16": 2, "f32": 4, "i64": 8}[self.storage] * self.times


def read_target(config: Mapping[str, Any]) -> Target:
    """From a target's config.json. Raises KeyError on a config of another kind."""
    names = ("num_hidden_layers", "first_k_dense_replace", "hidden_size", "vocab_size", "num_attention_heads",
             "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "intermediate_size",
             "n_routed_experts", "moe_intermediate_size", "n_shared_experts")  # fmt: skip
    return Target(*(config[name] for name in names))


def read_draft(config: Mapping[str, Any]) -> Draft:
    """From a Llama-type draft's config.json, three states where it names none. Raises KeyError."""
    ids = config.get("eagle_config", {}).get("eagle_aux_hidden_state_layer_ids") or (0,) * 3
    heads = config["num_attention_heads"]
    return Draft(config["hidden_size"], len(ids), config["intermediate_size"], config["draft_vocab_size"], heads,
                 config["num_key_value_heads"], config["head_dim"], target_vocab=config["vocab_size"])  # fmt: skip


def target_weights(target: Target, storage: Mapping[str, str]) -> Iterator[Weight]:
    """All weights, the MTP layer's as parts that begin with "mtp".

    storage: of the matrices of "attention", "dense", "shared" and "experts"; bfloat16 where it says nothing.
    """
    t, sparse = target, target.layers - target.dense_layers
    yield Weight("embedding", (t.vocab, t.hidden), 1, "bf16", "attention")
    yield Weight("head", (t.vocab, t.hidden), 1, "bf16", "all")
    yield Weight("norms", (t.hidden,), 1, "bf16", "none")
    yield from _attention(t, t.layers, storage)
    yield from _mlp("dense", t.hidden, t.dense_width, t.dense_layers, storage)
    yield from _mixture(t, sparse, storage)
    if t.vision:
        yield Weight("vision", (t.vision,), 1, "bf16", "none")
    if t.mtp:
        more = [*_attention(t, 1, storage), *_mixture(t, 1, storage)]
        more += [Weight("matrix", (t.hidden, 2 * t.hidden), 1, "bf16", "none")]
        more += [Weight("ends", (t.vocab, t.hidden), 2, "bf16", "all"), Weight("norms", (t.hidden,), 3, "bf16", "none")]
        yield from (weight._replace(part=f"mtp {weight.part}") for weight in more)


def _attention(t: Target, layers: int, storage: Mapping[str, str], inputs: int = 1) -> Iterator[Weight]:
    """`inputs`: how many hidden states side by side enter the projections down."""
    kind = storage.get("attention", "bf16")
    for rows, columns, split in (
        (t.q_rank, inputs * t.hidden, "none"),
        (t.kv_rank + t.rope, inputs * t.hidden, "none"),
        (t.heads * (t.nope + t.rope), t.q_rank, "attention"),
        (t.heads * (t.nope + t.v), t.kv_rank, "attention"),
        (t.hidden, t.heads * t.v, "attention"),
    ):
        yield Weight("attention", (rows, columns), layers, kind, split)
    yield Weight("norms", (t.q_rank + t.kv_rank,), layers, "bf16", "none")
    yield Weight("norms", (t.hidden,), 2 * layers, "bf16", "none")


def _mlp(part: str, hidden: int, width: int, count: int, storage: Mapping[str, str]) -> Iterator[Weight]:
    kind = storage.get(part, "bf16")
    yield Weight(part, (width, hidden), 2 * count, kind, "all")
    yield Weight(part, (hidden, width), count, kind, "all")


def _mixture(t: Target, layers: int, storage: Mapping[str, str]) -> Iterator[Weight]:
    yield Weight("router", (t.experts, t.hidden), layers, "bf16", "none")
    yield Weight("router", (t.experts,), layers, "f32", "none")
    yield from _mlp("shared", t.hidden, t.expert_width * t.shared_experts, layers, storage)
    yield from _mlp("experts", t.hidden, t.expert_width, layers * t.experts, storage)


def draft_weights(draft: Draft) -> Iterator[Weight]:
    """All weights in bfloat16. `fc` is whole on every rank for a Llama type, and for MLA up to 0.5.14 or so."""
    d = draft
    yield Weight("fc", (d.hidden, d.hidden * d.states), 1, "bf16", "none")
    if d.mla:
        yield from _attention(d.mla._replace(hidden=d.hidden), 1, {}, inputs=2)
    else:
        yield Weight("layer", (d.heads * d.head_dim, 2 * d.hidden), 1, "bf16", "attention")
        yield Weight("layer", (d.kv_heads * d.head_dim, 2 * d.hidden), 2, "bf16", "attention")
        yield Weight("layer", (d.hidden, d.heads * d.head_dim), 1, "bf16", "attention")
        yield Weight("norms", (d.hidden,), 2, "bf16", "none")
    yield Weight("layer", (d.width, d.hidden), 3, "bf16", "attention")
    yield Weight("norms", (d.hidden,), 2, "bf16", "none")
    yield Weight("head", (d.vocab, d.hidden), 1, "bf16", "attention")
    yield Weight("map", (d.vocab,), 1, "i64", "none")
    yield Weight("map", (d.target_vocab,), 1, "bool", "none")
    if d.embedding:
        yield Weight("embedding", (d.embedding, d.hidden), 1, "bf16", "none")


def parameters(weights: Iterable[Weight]) -> int:
    return sum(weight.parameters for weight in weights)


def checkpoint_bytes(weights: Iterable[Weight]) -> int:
    return sum(weight.size for weight in weights)
