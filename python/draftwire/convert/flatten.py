"""The config of any layout as SGLang's draft classes read it, one flat table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from draftwire.convert.geometry import read_geometry
from draftwire.convert.mla import mla_rope, require_served
from draftwire.convert.rope import rope_block
from draftwire.convert.target import Target
from draftwire.convert.trainer import speculators_version
from draftwire.convert.windows import SLIDING, read_windows
from draftwire.draft import MLA_CLASS, Draft, DraftError
from draftwire.release import RELEASES, has

NORMS = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output")
OLDEST = "0.5.14"
# Stock releases before would read the ids that are written as other layers, and no overlay runs there.
SERVED = RELEASES[RELEASES.index(OLDEST) :]
# ModelOpt's switches, and the value that SGLang's draft is built for.
MODELOPT = {
    "use_input_layernorm_in_first_layer": True,
    "use_last_layernorm": True,
    "use_mtp_layernorm": False,
    "next_layer_regular": True,
    "parallel_draft_step": 1,
}


class Flat(NamedTuple):
    """`config`: top-level keys; `eagle_config`: what goes there beside the ids; `requires`: see features.KNOWN."""

    config: dict[str, Any]
    eagle_config: dict[str, Any]
    requires: list[str]
    steps: int
    notes: list[str]


def flatten(draft: Draft, target: Target, release: str = "") -> Flat:
    """The draft's config for SGLang of `release` (default any that the overlay serves).

    Raises DraftError on a key that is missing, of another type, or that asks for what SGLang's draft cannot do.
    """
    source = draft.directory / "config.json"
    outer = draft.config
    layer = _layer_config(draft)
    if outer.get("quantization_config") or layer.get("quantization_config"):
        raise DraftError("a draft that is not quantised", "quantization_config", source, "convert its bfloat16 weights")
    release = _known(release)
    trainer = speculators_version(outer, source) if draft.layout == "speculators" else None
    config = read_geometry(layer, outer, draft.layout, source)
    config |= {"architectures": [MLA_CLASS if draft.layout == "mla" else "LlamaForCausalLMEagle3"]}
    also = SLIDING if trainer else ""
    config |= mla_rope(layer, source) if draft.layout == "mla" else rope_block(layer, source, also=also)
    config["target_hidden_size"] = _target_hidden(outer, config, target, source)
    if target.vocab_size is not None and config["vocab_size"] != target.vocab_size:
        raise DraftError(
            f"vocab_size {target.vocab_size}, the target's", config["vocab_size"], source, "name the draft's own target"
        )
    norms = {name: _flag(outer, name, source) for name in NORMS}
    norms["fc_norm"] = norms["fc_norm"] or _flag(outer, "use_aux_norm", source)
    if norms["norm_before_fc"] and norms["fc_norm"]:
        raise DraftError("norm_before_fc or fc_norm", "both", source, "keep the one that the draft was trained with")
    config |= norms
    _require_modelopt(outer, source)
    requires = ["norm_before_residual"] if norms["norm_before_residual"] else []
    if norms["norm_before_fc"] and (draft.layout == "mla" or not has(release, "norm_before_fc")):
        requires.append("norm_before_fc")
    if layer.get("model_type") == "qwen3":
        requires.append("qk_norm")
    types, window, notes = read_windows(layer, config["num_hidden_layers"], trainer, source)
    if SLIDING in types:
        config |= {"layer_types": types, "sliding_window": window}
        requires.append("sliding_window")
    tied = config["tie_word_embeddings"] and config["target_hidden_size"] == config["hidden_size"]
    if tied or _flag(outer, "embed_requires_grad", source):
        requires.append("own_embedding")
    if draft.layout == "mla":
        notes += require_served(draft, layer, requires, source)
    nested = {"norm_before_fc": True} if norms["norm_before_fc"] else {}
    return Flat(config, nested, requires, _steps(outer, source), notes)


def _layer_config(draft: Draft) -> Mapping[str, Any]:
    if draft.layout != "speculators":
        return draft.config
    layer = draft.config.get("transformer_layer_config")
    if not isinstance(layer, dict):
        raise DraftError(
            "transformer_layer_config", repr(layer), draft.directory / "config.json", "save with speculators 0.5 to 0.9"
        )
    return layer


def _flag(outer: Mapping[str, Any], name: str, source: object) -> bool:
    nested = outer.get("eagle_config")
    values = [table.get(name) for table in (outer, nested) if isinstance(table, dict) and table.get(name) is not None]
    if not all(isinstance(value, bool) for value in values) or len(set(values)) > 1:
        raise DraftError(f"true or false for {name}", values, source, "write what the draft was trained with")
    return bool(values and values[0])


def _require_modelopt(outer: Mapping[str, Any], source: object) -> None:
    nested = outer.get("eagle_config")
    if not isinstance(nested, dict):
        return
    for key, wanted in MODELOPT.items():
        if nested.get(key) not in (None, wanted):
            raise DraftError(
                f"{key} {wanted}",
                nested[key],
                f"eagle_config of {source}",
                f"train with {key} {wanted}: no release serves another",
            )


def _target_hidden(outer: Mapping[str, Any], config: Mapping[str, Any], target: Target, source: object) -> int:
    width = outer.get("target_hidden_size")
    width = config["hidden_size"] if width is None else width
    if type(width) is not int or width <= 0:
        raise DraftError("target_hidden_size as a whole number", repr(width), source, "write the target's hidden_size")
    if target.hidden_size not in (None, width):
        raise DraftError(f"target_hidden_size {target.hidden_size}", width, source, "name the draft's own target")
    return width


def _steps(outer: Mapping[str, Any], source: object) -> int:
    """Draft tokens a step: what the trainer proposes by default, else 3."""
    outer_config = outer.get("speculators_config")
    methods = outer_config.get("proposal_methods") if isinstance(outer_config, dict) else None
    first = methods[0] if isinstance(methods, list) and methods else {}
    steps = first.get("speculative_tokens", 3) if isinstance(first, dict) else 3
    if type(steps) is not int or not 1 <= steps <= 64:
        raise DraftError("speculative_tokens of 1 to 64", repr(steps), source, "write the trainer's number of steps")
    return steps


def _known(release: str) -> str:
    """The release without its local part (+cu130), OLDEST where none is named; patched trees are older than that."""
    plain = release.split("+")[0] if release else OLDEST
    if plain not in RELEASES:
        raise DraftError(
            f"a release of {RELEASES[0]} to {RELEASES[-1]}",
            repr(release),
            "--release",
            "name the SGLang that will serve",
        )
    return plain
