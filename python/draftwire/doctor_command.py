"""`draftwire doctor`: what can be seen of a draft's wiring in a moment, without running it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NoReturn, TextIO

import typer

PATHS = ("samples", "data", "fix")
OF_SAMPLES = {"data", "states", "expect", "fix"}
OF_NAMING = {"target", "samples", "states", "as_json"}
FLAGS = {"as_json": "json", "list_names": "list"}


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
    samples: Annotated[str | None, typer.Option(metavar="DIR", help="Training samples to run the draft on.")] = None,
    data: Annotated[str | None, typer.Option(metavar="DIR", help="Their prepared dataset, for loss masks.")] = None,
    states: Annotated[str, typer.Option(metavar="0,3,6,9", help="Which boundary each dumped state is.")] = "",
    expect: Annotated[str, typer.Option(metavar="0.747|74.7%", help="The trainer's agreement at step 1.")] = "",
    fix: Annotated[str | None, typer.Option(metavar="OUT", help="Write the draft as it must be served.")] = None,
) -> None:
    """Check a draft against its target, its launch flags (after `--`) and an SGLang release. Runs nothing.

    With --samples it runs the draft on training samples instead; with a target and no draft it names their states.
    Exit status: 0 nothing wrong, 1 an error was found, 2 it could not look.
    """
    from draftwire import checks
    from draftwire.delivery import require_available
    from draftwire.doctor import collect, examine

    naming = samples is not None and bool(target) and not draft and serve is None and not context.args
    _require_meaning(context, naming)
    if list_names or explain:
        from draftwire.rendering import listing, page

        if explain and explain not in checks.NAMES:
            fail(f"expected a check of `draftwire doctor --list`; found {explain!r} in --explain; name one")
        pages = {name: checks.load(name).__doc__ or "" for name in checks.NAMES}
        typer.echo(page(pages[explain]) if explain else listing((n, t.splitlines()[0]) for n, t in pages.items()))
        raise typer.Exit(0)
    if only and only not in checks.NAMES:
        fail(f"expected a check of `draftwire doctor --list`; found {only!r} in --only; name one")
    try:
        if naming:
            from draftwire.states_command import name_dumped

            text, status = name_dumped(
                target, Path(str(samples)), states=states, as_json=as_json, width=columns(sys.stdout)
            )
            write(text)
            raise typer.Exit(status)
        case = collect(draft or None, target or None, serve, context.args, sglang or None, delivery or None)
        if delivery:
            require_available(case.release, case.delivery, case.environment)
        if samples is not None:
            from draftwire.samples_command import examine_samples, read_expect

            text, status = examine_samples(
                case, Path(samples), data=Path(data) if data else None, states=states, expect=read_expect(expect),
                fix=Path(fix) if fix else None, as_json=as_json, width=columns(sys.stdout),
            )  # fmt: skip
            write(text)
            raise typer.Exit(status)
        report = examine(case, [only] if only else checks.NAMES)
    except (ValueError, OSError) as failure:
        fail(str(failure))
    if as_json:
        write(json.dumps(report.as_json(), indent=2))
    else:
        from draftwire.rendering import render

        write(render(report, colour=wants_colour(sys.stdout)))
    raise typer.Exit(report.status)


def _require_meaning(context: typer.Context, naming: bool) -> None:
    """One line for an option that would be dropped in this mode, and for a path of no characters."""
    given = {name for name, value in context.params.items() if value not in (None, "", False)}
    given |= {name for name in PATHS if context.params[name] is not None}
    if "samples" not in given:
        mode, wrong = "without --samples", given & OF_SAMPLES
        needed = "--samples with it"
    elif naming:
        mode, wrong = "with --samples, a target and no draft", given - OF_NAMING
        needed = "--draft with it, or leave it out: this mode names the dumped states"
    else:
        mode, wrong = "with --samples", given & {"only", "list_names", "explain"}
        needed = "it alone, or leave it out: checks do not run on samples"
    if wrong:
        flags = ", ".join(f"--{FLAGS.get(name, name)}" for name in context.params if name in wrong)
        fail(f"expected options that mean something {mode}; found {flags} in the command line; say {needed}")
    for name in PATHS:
        if context.params[name] == "":
            fail(f"expected a directory; found no characters in --{name}; name one")


def columns(stream: TextIO) -> int:
    """Of the terminal, 80 where the stream is none."""
    return max(40, min(shutil.get_terminal_size((80, 24)).columns, 120)) if stream.isatty() else 80


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
