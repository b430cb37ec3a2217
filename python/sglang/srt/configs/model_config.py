"""A draft's layer ids are read once, where its config becomes a ModelConfig.

Why: capture, buffer width, `use_aux` and the draft's `fc` are read at four places from two keys, in part
    inside a bare `except`; a list that one of them misses makes the server slow, not fail.
Upstream: none; speculative decoding reads the config in each place anew.
Drop when: SGLang resolves a draft's layer ids in one place and refuses what it cannot read.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from draftwire.refusal import refuse
from draftwire_overlay.srt.speculative.aux_boundaries import (
    BOUNDARIES,
    IDS,
    Wiring,
    WiringError,
    require_reachable,
    resolve,
    wants_states,
)

logger = logging.getLogger("draftwire")

# Targets whose `set_eagle3_layers_to_capture` is DeepseekV2ForCausalLM's own, inherited or delegated to.
DEEPSEEK_FAMILY = frozenset(
    {
        "DeepseekV2ForCausalLM",
        "DeepseekV3ForCausalLM",
        "DeepseekV32ForCausalLM",
        "KimiK25ForConditionalGeneration",
    }
)


class CaptureList(list):
    """Boundaries in place of layer ids, the `wiring` they were resolved from and the target's `hidden_size`."""

    wiring: Wiring
    hidden_size: int


class ModelConfig:
    def from_server_args(original, server_args, *args, **kwargs):
        """Upstream's ModelConfig; for an EAGLE-3 draft, with its ids resolved in `hf_config.eagle_config`."""
        config = original(server_args, *args, **kwargs)
        algorithm = str(server_args.speculative_algorithm or "").upper()
        if config.is_draft_model and algorithm in ("EAGLE3", "EAGLE", "NEXTN"):
            source = f"{config.model_path}/config.json"
            try:
                if algorithm == "EAGLE3":
                    _normalise(config.hf_config, original(server_args), server_args, source)
                else:
                    _refuse_eagle(config.hf_config, algorithm, source)
            except WiringError as error:
                refuse(error)
        return config


def _refuse_eagle(draft: Any, algorithm: str, source: str) -> None:
    nested = getattr(draft, "eagle_config", None)
    signs = [name for name in getattr(draft, "architectures", None) or [] if "eagle3" in name.lower()]
    signs += [f"with {IDS}" for table in (nested, vars(draft)) if isinstance(table, dict) and table.get(IDS)]
    if signs:
        raise WiringError(
            f"--speculative-algorithm EAGLE3 for the draft {signs[0]}",
            f"--speculative-algorithm {algorithm}",
            f"the launch flags beside {source}",
            "EAGLE captures no aux hidden states and the draft's fc would be skipped",
        )


def _normalise(draft: Any, target: Any, server_args: Any, source: str) -> None:
    """Resolve the ids of `draft` (its hf_config) and write what every later reader will see into it."""
    raw = {name: getattr(draft, name, None) for name in ("eagle_config", IDS, BOUNDARIES, "speculators_model_type")}
    if not wants_states(raw, source):
        logger.warning("draftwire: %s wants no aux hidden states, nothing to wire", source)
        return
    eagle_config = raw["eagle_config"] or {}
    architecture = (getattr(target.hf_config, "architectures", None) or ["unknown"])[0]
    if architecture not in DEEPSEEK_FAMILY:
        _leave_alone(raw, architecture, source)
        return
    text = target.hf_text_config
    wiring = resolve(raw, num_layers=text.num_hidden_layers, release_rule="index_unless_1", source=source)
    dense = getattr(text, "first_k_dense_replace", 0)
    require_reachable(
        wiring,
        pipeline=getattr(server_args, "pp_size", 1) or 1,
        two_batch_overlap_from=dense if getattr(server_args, "enable_two_batch_overlap", False) else None,
    )
    count = getattr(draft, "num_aux_hidden_states", None)
    if count not in (None, len(wiring.boundaries)):
        raise WiringError(
            f"num_aux_hidden_states {len(wiring.boundaries)}, as many as boundaries {list(wiring.boundaries)}",
            repr(count),
            source,
            "correct the count or the ids",
        )
    width = getattr(draft, "target_hidden_size", None)
    if width not in (None, text.hidden_size):
        raise WiringError(
            f"target_hidden_size {text.hidden_size}, the target's hidden_size",
            repr(width),
            source,
            "serve the target that the draft was trained for",
        )
    if len(wiring.boundaries) * text.hidden_size == getattr(draft, "hidden_size", None):
        raise WiringError(
            f"a draft narrower or wider than its {len(wiring.boundaries)} x {text.hidden_size} captured values",
            f"hidden_size {draft.hidden_size}",
            source,
            "SGLang tells captured states from fed-back ones by their width and would skip fc",
        )
    if wiring.rule == "default":
        logger.warning("draftwire: %s holds no layer ids; the release's default is a guess: %s", source, wiring)
    captured = CaptureList(wiring.boundaries)
    captured.wiring, captured.hidden_size = wiring, text.hidden_size
    draft.eagle_config = {**eagle_config, "use_aux_hidden_state": True, IDS: captured}
    draft.num_aux_hidden_states = len(captured)


def _leave_alone(raw: dict[str, Any], architecture: str, source: str) -> None:
    """Another family's target keeps its release's own rule, where the ids are plain nested ones."""
    eagle_config = raw["eagle_config"] or {}
    nested = eagle_config.get(IDS)
    plain = nested is None or (isinstance(nested, list) and -1 not in nested)
    if not plain or raw[IDS] or eagle_config.get(BOUNDARIES):
        raise WiringError(
            f"nested ids without -1 for a target of {architecture}",
            f"{eagle_config or ''} {IDS} {raw[IDS]}",
            source,
            f"draftwire wires targets of {', '.join(sorted(DEEPSEEK_FAMILY))}; write this release's own ids, "
            "or set DRAFTWIRE=off",
        )
    logger.warning(
        "draftwire: %s ids %s are read by this release's own rule for %s", Path(source).parent, nested, architecture
    )
