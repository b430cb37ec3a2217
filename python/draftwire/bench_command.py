"""`draftwire bench`: what speculation gains over the same server without it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from draftwire.bench_options import Concurrency, Out, Port, Prompts, Requests, Rounds, Timeout, Tokens


def bench(
    context: typer.Context,
    config: Annotated[Path, typer.Argument(metavar="CONFIG.yaml", help="A file of SGLang's own --config.")],
    arms: Annotated[str, typer.Option(help="Of baseline, eagle3 and mtp (the target's own head).")] = "baseline,eagle3",
    concurrency: Concurrency = "",
    prompts: Prompts = None,
    steps: Annotated[str, typer.Option(help="Speculative steps, a server each; default the file's.")] = "",
    out: Out = Path("benchmarks"),
    tokens: Tokens = 0,
    requests: Requests = 0,
    rounds: Rounds = 1,
    temperature: Annotated[float, typer.Option(min=0, max=100)] = 0.0,
    top_p: Annotated[float, typer.Option(min=0.01, max=1)] = 1.0,
    timeout: Timeout = 1800.0,
    port: Port = 0,
    samples: Annotated[Path | None, typer.Option(metavar="DIR", help="Training samples, for the doctor.")] = None,
    anyway: Annotated[bool, typer.Option("--anyway", help="Measure whatever the doctor says.")] = False,
) -> None:
    """Serve CONFIG.yaml with and without its draft, in the order A B B A, and measure both by upstream's own client.

    The baseline is the file without its speculative-* keys; launch flags after `--` go to every server, speculative
    ones to those with a draft. Prints a table and, last, the row as JSON, which is also added to DIR/results.jsonl.
    Exit status: 0 measured, 1 the draft is mis-wired or a ratio was refused (no row is written then), 2 it could not
    measure.
    """
    from draftwire.cli import one_line

    with one_line():
        from draftwire.bench.refusals import RatioRefused
        from draftwire.bench.run import Options, prepare
        from draftwire.bench.run import bench as measure

        try:
            options = Options(
                names(arms), numbers(concurrency, "--concurrency"), numbers(steps, "--steps"), prompts, out, tokens,
                requests, rounds, temperature, top_p, timeout, port, context.args,
            )  # fmt: skip
            verdict = None
            if samples:
                prepare(config, options)
                verdict = examine(config, samples, context.args)
            status = 1 if verdict == "MISWIRED" and not anyway else 0
            if status:
                typer.echo("draftwire: not measured: the draft is mis-wired; mend it, or add --anyway", err=True)
            else:
                measure(config, options, verdict)
        except RatioRefused as refused:
            typer.echo(f"draftwire: {refused}", err=True)
            status = 1
        except ValueError as failure:
            raise RuntimeError(failure) from None
    raise typer.Exit(status)


def names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def numbers(text: str, option: str) -> list[int]:
    """1,2,4 as a list. Raises ValueError."""
    try:
        found = [int(name) for name in names(text)]
        if text and not found:
            raise ValueError(text)
        return found
    except ValueError:
        raise ValueError(f"expected numbers such as 1,4; found {text!r} in {option}; correct it") from None


def examine(config: Path, samples: Path, flags: Sequence[str] = ()) -> str:
    """The doctor's verdict on the training samples; its report goes to stderr."""
    from draftwire.doctor import collect
    from draftwire.samples_command import STATUS, examine_samples

    text, status = examine_samples(collect(config=config, command_line=flags), samples)
    typer.echo(text, err=True)
    return next(name for name, number in STATUS.items() if number == status)


def register(app: typer.Typer) -> None:
    app.command(context_settings={"allow_extra_args": True})(bench)
