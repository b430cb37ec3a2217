"""From a launch file to a row: check, measure, divide, print, append."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from draftwire.bench.client import Load
from draftwire.bench.deployment import Deployment
from draftwire.bench.ledger import append, require_writable
from draftwire.bench.measurement import measurement
from draftwire.bench.prompts import LEAST_TOKENS, Prompts, default_prompts, read_prompts
from draftwire.bench.provenance import hash_weights, provenance
from draftwire.bench.ratios import differences, require_honest_acceptance
from draftwire.bench.refusals import BenchError, RatioRefused
from draftwire.bench.schedule import Measured, Plan, measure
from draftwire.bench.sentences import notes_of
from draftwire.bench.stages import GUESSES
from draftwire.bench.table import LEGEND, table_of
from draftwire.demo import kept_on_failure

LEAST_REQUESTS, REQUESTS_A_USER = 8, 4
TOKENS = 512
CONCURRENCY = (1, 8, 32)


@dataclass
class Options:
    """The command's, beside the file. concurrency: none takes those of CONCURRENCY that the file serves and there are
    prompts for. requests, tokens: 0 takes the default. timeout: seconds of a stage. flags: launch flags of every
    server. tree: topk and steps of one more EAGLE-3 arm. batches: concurrencies of the baseline alone. For the time
    left: later, kinds of stages after this run; seconds, what each kind was seen to last, shared with a run after it.
    """

    arms: Sequence[str] = ("baseline", "eagle3")
    concurrency: Sequence[int] = ()
    steps: Sequence[int] = ()
    prompts: Path | None = None
    out: Path = Path("benchmarks")
    tokens: int = 0
    requests: int = 0
    rounds: int = 1
    temperature: float = 0.0
    top_p: float = 1.0
    timeout: float = 1800.0
    port: int = 0
    flags: Sequence[str] = ()
    tree: tuple[int, int] | None = None
    batches: Sequence[int] = ()
    later: Sequence[str] = ()
    seconds: dict[str, float] = field(default_factory=lambda: dict(GUESSES))


def prepare(file: Path, options: Options) -> tuple[Deployment, Prompts, Plan]:
    """All that can be refused before a server is started. Raises DraftError or BenchError."""
    require_honest_acceptance()
    if not math.isfinite(options.temperature) or not math.isfinite(options.top_p):
        raise BenchError(
            "a number", f"{options.temperature} and {options.top_p}", "--temperature and --top-p", "correct it"
        )
    require_writable(options.out / "results.jsonl")
    deployment = Deployment(file, options.flags)
    prompts = read_prompts(options.prompts or default_prompts(deployment.target))
    most = min(deployment.limit, len(prompts.items))
    concurrency = options.concurrency or [users for users in CONCURRENCY if users <= most]
    for users in concurrency:
        if not 1 <= users <= deployment.limit:
            raise BenchError(f"1 to {deployment.limit} requests at once (max-running-requests)", users,
                             "--concurrency", "name others")  # fmt: skip
    loads = [_load(users, options, prompts) for users in dict.fromkeys(concurrency)]
    arms = deployment.arms(options.arms, options.steps, options.tree)
    fixed = [load._replace(fixed=True) for load in loads]
    batches = [_load(users, options, prompts) for users in options.batches if users <= most]
    batches = [load for load in batches if load not in loads]
    plan = Plan(arms, loads, fixed, options.rounds, options.timeout, options.port, batches, options.later,
                options.seconds)  # fmt: skip
    return deployment, prompts, plan


def _load(users: int, options: Options, prompts: Prompts) -> Load:
    if users > len(prompts.items):
        raise BenchError(f"a prompt for each of {users} requests at once", len(prompts.items), prompts.file,
                         "add some, or name fewer with --concurrency")  # fmt: skip
    wanted = options.requests or min(len(prompts.items), max(LEAST_REQUESTS, REQUESTS_A_USER * users))
    prompts.first(wanted)
    if 0 < options.tokens < LEAST_TOKENS:
        raise BenchError(f"answers of at least {LEAST_TOKENS} tokens", options.tokens, "--tokens", "name more")
    tokens = options.tokens or prompts.max_tokens or TOKENS
    return Load(max(wanted, users), users, tokens, False, options.temperature, options.top_p)


def bench(
    file: Path, options: Options, doctor: str | None = None, out: Console | None = None, progress: Console | None = None
) -> dict[str, Any]:
    """Measure, print the table, append the row and return it; its JSON is the last line printed.

    Raises RatioRefused after the table where an arm's outputs until the end of sequence cannot be compared: no row is
    written then. A ratio at fixed length is refused by itself, in the row.
    """
    out, progress = out or Console(), progress or Console(stderr=True)
    row = measured_row(file, options, progress, doctor=doctor)

    def say() -> None:
        out.print(table_of(row["measurements"]))
        for line in (LEGEND, *notes_of(row)):
            out.print(line, markup=False, highlight=False, soft_wrap=True)

    refused = [entry for entry in row["measurements"] if entry["refused"]]
    for entry in refused:
        where = f"at {entry['concurrency']} at once, length {entry['length']}"
        progress.print(
            f"draftwire: no ratio {where}: {entry['refused']}", markup=False, highlight=False, soft_wrap=True
        )
    if any(entry["length"] == "eos" for entry in refused):
        say()
        raise RatioRefused("no speed-up is given, and no row was written")
    publish(row, options.out, say)
    return row


def measured_row(
    file: Path, options: Options, progress: Console, *, fixed: bool = True, doctor: str | None = None
) -> dict[str, Any]:
    """Provenance and measurements of one run, not appended. fixed: at fixed length too."""
    deployment, prompts, plan = prepare(file, options)
    plan = plan if fixed else plan._replace(fixed=())
    most = max(load.requests for load in (*plan.loads, *plan.batches))
    with kept_on_failure("draftwire-bench-") as folder:
        weights = hash_weights(deployment.draft) if deployment.draft else None
        measured = measure(plan, deployment, prompts.first(most), folder, progress)
    row = provenance(deployment, prompts, weights)
    row |= {"tokens": plan.loads[0].tokens, "temperature": options.temperature, "top_p": options.top_p}
    row |= {"order": [arm.label for arm, _ in plan.visits()], "doctor": doctor}
    # Every answer was cut at the most tokens: with the end of sequence ignored the requests would be the same ones.
    row["always_cut"] = all(one.is_cut(plan.loads) for one in measured)
    baseline = next((one for one in measured if one.arm.name == "baseline"), None)
    drafted = [one for one in measured if one is not baseline]
    row["server_differs"] = {one.arm.label: differences(baseline, one) for one in drafted} if baseline else {}
    return row | {"measurements": entries(measured, plan, baseline)}


def publish(row: dict[str, Any], folder: Path, say: Callable[[], None]) -> None:
    """Append the row to results.jsonl, say what a person reads, and print the row as the last line: kept and printed
    each whether or not the other can be done.
    """
    try:
        append(folder / "results.jsonl", row)
    finally:
        say()
        print(json.dumps(row), flush=True)


def entries(measured: Sequence[Measured], plan: Plan, baseline: Measured | None) -> list[dict[str, Any]]:
    loads = [*plan.loads, *plan.batches, *plan.fixed]
    return [measurement(one, load, baseline) for one in measured for load in loads if load in one.runs]
