"""Every tensor that the draft class needs is in the file.

What: the names that the release's class builds for this config, against those in the headers that its loader places
(see tensors_known); biases too, where `bias` or `attention_bias` asks for them.

Why: what is not loaded stays as it was initialised. A missing `lm_head` or layer proposes noise: acceptance length
near 1.00. speculators calls the first norm of its later layers `input_layernorm`, SGLang `hidden_norm`.

Example: a draft with a reduced vocabulary and no `lm_head.weight`.

Remedy: export the draft again; `draftwire convert` renames.

Reports:
- https://github.com/vllm-project/vllm/pull/27737
- https://github.com/vllm-project/vllm/pull/28549
"""

from draftwire.case import Case
from draftwire.finding import Finding, error, ok

OUTER = ("fc.weight", "norm.weight", "embed_tokens.weight", "lm_head.weight")
NORMS = ("input_layernorm", "hidden_norm", "post_attention_layernorm")
MLP = ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
LLAMA = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj")
MLA = (
    "self_attn.q_a_proj", "self_attn.q_a_layernorm", "self_attn.q_b_proj", "self_attn.kv_a_proj_with_mqa",
    "self_attn.kv_a_layernorm", "self_attn.kv_b_proj", "self_attn.o_proj",
)  # fmt: skip
LAYER_PARTS = frozenset(NORMS + MLP + LLAMA + MLA)


def biases(case: Case) -> list[str]:
    """The biases that the release's class builds for this config: of fc, and of a Llama's o_proj (never of q, k, v)."""
    whole = bool(case.layer.get("bias"))
    if case.is_mla:
        return ["fc.bias"] if whole else []
    output = whole or bool(case.layer.get("attention_bias"))
    layers = [f"layers.{index}.self_attn.o_proj.bias" for index in range(_layers(case) if output else 0)]
    return (["fc.bias"] if whole else []) + layers


def check(case: Case) -> Finding:
    placed = {name for name in case.places.values() if name is not None}
    modules = {name.rpartition(".")[0] for name in placed}
    missing = [f"{module}.weight" for module in _needed(case) if module not in modules]
    missing += [name for name in biases(case) if name not in placed]
    if not missing:
        return ok("Nothing that is needed is missing.")
    more = f" and {len(missing) - 1} more" if missing[1:] else ""
    dropped = sorted(name for name, place in case.places.items() if place is None)
    spelled = [f"{dropped[0]} is in the file, and dropped for its spelling"] if dropped else []
    return error(
        f"There is no {missing[0]}{more}: it would stay at random.", *missing[:4], *spelled,
        remedy="Export the draft again, or run `draftwire convert`.",
    )  # fmt: skip


def _needed(case: Case) -> list[str]:
    parts = [*NORMS, *MLP, *(MLA if case.is_mla else LLAMA)]
    needed = ["fc", "norm"] if case.uses_states else ["norm"]
    for index in range(_layers(case)):
        needed += [f"layers.{index}.{part}" for part in parts if index == 0 or part != "input_layernorm"]
    if not _shares_embedding(case):
        needed.append("embed_tokens")
    if not case.layer.get("tie_word_embeddings") and not _takes_targets_head(case):
        needed.append("lm_head")
    return needed


def _layers(case: Case) -> int:
    return min(case.size("num_hidden_layers") or 1, 100)


def _shares_embedding(case: Case) -> bool:
    """Whether SGLang puts the target's embedding into the draft: where they are equally wide."""
    said = case.draft.config.get("target_hidden_size")
    return said in (None, case.layer.get("hidden_size")) and not case.flag("embed_requires_grad")


def _takes_targets_head(case: Case) -> bool:
    return case.draft.config.get("draft_vocab_size") is None and _shares_embedding(case)
