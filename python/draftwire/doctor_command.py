"""`draftwire doctor`: what can be seen of a draft's wiring in a moment, without running it."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NoReturn, TextIO

import typer


def doctor(
    context: typer.Context,
    draft: Annotated[str, typer.Option(metavar="DIR|org/name", help="The draft; else the launch flags name it.")] = "",
    target: Annotated[str, typer.Option(metavar="DIR|org/name", help="The target; else the launch flags.")] = "",
    serve: Annotated[Path | None, typer.Option(metavar="CONFIG.yaml", help="A file of SGLang's --config.")] = None,
    sglang: Annotated[str, typer.Option(metavar="RELEASE", help="SGLang's; default the one installed.")] = "",
    delivery: Annotated[str, typer.Option(help="stock, overlay or patch; default what would start here.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    list_names: Annotated[bool, typer.Option("--list", help="The checks and what they state.")] = False,
    explain: Annotated[str, typer.Option(metavar="NAME", help="A check's page.")] = "",
    only: Annotated[str, typer.Option(metavar="NAME", help="Run one check.")] = "",
    samples: Annotated[Path | None, typer.Option(metavar="DIR", help="Training samples to run the draft on.")] = None,
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="Their prepared dataset, for loss masks.")] = None,
    states: Annotated[str, typer.Option(metavar="0,3,6,9", help="Which boundary each dumped state is.")] = "",
    expect: Annotated[float | None, typer.Option(metavar="0.747", help="The trainer's agreement at step 1.")] = None,
    fix: Annotated[Path | None, typer.Option(metavar="OUT", help="Write the draft as it must be served.")] = None,
) -> None:
    """Check a draft against its target, its launch flags (after `--`) and an SGLang release. Runs nothing.

    With --samples it runs the draft on training samples instead; with a target and no draft it names their states.
    Exit status: 0 nothing wrong, 1 an error was found, 2 it could not look.
    """
    from draftwire import checks
    from draftwire.doctor import collect, examine

    if list_names or explain:
        from draftwire.rendering import listing, page

        if explain and explain not in checks.NAMES:
            fail(f"expected a check of `draftwire doctor --list`; found {explain!r} in --explain; name one")
        pages = {name: checks.load(name).__doc__ or "" for name in checks.NAMES}
        typer.echo(page(pages[explain]) if explain else listing((n, t.splitlines()[0]) for n, t in pages.items()))
        raise typer.Exit(0)
    if only and only not in checks.NAMES:
        fail(f"expected a check of `draftwire doctor --list`; found {only!r} in --only; name one")
    if samples is None and (data or states or expect is not None or fix):
        fail("expected --samples with --data, --states, --expect and --fix; found none; name the trainer's dump")
    try:
        if samples is not None:
            from draftwire.samples_command import examine_samples, name_dumped

            if target and not draft and serve is None and not context.args:
                text, status = name_dumped(target, samples, states=states, as_json=as_json)
            else:
                case = collect(draft or None, target or None, serve, context.args, sglang or None, delivery or None)
                text, status = examine_samples(
                    case, samples, data=data, states=states, expect=expect, fix=fix, as_json=as_json
                )
            write(text)
            raise typer.Exit(status)
        case = collect(draft or None, target or None, serve, context.args, sglang or None, delivery or None)
        report = examine(case, [only] if only else checks.NAMES)
    except (ValueError, OSError) as failure:
        fail(str(failure))
    if as_json:
        write(json.dumps(report.as_json(), indent=2))
    else:
        from draftwire.rendering import render

        write(render(report, colour=wants_colour(sys.stdout)))
    raise typer.Exit(report.status)


def wants_colour(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR")


def write(text: str) -> None:
    """To standard output; where that is full or closed, exit status 2."""
    try:
        typer.echo(text)
        sys.stdout.flush()
    except OSError as failure:
        with suppress(OSError):
            sys.stdout.close()
        fail(f"expected to write the report; found {failure.strerror} in standard output; write it elsewhere")


def fail(line: str) -> NoReturn:
    from draftwire.rendering import printable

    typer.echo(f"draftwire: {printable(' '.join(line.split()))}", err=True)
    raise typer.Exit(2)


def register(app: typer.Typer) -> None:
    app.command(context_settings={"allow_extra_args": True})(doctor)
