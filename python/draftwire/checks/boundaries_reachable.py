"""Every state that the draft wants is one that the target's loop captures.

What: the boundaries of the draft against the target's layers in this release: above n, the last one, the embedding.

Why: a boundary that is never visited is not captured. Up to 0.5.16 the draft then got fewer states in silence until a
matrix did not fit; since 0.5.17 the server stops at its first forward, minutes after the launch. The last layer's
output cannot be reached on most targets, whose loop captures a layer's input. The embedding output can be captured
on DeepSeek and Kimi from 0.5.14 on; before, layer 0 has no residual to add and the server crashes.

Example: `[24, 30, 36]` for gpt-oss-120b with 36 layers, read as 25, 31 and 37.

Remedy: the target that the draft was trained for; a release that visits the boundary; draftwire for -1.

Reports:
- https://github.com/sgl-project/sglang/pull/32334
- https://github.com/vllm-project/speculators/issues/705
- https://github.com/lightseekorg/TorchSpec/issues/87
- https://github.com/vllm-project/vllm/pull/46973
"""

from draftwire.case import Case
from draftwire.finding import Finding, error, ok, skipped, warning
from draftwire.reading import show
from draftwire_overlay.srt.configs.model_config import DEEPSEEK_FAMILY


def check(case: Case) -> Finding:
    if not case.uses_states:
        return ok("The draft wants no aux hidden states.")
    if case.target is None:
        return skipped("the target was not named")
    reading, layers = case.reading, case.target.num_layers
    if reading.wanted is None:
        return skipped("the draft's boundaries are not known (see ids_mean_one_thing and target_captures)")
    lost = [b for b in reading.wanted if b not in (reading.captured or ())]
    seen = f"{case.server} captures {show(reading.captured)} of {list(reading.wanted)}"
    if lost:
        return error(_why(case, lost[0], layers), seen, str(reading), remedy=_mend(case, lost[0], layers))
    if 0 in reading.wanted and case.target.architecture not in DEEPSEEK_FAMILY:
        return warning(
            f"The embedding output of {case.target.architecture} was not proven to be captured.", seen,
            remedy="Serve it once with one request before a long launch.",
        )  # fmt: skip
    return ok(f"All of {show(reading.captured)} of {layers} are captured.", str(reading))


def _why(case: Case, boundary: int, layers: int) -> str:
    if boundary < 0:
        return "-1 is no layer to stock SGLang: that state is never captured."
    if boundary == 0:
        return f"SGLang {case.release} crashes when it captures the input of layer 0."
    if boundary == layers:
        return f"The output of the last layer, boundary {layers}, is never captured from this target."
    return f"Boundary {boundary} lies above the target's {layers} layers."


def _mend(case: Case, boundary: int, layers: int) -> str:
    if boundary <= 0:
        return "Install draftwire beside SGLang 0.5.14 or later, or patch an older one."
    if boundary == layers:
        return "Train the draft on an earlier layer, or serve with a release that captures the last one."
    return "Name the draft's own target, or correct the ids."
