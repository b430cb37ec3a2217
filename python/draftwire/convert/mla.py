"""What a draft with multi-head latent attention may ask for: one dense layer, as `kimi_k25_eagle3` builds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from draftwire.convert.rope import read_block, require_numbers
from draftwire.draft import Draft, DraftError

YARN = ("factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "mscale", "mscale_all_dim")
NEEDED = YARN[:2]
PAIR = YARN[-2:]
EXPERTS = (".experts.", ".shared_experts.", ".mlp.gate.")


def require_served(draft: Draft, layer: Mapping[str, Any], requires: list[str], source: object) -> list[str]:
    """Notes on an MLA draft. Raises DraftError on what Eagle3MLAModel of SGLang 0.5.14 to 0.5.23 does not build.

    It builds one layer with a dense MLP and takes the target's embedding. Keys of a mixture of experts, which configs
    inherit from the target's, mean nothing to it: what the weights hold decides.
    """
    if layer.get("num_hidden_layers") != 1:
        raise DraftError(
            "num_hidden_layers 1 of an MLA draft", repr(layer.get("num_hidden_layers")), source,
            "train one layer: SGLang builds no more",
        )  # fmt: skip
    if layer.get("tie_word_embeddings"):
        raise DraftError(
            "an lm_head of its own in an MLA draft", "tie_word_embeddings", source,
            "store the head: SGLang would put the target's embedding in its place",
        )  # fmt: skip
    for name in requires:
        if name != "norm_before_fc":
            raise DraftError(
                f"an MLA draft without {name}", "it", source, f"train without {name}: no release serves it"
            )
    if layer.get("rope_interleave") is False:
        raise DraftError("rope_interleave true", "false", source, "permute the rope rows of q_b_proj and kv_a_proj")
    for name, tensor in draft.tensors.items():
        if any(part in name for part in EXPERTS):
            raise DraftError("a dense MLP in an MLA draft", repr(name), tensor.file, "train a dense draft layer")
    experts = layer.get("n_routed_experts")
    return [f"n_routed_experts {experts} is ignored: the draft's weights are one dense MLP"] if experts else []


def mla_rope(layer: Mapping[str, Any], source: object) -> dict[str, Any]:
    """`rope_theta` and `rope_scaling` of an MLA draft; `layer` as for rope.rope_block.

    SGLang reads every block there as DeepSeek's YaRN: magnitude get(mscale) / get(mscale_all_dim), which is 1 for a
    missing mscale and 0 for a missing mscale_all_dim; transformers reads the two together or not at all. Raises
    DraftError on a block of another type, with other keys, or with one of the two alone.
    """
    theta, kind, block = read_block(layer, source)
    require_numbers({"rope_theta": theta}, source)
    if kind == "default":
        if odd := sorted(block.keys() - {"original_max_position_embeddings"}):
            raise DraftError("a default RoPE block", f"also {odd[0]!r}", source, "write the trainer's RoPE block")
        return {"rope_theta": float(theta), "rope_scaling": None}
    if kind not in ("yarn", "deepseek_yarn"):
        raise DraftError(
            "a RoPE of type default or yarn in an MLA draft", repr(kind), source,
            "train with one of these: SGLang reads any other block as YaRN",
        )  # fmt: skip
    if lacks := [key for key in NEEDED if key not in block]:
        raise DraftError(f"{lacks[0]} of a yarn RoPE block", "none", source, "write the trainer's RoPE block")
    if odd := sorted(block.keys() - set(YARN)):
        raise DraftError(
            f"a yarn RoPE block of {', '.join(YARN)}", f"also {odd[0]!r}", source,
            "train without it: SGLang's MLA layer ignores it",
        )  # fmt: skip
    require_numbers(block, source)
    if len(block.keys() & set(PAIR)) == 1:
        raise DraftError(
            "mscale and mscale_all_dim together or neither", (block.keys() & set(PAIR)).pop(), source,
            "write both as the trainer's code read them",
        )  # fmt: skip
    return {"rope_theta": float(theta), "rope_scaling": {"rope_type": "yarn", **block}}
