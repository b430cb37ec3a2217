"""An EAGLE-3 draft's tensors: none is dropped in silence and no parameter is left at random."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

FUSED = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
}
LEGACY = {
    "midlayer": "layers.0",
    "aux_norm_low": "fc_norm.0",
    "aux_norm_mid": "fc_norm.1",
    "aux_norm_high": "fc_norm.2",
}


def checked(draft: Any, weights: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The same pairs, for `load_weights`. Raises SystemExit at a name without a parameter, and at the end where a
    parameter did not come. A later update of weights may bring any part of them.

    draft: a LlamaForCausalLMEagle3. A quantised one has more tensors a module than these names tell: there modules
    are compared.
    """
    by_module = draft.quant_config is not None
    parameters = {name for name, _ in draft.named_parameters()}
    known = {_key(name, by_module) for parameter in parameters for name in _spellings(parameter)}
    source = getattr(draft.config, "_name_or_path", "") or "the draft"
    # A converted draft that stock SGLang would serve wrong holds this norm as [1, hidden], which stops that.
    marked = bool((getattr(draft.config, "eagle_config", None) or {}).get("requires"))
    seen = set()
    legacy = {} if any("midlayer" in parameter for parameter in parameters) else LEGACY
    for name, tensor in weights:
        full = name
        for old, new in legacy.items():
            full = full.replace(old, new)
        if _key(full, by_module) not in known and "d2t" not in full and "t2d" not in full:
            raise SystemExit(
                f"EAGLE-3 draft: expected no tensor that this release would drop; found {name!r} in {source}; "
                "rename it, or set the flag in the draft's config that it belongs to"
            )
        plain = full.removeprefix("model.")
        seen.add(_key(plain, by_module))
        if marked and plain.endswith("hidden_norm.weight") and tensor.ndim == 2:
            tensor = tensor.reshape(-1)
        yield name, tensor
    missing = sorted({_key(name, by_module) for name in _needed(draft, parameters)} - seen)
    if missing and not getattr(draft, "weights_were_checked", False):
        raise SystemExit(
            f"EAGLE-3 draft: expected the tensor {missing[0]!r}; found none in {source}; export the draft again, or "
            "clear the flag in its config that it belongs to"
        )
    draft.weights_were_checked = True


def checkpoint_names(parameter: str) -> list[str]:
    """What a parameter is called in a checkpoint, without `model.`: the parts of a fused one each."""
    plain = parameter.removeprefix("model.")
    for fused, parts in FUSED.items():
        if f".{fused}." in plain:
            return [plain.replace(fused, part) for part in parts]
    return [plain]


def _spellings(parameter: str) -> list[str]:
    """Those of `checkpoint_names`, and for what lies in the model the same behind `model.`: the head has one."""
    names = checkpoint_names(parameter)
    return [*names, *(f"model.{name}" for name in names if parameter.startswith("model."))]


def _key(name: str, by_module: bool) -> str:
    return name.rpartition(".")[0] or name if by_module else name


def _needed(draft: Any, parameters: set[str]) -> set[str]:
    config = draft.config
    names = {name for parameter in parameters for name in checkpoint_names(parameter)}
    # Layers after the first keep this norm and never run it.
    names = {n for n in names if not n.endswith(".input_layernorm.weight") or n.startswith(("layers.0.", "midlayer."))}
    if getattr(config, "target_hidden_size", None) in (None, config.hidden_size):
        names.discard("embed_tokens.weight")  # the target's
    if draft.load_lm_head_from_target:
        names.discard("lm_head.weight")
    elif not config.tie_word_embeddings and config.draft_vocab_size < config.vocab_size:
        names.add("d2t")
    return names
