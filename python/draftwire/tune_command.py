"""`draftwire tune`: the number of draft steps that serves fastest, from one measured run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from draftwire.bench.prediction import MOST_STEPS
from draftwire.bench_options import Concurrency, Out, Port, Prompts, Requests, Rounds, Timeout, Tokens

if TYPE_CHECKING:
    from rich.console import Console

    from draftwire.bench.run import Options


def tune(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of SGLang's --config; with --row results.")],
    row: Annotated[
        bool, typer.Option("--row", help="FILE is a results.jsonl: its last row of bench; no server.")
    ] = False,
    most: Annotated[int, typer.Option(min=2, max=MOST_STEPS, help="Predict 1 to so many steps.")] = 5,
    concurrency: Concurrency = "",
    at: Annotated[int, typer.Option(min=0, help="Requests at once to be fastest with; default the fewest.")] = 0,
    check: Annotated[int, typer.Option(min=0, help="How many of the best to measure afterwards.")] = 3,
    tree: Annotated[bool, typer.Option("--tree", help="Measure a tree (topk 2) beside the best.")] = False,
    prompts: Prompts = None,
    out: Out = Path("benchmarks"),
    tokens: Tokens = 0,
    requests: Requests = 0,
    rounds: Rounds = 2,
    timeout: Timeout = 1800.0,
    port: Port = 0,
) -> None:
    """Serve FILE without its draft and with 1 and --most steps; from that predict tokens a second for every number of
    steps, name the best and where it stops paying, then measure the best three and show both. Launch flags after `--`
    go to every server.

    The last line is the row as JSON, which is also added to DIR/results.jsonl (not with --row).
    Exit status: 0 done, 1 a ratio was refused, 2 it could not measure or predict.
    """
    from draftwire.bench_command import numbers
    from draftwire.cli import one_line
    from draftwire.doctor_command import fail

    with one_line():
        from draftwire.bench.refusals import RatioRefused
        from draftwire.bench.run import Options

        try:
            if row and context.args:
                fail(f"expected no launch flags with --row, which serves nothing; found {context.args[0]}; drop it")
            if row:
                predict_row(file, most, at)
                return
            options = Options(
                concurrency=numbers(concurrency, "--concurrency"), steps=(1, most), prompts=prompts, out=out,
                tokens=tokens, requests=requests, rounds=rounds, timeout=timeout, port=port, flags=context.args,
            )  # fmt: skip
            run(file, options, most, at, check, tree)
        except RatioRefused as refused:
            typer.echo(f"draftwire: {refused}", err=True)
            raise typer.Exit(1) from None
        except ValueError as failure:
            fail(str(failure))


def predict_row(file: Path, most: int, at: int) -> None:
    """Of the last row of bench in a results.jsonl that carries a prediction, else of the last of tune; prints, and adds
    nothing.
    """
    from rich.console import Console

    from draftwire.bench.refusals import BenchError
    from draftwire.bench.report import read_rows
    from draftwire.bench.study_table import say, say_line
    from draftwire.bench.tuning import Study, carries_prediction

    remedy = "name a results.jsonl that holds one: draftwire bench FILE --steps 1,5 adds it"
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as failure:
        found = getattr(failure, "strerror", None) or "no UTF-8"
        raise BenchError("rows of draftwire bench", found, file, remedy) from None
    fit = [one for one in read_rows(text, file) if one["benchmark"] in ("bench", "tune") and carries_prediction(one)]
    if not fit:
        raise BenchError("a row with a baseline and two step counts", "none", file, remedy)
    found = max(reversed(fit), key=lambda one: one["benchmark"] == "bench")
    study = Study(found, most, at)
    say_line(Console(), f"of {found['command']}, {found['date']}")
    say(study, Console())
    print(json.dumps({**_named(found), **study.findings(), "checked": [], "repeated": []}), flush=True)


def run(file: Path, options: Options, most: int, at: int, check: int, tree: bool = False, out: Console | None = None,
        progress: Console | None = None) -> dict[str, Any]:  # fmt: skip
    """Measure, predict, measure the best; the row, which is appended and is the last line printed.

    The baseline is also measured with as many requests at once as the widest verification has tokens, where the file
    serves so many and there are prompts: from it follows what a verification costs.
    """
    from dataclasses import replace

    from rich.console import Console

    from draftwire.bench.checked import compare, compare_tree, repeated
    from draftwire.bench.deployment import TOPK as TOPK_FLAG
    from draftwire.bench.deployment import tree_tokens
    from draftwire.bench.refusals import BenchError
    from draftwire.bench.run import prepare, publish
    from draftwire.bench.sentences import tree_line
    from draftwire.bench.study_table import say, say_checked, say_line
    from draftwire.bench.tuning import TOPK, Study

    out, progress = out or Console(), progress or Console(stderr=True)
    deployment, _, plan = prepare(file, options)
    if (topk := deployment.flags.number(TOPK_FLAG)) != 1:
        remedy = "tune a chain: what a tree accepts is not predicted"
        raise BenchError(f"{TOPK_FLAG} 1", topk, deployment.where(TOPK_FLAG), remedy)
    users = [load.concurrency for load in plan.loads]
    options = replace(options, concurrency=users)
    if at and at not in users:
        raise BenchError(f"a concurrency of {users}", at, "--at", "name one that is measured")
    if tree and not check:
        raise BenchError("--check of at least 1 with --tree", check, "the command", "a tree is measured beside a chain")
    likely = list(range(most, max(most - check, 0), -1))
    second = prepare(file, replace(options, steps=likely, tree=(TOPK, most) if tree else None))[2] if check else None
    later = [kind for kind, text in second._replace(fixed=()).stages()] if second else []
    wide = [(at or min(users)) * tokens for tokens in (most + 1, tree_tokens(TOPK, most))]
    first = comparable_row(file, replace(options, batches=wide, later=later), progress)
    study = Study(first, most, at)
    say(study, out)
    row = {**_named(first), **study.findings(), "checked": [], "repeated": []}
    best = sorted(p.steps for p in study.best(check))
    if best:
        branched = (TOPK, row["tree"]["steps"]) if tree else None
        try:
            again = comparable_row(file, replace(options, steps=best, tree=branched), progress)["measurements"]
        except BaseException as failure:
            # Ctrl-C too: what was measured until then is a whole row, as --check 0 would have written it.
            row["check_failed"] = str(failure) or "interrupted"
            publish(
                row, options.out, lambda: say_line(progress, f"kept without its check: {options.out}/results.jsonl")
            )
            raise
        row["checked"] = compare(row["predictions"], again, first["measurements"])
        row["repeated"] = repeated(first["measurements"], again)
        row["tree"]["measured"] = compare_tree(row["tree"], again, row["at"])

    def say_all() -> None:
        if best:
            say_checked(row, out)
        if tree:
            say_line(out, tree_line(row["tree"]))

    publish(row, options.out, say_all)
    return row


def comparable_row(file: Path, options: Options, progress: Console) -> dict[str, Any]:
    """A run as `draftwire bench` does it, not appended. Raises RatioRefused where its arms cannot be compared."""
    from draftwire.bench.refusals import RatioRefused
    from draftwire.bench.run import measured_row

    row = measured_row(file, options, progress, fixed=False)
    if refused := next((entry["refused"] for entry in row["measurements"] if entry["refused"]), ""):
        raise RatioRefused(f"no prediction from arms that cannot be compared: {refused}")
    return row


def _named(run: dict[str, Any] | Any) -> dict[str, Any]:
    """Provenance of a run, under tune's name."""
    return {**{key: value for key, value in run.items() if key != "measurements"}, "benchmark": "tune"}


def register(app: typer.Typer) -> None:
    app.command(context_settings={"allow_extra_args": True})(tune)
