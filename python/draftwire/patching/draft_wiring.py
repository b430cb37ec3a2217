"""An EAGLE-3 draft's layer ids, read once: where its config is loaded.

Every later reader (the capture, the draft's fc, the buffers) sees boundaries of the target in
`hf_config.eagle_config`, as `aux_boundaries` resolves them. What cannot be served as written ends the server.
"""

from __future__ import annotations

import functools
import logging
from typing import Any

from sglang.srt.speculative.aux_boundaries import (
    BOUNDARIES,
    IDS,
    Wiring,
    WiringError,
    require_reachable,
    resolve,
    wants_states,
)

logger = logging.getLogger(__name__)

# Targets whose `set_eagle3_layers_to_capture` is DeepseekV2ForCausalLM's own, inherited or delegated to.
DEEPSEEK_FAMILY = (*(f"Deepseek{v}ForCausalLM" for v in ("V2", "V3", "V32")), "KimiK25ForConditionalGeneration")
# What a converted draft may ask for in `eagle_config.requires`: the others need more than this patch.
SERVED = ("norm_before_residual", "boundary_1")
ALGORITHMS = ("EAGLE3", "EAGLE", "NEXTN")


class CaptureList(list):
    """Boundaries in place of layer ids, with the `wiring` that they were resolved from."""

    wiring: Wiring


def resolves_draft_ids(nested_ids: str, *, states: int | None = None, embedding_ahead_of_loop: bool = False):
    """Decorate `ModelConfig.from_server_args`, so that an EAGLE-3 draft's config speaks of boundaries.

    nested_ids: the rule (of `aux_boundaries.RULES`) by which this release reads ids without -1.
    states: how many states a draft must read; None where its fc takes any number.
    embedding_ahead_of_loop: the embedding is captured as it enters the layers, where it must be whole.
    A config that cannot be served raises SystemExit, which no `except Exception` of a worker holds up.
    """

    def decorate(load):
        @functools.wraps(load)
        def from_server_args(server_args, *args, **kwargs):
            config = load(server_args, *args, **kwargs)
            algorithm = _algorithm(server_args)
            if config.is_draft_model and algorithm in ALGORITHMS:
                source = f"{config.model_path}/config.json"
                try:
                    _read_features(config.hf_config, source)
                    if algorithm != "EAGLE3":
                        _refuse_eagle(config.hf_config, algorithm, source)
                    elif wants_states(_raw(config.hf_config), source):
                        target = load(server_args)
                        ids = read_ids(config.hf_config, target, nested_ids, source)
                        if ids is not None:
                            _require_servable(ids, config.hf_config, target, states, source)
                            require_captured(ids.wiring, target, server_args, embedding_ahead_of_loop)
                            _write(ids, config.hf_config)
                except WiringError as error:
                    raise SystemExit(f"EAGLE-3 draft: {error}") from None
            return config

        return from_server_args

    return decorate


def requires_wirable_draft(check):
    """Decorate `ServerArgs.check_server_args`: a draft is refused ahead of it, before a worker starts."""

    @functools.wraps(check)
    def check_server_args(server_args):
        path = server_args.speculative_draft_model_path
        if path and _algorithm(server_args) in ALGORITHMS:
            from sglang.srt.configs.model_config import ModelConfig

            revision = server_args.speculative_draft_model_revision
            draft = ModelConfig.from_server_args(
                server_args, model_path=path, model_revision=revision, is_draft_model=True
            )
            ids = (getattr(draft.hf_config, "eagle_config", None) or {}).get(IDS)
            if isinstance(ids, CaptureList):
                level = logging.WARNING if ids.wiring.rule == "default" else logging.INFO
                logger.log(level, "EAGLE-3 draft: %s", ids.wiring)
        return check(server_args)

    return check_server_args


def _algorithm(server_args: Any) -> str:
    return str(server_args.speculative_algorithm or "").upper()


def _raw(draft: Any) -> dict[str, Any]:
    return {name: getattr(draft, name, None) for name in ("eagle_config", IDS, BOUNDARIES, "speculators_model_type")}


def read_ids(draft: Any, target: Any, nested_ids: str, source: str) -> CaptureList | None:
    """The boundaries that a draft's hf_config asks of a target; None where the target's own rule is left alone."""
    raw = _raw(draft)
    nested = raw["eagle_config"] or {}
    if isinstance(nested.get(IDS), CaptureList):
        return nested[IDS]
    family = (getattr(target.hf_config, "architectures", None) or ["unknown"])[0]
    if family not in DEEPSEEK_FAMILY:
        ids = nested.get(IDS)
        plain = ids is None or (isinstance(ids, list) and all(type(i) is int and i >= 0 for i in ids))
        if raw[IDS] or BOUNDARIES in nested or not plain:
            raise WiringError(
                f"nested ids without -1 for a target of {family}", raw, source, "write this release's own ids"
            )
        return None
    layers = target.hf_text_config.num_hidden_layers
    wiring = resolve(raw, num_layers=layers, release_rule=nested_ids, source=source)
    ids = CaptureList(wiring.boundaries)
    ids.wiring = wiring
    return ids


def require_captured(wiring: Wiring, target: Any, server_args: Any, embedding_ahead_of_loop: bool) -> None:
    """Refuse launch flags under which this release would not capture one of the boundaries, or not whole."""
    dense = getattr(target.hf_text_config, "first_k_dense_replace", 0)
    require_reachable(
        wiring,
        pipeline=server_args.pp_size,
        two_batch_overlap_from=dense if server_args.enable_two_batch_overlap else None,
    )
    if embedding_ahead_of_loop and 0 in wiring.boundaries and server_args.enable_attn_tp_input_scattered:
        raise WiringError(
            "an embedding output that is whole on every rank",
            "--enable-attn-tp-input-scattered",
            f"the launch flags, with {wiring}",
            "leave the flag out: this release captures the embedding before it is reduced",
        )


def _read_features(draft: Any, source: str) -> None:
    nested = getattr(draft, "eagle_config", None) or {}
    if not isinstance(nested, dict):
        raise WiringError("a table", repr(nested), f"eagle_config of {source}", "write one")
    asked = nested.get("requires") or []
    if others := [name for name in asked if name not in SERVED] if isinstance(asked, list) else [repr(asked)]:
        raise WiringError(
            f"a draft that requires {', '.join(SERVED)} or nothing",
            f"requires {others[0]}",
            f"eagle_config of {source}",
            "serve it with draftwire's overlay on a newer SGLang",
        )
    normed = nested.get("norm_before_residual", getattr(draft, "norm_before_residual", None))
    if not (normed is None or isinstance(normed, bool)):
        raise WiringError("true or false", repr(normed), f"norm_before_residual of {source}", "write one of them")
    if normed is not None:
        draft.norm_before_residual = normed
    names = getattr(draft, "architectures", None) or [""]
    if normed and "Llama" not in names[0]:
        raise WiringError(
            "norm_before_residual in a Llama draft only", names[0], source, "no SGLang release serves that draft"
        )


def _refuse_eagle(draft: Any, algorithm: str, source: str) -> None:
    signs = [name for name in getattr(draft, "architectures", None) or [] if "eagle3" in name.lower()]
    tables = (getattr(draft, "eagle_config", None) or {}, vars(draft))
    signs += [f"with {IDS}" for table in tables if table.get(IDS)]
    if signs:
        raise WiringError(
            f"--speculative-algorithm EAGLE3 for the draft {signs[0]}",
            algorithm,
            f"the launch flags beside {source}",
            "EAGLE captures no states and the draft's fc would be skipped",
        )


def _require_servable(ids: CaptureList, draft: Any, target: Any, states: int | None, source: str) -> None:
    count, width = getattr(draft, "num_aux_hidden_states", None), target.hf_text_config.hidden_size
    if count not in (None, len(ids)):
        raise WiringError(f"num_aux_hidden_states {len(ids)} for {ids}", count, source, "correct the count or the ids")
    if states not in (None, len(ids)):
        raise WiringError(
            f"{states} states, all that this release's draft takes", ids, source, "serve with a newer one"
        )
    if len(ids) * width == draft.hidden_size:
        raise WiringError(
            f"a draft narrower or wider than its {len(ids)} x {width} captured values",
            f"hidden_size {draft.hidden_size}",
            source,
            "captured states are told from fed-back ones by their width, and fc would be skipped",
        )


def _write(ids: CaptureList, draft: Any) -> None:
    nested = getattr(draft, "eagle_config", None) or {}
    draft.eagle_config = {**nested, "use_aux_hidden_state": True, IDS: ids}
    draft.num_aux_hidden_states = len(ids)
