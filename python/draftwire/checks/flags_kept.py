"""SGLang serves the flags of speculation as they are written.

What: steps, topk and draft tokens; `--max-running-requests`; `--enable-mixed-chunk`.

Why: with topk 1 the draft tokens become steps + 1 with a line in the log: 1 step and 16 draft tokens verify 2, 4 steps
and 24 verify 5, so a measurement is of something else than was asked for. A tree has topk + (steps - 1) x topk^2
candidates, of which draft tokens - 1 are taken: more than there are end the first request. Unset, the number of
running requests becomes 48, which makes a comparison with the server without a draft unfair; mixed chunks are
turned off.

Example: `--speculative-num-steps 1 --speculative-eagle-topk 1 --speculative-num-draft-tokens 16`.

Remedy: draft tokens = steps + 1 for topk 1; say the number of running requests in both runs.

Reports:
- https://github.com/sgl-project/SpecForge/issues/310
- https://github.com/sgl-project/sglang/pull/13212
"""

from draftwire.case import Case
from draftwire.finding import UNREPORTED, Finding, error, ok, skipped, warning

STEPS, TOPK, TOKENS = "speculative-num-steps", "speculative-eagle-topk", "speculative-num-draft-tokens"


def check(case: Case) -> Finding | list[Finding]:
    if case.flags is None:
        return skipped("no launch flags were named")
    return [f for f in (_counts(case), _requests(case), _mixed(case)) if f] or [ok("The flags stay as written.")]


def _counts(case: Case) -> Finding | None:
    assert case.flags is not None
    numbers = {name: case.flags.number(name) for name in (STEPS, TOPK, TOKENS)}
    steps, topk, tokens = numbers.values()
    said = [f"--{name} {value}" for name, value in numbers.items() if value is not None]
    if not said:
        return None
    if len(said) < 3:
        missing = next(name for name, value in numbers.items() if value is None)
        return error(
            "Steps, topk and draft tokens go together.", *said, remedy=f"Say --{missing} too, or none of them."
        )
    assert steps is not None and topk is not None and tokens is not None
    if min(steps, topk, tokens) < 1:
        return error("A count below 1.", *said, remedy="Say 3, 1 and 4, or measure others.")
    if topk == 1 and tokens != steps + 1:
        return error(
            f"With topk 1 SGLang makes {tokens} draft tokens {steps + 1}.", *said,
            remedy=f"Say --{TOKENS} {steps + 1}, or as many steps as were meant.",
        )  # fmt: skip
    # The tree's candidates: topk of the first step, topk for each of topk branches of the others (eagle_utils.py).
    if tokens - 1 > (most := topk + (steps - 1) * topk**2):
        return error(
            f"A tree of these steps and topk has {most} candidates; the draft ends at its first request.", *said,
            remedy=f"Say --{TOKENS} {most + 1} or less.",
        )  # fmt: skip
    return None


def _requests(case: Case) -> Finding | None:
    assert case.flags is not None
    if case.flags.said("max-running-requests"):
        return None
    return warning(
        "The number of running requests becomes 48.", "no --max-running-requests",
        remedy="Say --max-running-requests, here and in the run without a draft.", report=UNREPORTED,
    )  # fmt: skip


def _mixed(case: Case) -> Finding | None:
    assert case.flags is not None
    if not case.flags.said("enable-mixed-chunk"):
        return None
    return warning(
        "Mixed chunks are turned off beside a draft.",
        "--enable-mixed-chunk",
        remedy="Leave the flag out.",
        report=UNREPORTED,
    )
