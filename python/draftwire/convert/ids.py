"""Layer ids: what the trainer meant by them, and how SGLang is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from draftwire.convert.target import Target
from draftwire.draft import Draft, DraftError
from draftwire_overlay.srt.configs.model_config import DEEPSEEK_FAMILY
from draftwire_overlay.srt.speculative.aux_boundaries import BOUNDARIES, IDS, resolve, wants_states

# Targets whose setter captures id + 1 in SGLang 0.5.14 to 0.5.23, read in both.
OUTPUT_FAMILY = {"LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM", "Qwen3MoeForCausalLM", "GptOssForCausalLM"}
SAY = "say them with --boundaries, such as --boundaries 0,3,31"


def read_boundaries(draft: Draft, target: Target, given: Sequence[int] | None) -> tuple[tuple[int, ...], list[str]]:
    """The boundaries of the target that feed the draft's fc, ascending, and what is worth saying of them.

    given: the user's word, which may not contradict the config's. Raises DraftError or WiringError where the ids
    have more than one meaning, none, or name layers that the target lacks.
    """
    source = str(draft.directory / "config.json")
    layers = target.num_layers if target.num_layers is not None else 2**20
    wanted = None
    if given is not None:
        wanted = resolve({"eagle_config": {BOUNDARIES: list(given)}}, num_layers=layers, release_rule="output",
                         source="--boundaries").boundaries  # fmt: skip
    nested = draft.config.get("eagle_config")
    raw = {name: draft.config.get(name) for name in ("eagle_config", IDS, BOUNDARIES)}
    if not wants_states(raw, source):
        raise DraftError(
            "a draft that reads captured states", "use_aux_hidden_state false", source, "serve it as it is, with EAGLE"
        )
    raw["speculators_model_type"] = draft.config.get("speculators_model_type")
    ids = nested.get(IDS) if isinstance(nested, dict) else None
    written = isinstance(nested, dict) and nested.get(BOUNDARIES) is not None
    if ids is None and raw[IDS] is None and not written:
        if wanted is None and draft.layout == "sglang" and target.num_layers:
            guess = (2, target.num_layers // 2, target.num_layers - 3)
            return guess, [
                f"no layer ids: boundaries {list(guess)} are SGLang's default, a guess; if it is wrong, {SAY}"
            ]
        if wanted is None:
            raise DraftError(f"{IDS}, the states that the draft was trained on", "none", source, SAY)
        return wanted, []
    if not written and _ambiguous(draft, ids, target):
        if wanted is None:
            raise DraftError(
                f"layer ids with one meaning for a target of {target.architecture or 'unknown architecture'}",
                f"{ids}: boundaries {ids} as inputs of layers or {[i + 1 for i in ids or []]} as outputs", source,
                SAY,
            )  # fmt: skip
        return wanted, []
    rule = "index_unless_1" if target.architecture in DEEPSEEK_FAMILY else "output"
    found = resolve(raw, num_layers=layers, release_rule=rule, source=source).boundaries
    if wanted is not None and wanted != found:
        raise DraftError(f"boundaries {list(found)}, as the ids say", list(wanted), "--boundaries", "leave it out")
    return found, []


def _ambiguous(draft: Draft, ids: Any, target: Target) -> bool:
    """Nested ids: an output's everywhere, but on DeepSeek and Kimi only where the first is -1 or 1."""
    plain = isinstance(ids, list) and bool(ids) and all(type(i) is int for i in ids)
    if not plain or draft.layout == "speculators":
        return False
    return target.architecture not in OUTPUT_FAMILY and -1 not in ids and ids[0] != 1


def write_ids(boundaries: Sequence[int], target: Target, source: object) -> tuple[dict[str, Any], list[str]]:
    """The part of `eagle_config` that tells SGLang these boundaries, and what of it only the overlay reads.

    On DeepSeek and Kimi the ids are the boundaries, in every release from 0.5.14, unless the first is 1: that list
    would be read as outputs, so it is written with a -1, which stops a stock server. Elsewhere ids are outputs.
    """
    wanted = list(boundaries)
    table: dict[str, Any] = {"use_aux_hidden_state": True}
    if target.architecture in DEEPSEEK_FAMILY:
        table |= {IDS: wanted, BOUNDARIES: wanted}
        return (table, []) if wanted[0] != 1 else ({**table, IDS: [-1, *wanted[1:]]}, ["boundary_1"])
    if target.architecture not in OUTPUT_FAMILY:
        known = ", ".join(sorted(DEEPSEEK_FAMILY | OUTPUT_FAMILY))
        raise DraftError(f"a target of {known}", target.architecture or "none named", source, "name it with --target")
    if wanted[0] == 0:
        raise DraftError(
            f"boundaries from 1 for a target of {target.architecture}", wanted, source,
            "train on other states: the embedding output is captured for DeepSeek and Kimi targets only",
        )  # fmt: skip
    return {**table, IDS: [b - 1 for b in wanted]}, []
