"""How a draft computes, apart from which states feed it: what its config says and what a server makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from draftwire.case import Case
from draftwire.convert.flatten import NORMS
from draftwire.draft import Draft, DraftError
from draftwire.release import has
from draftwire.rope import number, read_rope, trained_magnitude, yarn_magnitude
from draftwire.switches import is_on, layer_config, wants_qk_norm

KEPT = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings", "beta_fast", "beta_slow",
        "truncate")  # fmt: skip
KINDS = ("default", "linear", "llama3", "yarn")


class Scaling(NamedTuple):
    """A RoPE: `kind` of transformers, base `theta`, further keys, and what cos and sin are multiplied by."""

    kind: str
    theta: float
    block: tuple[tuple[str, Any], ...]
    magnitude: float


class Settings(NamedTuple):
    """The axes around a choice of states. `window`: keys a token attends to, its own included, by layer; None: all.

    `d2t`: "offsets" or "ids", how the map to the target's vocabulary is read.
    """

    norm_before_residual: bool
    norm_before_fc: bool
    fc_norm: bool
    norm_output: bool
    qk_norm: bool
    rope: Scaling
    window: tuple[int | None, ...]
    d2t: str = "offsets"


def read_settings(draft: Draft) -> Settings:
    """As the draft's own config says it was trained. Raises DraftError on a RoPE or window that is none."""
    layer, config = layer_config(draft), draft.config
    norms = {name: is_on(config, name) for name in NORMS}
    norms["fc_norm"] = norms["fc_norm"] or bool(config.get("use_aux_norm"))
    qk_norm = wants_qk_norm(draft)
    before_residual, before_fc, fc_norm, output = (norms[name] for name in NORMS)
    return Settings(before_residual, before_fc, fc_norm, output, qk_norm, _rope(draft, layer), _windows(draft, layer))


def _rope(draft: Draft, layer: Mapping[str, Any]) -> Scaling:
    rope = read_rope(layer)
    source = draft.directory / "config.json"
    if rope is None or rope.kind not in KINDS:
        raise DraftError(f"a RoPE of {', '.join(KINDS)}", rope.kind if rope else "none", source, "correct the config")
    block = {key: rope.block[key] for key in KEPT if key in rope.block}
    if rope.kind in ("llama3", "yarn"):
        block.setdefault("original_max_position_embeddings", layer.get("max_position_embeddings"))
    bad = [k for k, v in block.items() if k != "truncate" and number(v) is None]
    if bad or (rope.kind != "default" and "factor" not in block):
        raise DraftError(f"a positive {(bad or ['factor'])[0]}", repr(block.get((bad or ["factor"])[0]))[:60], source,
                         "write the trainer's RoPE block")  # fmt: skip
    return Scaling(rope.kind, rope.theta, tuple(sorted(block.items())), _magnitude(rope))


def _magnitude(rope: Any) -> float:
    """As Hugging Face reads the block; `attn_factor`, which only SGLang and the converter know, where it stands."""
    if rope.kind != "yarn":
        return 1.0
    if number(rope.block.get("attn_factor")) and not number(rope.block.get("attention_factor")):
        return yarn_magnitude(rope, reads_mscale=True)
    return trained_magnitude(rope)


def _windows(draft: Draft, layer: Mapping[str, Any]) -> tuple[int | None, ...]:
    layers = layer.get("num_hidden_layers")
    count = layers if type(layers) is int and 0 < layers < 1000 else 1
    types, window = layer.get("layer_types"), layer.get("sliding_window")
    if not isinstance(types, list) or "sliding_attention" not in types:
        return (None,) * count
    if len(types) != count or type(window) is not int or window < 1:
        raise DraftError(f"layer_types for {count} layers and a sliding_window", f"{types} and {window!r}",
                         draft.directory / "config.json", "write what the draft was trained with")  # fmt: skip
    return tuple(window if kind == "sliding_attention" else None for kind in types)


def served_settings(case: Case) -> Settings:
    """What the server of a case computes with this draft's config: what a release does not read is not done.

    The patch brings norm_before_residual; q and k norms, windows and the MLA draft's norm before fc are the overlay's.
    """
    asked, release = read_settings(case.draft), case.release
    overlay = case.delivery == "overlay"
    top = case.draft.config
    mla = case.is_mla
    # Stock drafts read fc_norm and norm_output at the top only.
    fc_norm = bool(top.get("fc_norm") or top.get("use_aux_norm")) and has(release, "mla_norms" if mla else "fc_norm")
    norm_output = bool(top.get("norm_output")) and has(release, "mla_norms" if mla else "norm_output")
    return asked._replace(
        norm_before_residual=asked.norm_before_residual and case.delivery != "stock" and not mla,
        norm_before_fc=asked.norm_before_fc and (overlay or (not mla and has(release, "norm_before_fc"))),
        fc_norm=fc_norm,
        norm_output=norm_output,
        qk_norm=asked.qk_norm and overlay and "qk_norm" in case.requires,
        rope=_served_rope(case, asked.rope),
        window=_served_window(case, asked.window),
    )


def _served_rope(case: Case, asked: Scaling) -> Scaling:
    rope = read_rope(case.layer)
    if rope is None:
        return asked
    magnitude = asked.magnitude
    if rope.kind == "yarn" and not case.is_mla:
        magnitude = yarn_magnitude(rope, reads_mscale=has(case.release, "yarn_mscale"))
    if rope.where == "rope_parameters" and not has(case.release, "rope_parameters"):
        return Scaling("default", number(case.layer.get("rope_theta")) or 10000.0, (), 1.0)
    return asked._replace(magnitude=magnitude)


def _served_window(case: Case, asked: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """The overlay reads the config; a stock server has a flag, which counts the keys before a token."""
    if case.delivery == "overlay" and not case.is_mla and any(asked):
        return asked
    said = case.flags.number("speculative-draft-window-size") if case.flags else None
    if said is None or case.is_mla or not has(case.release, "window_flag"):
        return (None,) * len(asked)
    return (said + 1,) * len(asked)
