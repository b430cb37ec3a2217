"""The target runs in one pipeline stage.

What: `--pp-size`.

Why: only the last stage captures; the states of earlier ones are lost, and newer releases refuse to start.

Example: `--pp-size 2 --tp-size 4` with an EAGLE-3 draft.

Remedy: tensor parallelism alone.

Reports:
- https://github.com/sgl-project/sglang/pull/39644
- https://github.com/sgl-project/sglang/pull/23569
- https://github.com/vllm-project/vllm/pull/45985
"""

from draftwire.case import Case
from draftwire.finding import UNREPORTED, Finding, error, ok, skipped


def check(case: Case) -> Finding:
    if case.flags is None:
        return skipped("no launch flags were named")
    said = case.flags.number("pp-size")
    stages = 1 if said is None else said
    if stages == 1:
        return ok("One stage.")
    if stages < 1:
        return error(
            "There is no pipeline of this many stages.", f"--pp-size {stages} in {case.flags.where('pp-size')}",
            remedy="Leave --pp-size out.", report=UNREPORTED,
        )  # fmt: skip
    return error(
        "The states of all stages but the last are lost.", f"--pp-size {stages} in {case.flags.where('pp-size')}",
        remedy="Serve with tensor parallelism: --tp-size.",
    )  # fmt: skip
