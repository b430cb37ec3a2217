"""The draft's positions reach as far as the context that is served.

What: `max_position_embeddings` of the draft against `--context-length`, else the target's own context.

Why: a trainer's default of 2,048 is carried into the config. SGLang gives the draft the target's context length and
refuses at start; with SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN set it goes on, and acceptance falls past the
positions that were trained.

Example: `max_position_embeddings` 2048 beside a target of 262,144.

Remedy: the length it was trained for, or at least that of the context, if RoPE allows; else `--context-length`.

Reports:
- https://github.com/sgl-project/sglang/issues/6783
- https://github.com/sgl-project/SpecForge/issues/249
- https://github.com/vllm-project/vllm/issues/48894
"""

from collections.abc import Mapping
from typing import Any

from draftwire.case import Case
from draftwire.finding import Finding, error, ok, skipped, warning
from draftwire.rope import number

# In the order in which get_context_length looks for them.
LENGTHS = ("max_sequence_length", "seq_length", "max_seq_len", "model_max_length", "max_position_embeddings")
FILLED = ("yarn", "longrope")
ALLOW = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"


def check(case: Case) -> Finding:
    asked = case.flags.number("context-length") if case.flags else None
    fills = case.has("rope_parameters")
    wanted = asked or (_context(case.target.text, fills) if case.target else None)
    if wanted is None:
        return skipped("neither --context-length nor a target whose config says its context was named")
    reach = _context(case.layer, fills)
    if reach is None:
        return error("The draft says no usable max_position_embeddings.", "config.json", remedy="Export it again.")
    seen = f"{_key(case.layer)} {case.layer[_key(case.layer)]}, context {wanted}"
    if reach >= wanted:
        return ok(f"The draft reaches {reach} positions.", seen)
    remedy = f"Serve with --context-length {reach}, or write a longer max_position_embeddings if it was trained so."
    if case.environment.get(ALLOW, "").lower() in ("1", "true", "yes", "y"):
        return warning("The context is longer than the draft's positions.", seen, f"{ALLOW} is set", remedy=remedy)
    return error("The context is longer than the draft's positions: the start is refused.", seen, remedy=remedy)


def _context(config: Mapping[str, Any], fills: bool) -> int | None:
    """As SGLang derives it (get_context_length): a factor counts where no original length is written.

    fills: whether the release's transformers, 5 since 0.5.10, writes that length itself and reads rope_parameters.
    """
    length = config.get(_key(config))
    if type(length) is not int or length <= 0:
        return None
    block = config.get("rope_parameters") if fills else None
    block = config.get("rope_scaling") if block is None else block
    if not isinstance(block, Mapping) or "original_max_position_embeddings" in block:
        return length
    kind = block.get("rope_type", block.get("type") if fills else None)
    if kind == "llama3" or (fills and kind in FILLED):
        return length
    return int(length * (number(block.get("factor")) or 1.0))


def _key(config: Mapping[str, Any]) -> str:
    """The first of the keys that say a length."""
    return next((key for key in LENGTHS if config.get(key) is not None), LENGTHS[-1])
