"""The draft is not built with a quantization that its weights do not have.

What: the draft's `quantization_config` (or ModelOpt's hf_quant_config.json) against how its weights are stored, and
`--quantization` without `--speculative-draft-model-quantization`.

Why: the draft inherits the target's flag, and its quantization_config where a trainer copied the target's config. A
draft in bfloat16 is then built with packed weights that it does not have, and the start fails, or it is quantised once
more on the fly. `modelopt_fp4` leaves a dense draft as it is since 0.5.18, and ends the start before. One that is
quantised and does not say how is built in full, its packed weights dropped.

Example: `--quantization awq` for the target, a draft in bfloat16.

Remedy: `--speculative-draft-model-quantization unquant`; no quantization_config in the config of a draft in bfloat16.

Reports:
- https://github.com/sgl-project/sglang/pull/28196
- https://github.com/sgl-project/sglang/pull/22588
"""

import json

from draftwire.case import Case
from draftwire.checks.fc_width import FLOATS
from draftwire.finding import Finding, error, ok, skipped, warning
from draftwire.headers import DraftError

OWN, TARGETS, UNQUANT = "speculative-draft-model-quantization", "quantization", "unquant"
# Built from full-precision weights while they are loaded: the draft starts, in fewer bits.
ON_THE_FLY = ("fp8", "w8a8_fp8", "mxfp4", "mxfp8", "bitsandbytes", "nvfp4_online", "quark_mxfp4")
EXPERTS = "modelopt_fp4"


SIDE_FILE = "hf_quant_config.json"
LARGEST = 1024 * 1024


def check(case: Case) -> Finding:
    packed = sorted(name for name, tensor in case.tensors.items() if _is_packed(name, tensor.dtype))
    said = _said(case)
    flag = OWN if case.flags and case.flags.said(OWN) else TARGETS
    method = case.flags.text(flag).lower() if case.flags else ""
    if said and not packed:
        return error(
            "The config calls the draft quantised, and its weights are stored in floating point.", said,
            remedy="Delete it: a trainer copied it from the target. Or export the draft quantised.",
        )  # fmt: skip
    if packed and not said and method in ("", UNQUANT):
        return error(
            "The draft's weights are quantised and nothing says how: they would be dropped.", packed[0],
            remedy=f"Write its quantization_config, or say --{OWN}.",
        )  # fmt: skip
    if said:
        return ok("The draft is quantised as its config says.", said)
    if case.flags is None:
        return skipped("no launch flags were named")
    if method in ("", UNQUANT):
        return ok("The draft does not take over the target's quantization.", f"--{flag} {method or 'is not said'}")
    seen = f"--{flag} {method} in {case.flags.where(flag)}, no quantization_config in the draft"
    if packed:
        return ok("A flag says how the draft is quantised.", seen)
    if method == EXPERTS and case.has("fp4_of_experts_only"):
        return ok("Only experts are quantised while they are loaded, and a draft has none.", seen)
    remedy = f"Say --{OWN} {UNQUANT}."
    if method in ON_THE_FLY:
        return warning(f"The draft would be quantised to {method} while it is loaded.", seen, remedy=remedy)
    return error(f"The draft would be built as {method}, which its weights are not.", seen, remedy=remedy)


def _said(case: Case) -> str:
    """Where the draft's own files call it quantised, empty where they do not."""
    table = case.layer.get("quantization_config") or case.draft.config.get("quantization_config")
    if table and not (isinstance(table, dict) and table.get("kv_cache_scheme") and not table.get("config_groups")):
        method = table.get("quant_method") if isinstance(table, dict) else table
        return f"quantization_config {method!r}"[:80]
    file = case.draft.directory / SIDE_FILE
    if not file.is_file():
        return ""
    with file.open("rb") as stream:
        text = stream.read(LARGEST + 1)
    try:
        algorithm = json.loads(text)["quantization"]["quant_algo"]
    except (ValueError, TypeError, KeyError, RecursionError) as failure:
        raise DraftError("quantization.quant_algo", type(failure).__name__, file, "export the draft again") from None
    return f"{algorithm!r} in {SIDE_FILE}"[:80] if algorithm else ""


def _is_packed(name: str, dtype: str) -> bool:
    return name not in ("d2t", "t2d") and dtype not in FLOATS
