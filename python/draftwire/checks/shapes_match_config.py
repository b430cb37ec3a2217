"""Every matrix of the draft's layers has the shape that the config's sizes give it.

What: headers of attention, MLP, embedding and head against hidden size, heads, head_dim, key-value heads, intermediate
size (of a `llama4_text` draft: `intermediate_size_mlp`) and the vocabularies. The first layer reads embedding and
state side by side: twice the hidden size. A first norm of [1, H] is the mark of `draftwire convert`: no stock release
loads it.

Why: a weight of another shape ends the start in the weight loader, after the target has loaded. Keys and values do not:
the loader takes as many rows as it was told of heads, in silence, and the draft attends to noise.

Example: `num_key_value_heads` 8 in the config of a draft that was trained with 4.

Remedy: correct the config, or export the draft again; for a marked norm, serve with the overlay.

Reports:
- https://github.com/sgl-project/sglang/pull/8163
- https://github.com/lightseekorg/tokenspeed/pull/913
"""

from draftwire.case import Case
from draftwire.finding import Finding, error, ok, skipped

FLOATS = ("BF16", "F16", "F32", "F64")
INNER = "intermediate_size"
MLA_SIZES = ("q_lora_rank", "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")


def check(case: Case) -> Finding:
    # Llama 4 calls the width of a dense MLP otherwise, and the Llama draft follows it by this name.
    inner = "intermediate_size_mlp" if case.layer.get("model_type") == "llama4_text" and not case.is_mla else INNER
    sizes = {key: case.size(key) for key in ("hidden_size", inner, "num_attention_heads", "vocab_size")}
    if case.is_mla:
        sizes |= {key: case.size(key) for key in MLA_SIZES}
    if unknown := [key for key, size in sizes.items() if size is None]:
        return error(f"The config says no usable {unknown[0]}.", "config.json", remedy="Export the draft again.")
    expected = _expected(case, sizes | {INNER: sizes[inner]})
    whole = [name for name in expected if (t := case.tensor(name)) is not None and t.dtype in FLOATS]
    if not whole:
        return skipped("no tensor of the layers is stored in floating point")
    for name in whole:
        tensor = case.tensor(name)
        # `draftwire convert` marks what no stock release serves by a first norm of [1, H].
        is_mark = case.delivery != "stock" and case.requires and name == "layers.0.hidden_norm.weight"
        shape = tensor.shape[1:] if is_mark and tensor.shape[:1] == (1,) else tensor.shape
        if shape != expected[name]:
            return error(
                f"{name} should be {list(expected[name])}, by the config's sizes.",
                f"{list(tensor.shape)} in {tensor.file.name}", remedy="Correct the config, or export the draft again.",
            )  # fmt: skip
    return ok(f"{len(whole)} tensors have the shapes that the config gives them.")


def _expected(case: Case, sizes: dict) -> dict[str, tuple[int, ...]]:
    hidden, inner, heads = sizes["hidden_size"], sizes[INNER], sizes["num_attention_heads"]
    shapes = {
        "norm.weight": (hidden,),
        "embed_tokens.weight": (sizes["vocab_size"], hidden),
        "lm_head.weight": (case.draft_vocab_size, hidden),
    }
    layers = case.size("num_hidden_layers") or 1
    for index in range(min(layers, 100)):
        width = 2 * hidden if index == 0 else hidden
        shapes |= {f"layers.{index}.{norm}.weight": (hidden,) for norm in ("hidden_norm", "post_attention_layernorm")}
        shapes |= {f"layers.{index}.mlp.{part}.weight": (inner, hidden) for part in ("gate_proj", "up_proj")}
        shapes[f"layers.{index}.mlp.down_proj.weight"] = (hidden, inner)
        attention = _mla(sizes, heads, width) if case.is_mla else _llama(case, hidden, heads, width)
        shapes |= {f"layers.{index}.self_attn.{part}.weight": shape for part, shape in attention.items()}
    return shapes


def _llama(case: Case, hidden: int, heads: int, width: int) -> dict[str, tuple[int, ...]]:
    dim, groups = case.size("head_dim") or hidden // heads, case.size("num_key_value_heads") or heads
    return {
        "q_proj": (heads * dim, width), "k_proj": (groups * dim, width),
        "v_proj": (groups * dim, width), "o_proj": (hidden, heads * dim),
    }  # fmt: skip


def _mla(sizes: dict, heads: int, width: int) -> dict[str, tuple[int, ...]]:
    query, latent, rope = sizes["q_lora_rank"], sizes["kv_lora_rank"], sizes["qk_rope_head_dim"]
    return {
        "q_a_proj": (query, width), "q_b_proj": (heads * (sizes["qk_nope_head_dim"] + rope), query),
        "kv_a_proj_with_mqa": (latent + rope, width),
        "kv_b_proj": (heads * (sizes["qk_nope_head_dim"] + sizes["v_head_dim"]), latent),
        "o_proj": (sizes["hidden_size"], heads * sizes["v_head_dim"]),
    }  # fmt: skip
