"""`fc.weight` takes as many values as are captured: K states of the target's hidden size.

What: the header of `fc.weight` against the ids, `num_aux_hidden_states` and the target's hidden size, and against the
draft's own hidden size.

Why: a draft trained on another number of states fails at the first request, with two matrix shapes as the only words.
Where K states are together as wide as the draft itself, SGLang takes them for the draft's own and skips `fc`; so it
does where `use_aux_hidden_state` is false. A Llama-type draft's `fc` is built for `num_aux_hidden_states` where that
is written, an MLA draft's for its ids; what is captured follows from the ids alone. Up to 0.5.11 every release builds
`fc` for three states.

Example: four ids [2, 46, 91, 93] and an `fc.weight` of [7168, 21504].

Remedy: the ids that the draft was trained on, one for each 1/K of `fc.weight`.

Reports:
- https://github.com/vllm-project/speculators/issues/1065
- https://github.com/vllm-project/vllm/issues/54526
- https://github.com/vllm-project/vllm/pull/41248
- https://github.com/sgl-project/sglang/pull/32334
"""

from draftwire.case import Case
from draftwire.finding import Finding, error, ok, skipped
from draftwire.headers import Stored
from draftwire_overlay.srt.speculative.aux_boundaries import BOUNDARIES, IDS

COUNT = "num_aux_hidden_states"
FLOATS = ("BF16", "F16", "F32", "F64")


def check(case: Case) -> Finding:
    fc, hidden, width = case.tensor("fc.weight"), case.size("hidden_size"), case.captured_width
    if not case.uses_states:
        return _without_states(fc)
    if fc is None:
        return error("The draft has no fc.weight.", remedy="Name an EAGLE-3 draft, or export it again.")
    if hidden is None or width is None:
        return error("The config says no hidden_size.", "config.json", remedy="Export the draft again.")
    if fc.dtype not in FLOATS:
        return skipped(f"fc.weight is {fc.dtype}, whose shape does not tell its width")
    count, captured, said = _count(case), states(case), case.draft.config.get(COUNT)
    if said not in (None, captured) and (case.is_wired_by_us or _reads_count(case)):
        refused = "draftwire refuses that" if case.is_wired_by_us else f"fc is built for {said!r}"
        return error(
            f"{COUNT} is {said!r}, and {captured} states are captured: {refused}.", f"{COUNT} {said!r} in config.json",
            remedy=f"Correct {COUNT} or the ids: both say what the draft was trained on.",
        )  # fmt: skip
    shape = f"fc.weight {list(fc.shape)} in {fc.file.name}"
    if fc.shape != (hidden, count * width):
        fits = fc.shape[-1] // width if fc.shape and fc.shape[-1] % width == 0 else None
        return error(
            f"fc.weight should be [{hidden}, {count} x {width} = {count * width}].", shape,
            remedy=f"Write the {fits} ids that the draft was trained on." if fits else "Name the draft's own target.",
        )  # fmt: skip
    if count * width == hidden:
        return error(
            "The captured states are together as wide as the draft: SGLang would skip fc.", shape,
            f"hidden_size {hidden}", remedy="Train a draft of another width.",
        )  # fmt: skip
    if count != 3 and not case.has("any_count"):
        return error(
            f"SGLang {case.release} builds fc for three states.", shape, remedy="Serve with 0.5.12 or later.",
        )  # fmt: skip
    return ok(f"fc takes {count} x {width} values.", shape)


def _without_states(fc: Stored | None) -> Finding:
    if fc is None:
        return ok("The draft wants no aux hidden states and has no fc.")
    return error(
        "No states are captured for this draft, and SGLang skips its fc in silence.",
        f"use_aux_hidden_state is false in eagle_config, fc.weight {list(fc.shape)} in {fc.file.name}",
        remedy="Write use_aux_hidden_state true, and the ids that the draft was trained on.",
    )


def _count(case: Case) -> int:
    """How many states the draft's class builds fc for: a count in the config where it reads one, else `states`."""
    said = case.draft.config.get(COUNT)
    return said if type(said) is int and said > 0 and _reads_count(case) else states(case)


def states(case: Case) -> int:
    """How many states are captured for the draft: one for each of its ids, three where there are none."""
    lists = (case.eagle_config.get(BOUNDARIES), case.eagle_config.get(IDS), case.draft.config.get(IDS))
    ids = next((ids for ids in lists if isinstance(ids, list) and ids), None)
    return len(ids) if ids else 3


def _reads_count(case: Case) -> bool:
    """The MLA draft counts ids, and older releases build for three whatever is written."""
    return not case.is_mla and case.has("any_count")
