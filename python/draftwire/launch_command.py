"""`draftwire launch`: the doctor's checks, then SGLang's own server in this process."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from draftwire.doctor_command import fail, wants_colour
from draftwire.draft import find_directory, looks_eagle3, read_config
from draftwire.flags import Flags, read_flags

# Those with which SGLang could serve an EAGLE-3 draft, rightly or not; the others have drafts of their own kind.
ALGORITHMS = ("", "EAGLE3", "EAGLE", "NEXTN")


def launch(
    context: typer.Context,
    config: Annotated[Path, typer.Argument(metavar="CONFIG.yaml", help="A file of SGLang's own --config.")],
    anyway: Annotated[bool, typer.Option("--anyway", help="Start whatever the checks say.")] = False,
) -> None:
    """Check, and where no error is found, exec `python -m sglang.launch_server --config CONFIG.yaml [flags]`.

    Flags after the file are SGLang's own and go before those in the file.
    """
    flags = [flag for flag in context.args if flag != "--anyway"]
    anyway = anyway or len(flags) < len(context.args)
    status = _look(config, flags, anyway)
    if status and not anyway:
        raise typer.Exit(status)
    if status:
        typer.echo("draftwire: starting anyway (--anyway), against what is said above", err=True)
    command = [sys.executable, "-m", "sglang.launch_server", "--config", str(config), *flags]
    sys.stdout.flush()
    os.execv(sys.executable, command)


def _look(config: Path, command_line: list[str], anyway: bool) -> int:
    """The doctor's exit status, its report printed to stderr; 0 where the launch names no draft."""
    from draftwire.doctor import collect, examine
    from draftwire.rendering import printable, render

    try:
        flags = read_flags(config, command_line)
        algorithm = flags.text("speculative-algorithm").upper()
        if algorithm not in ALGORITHMS or not (algorithm == "EAGLE3" or _names_eagle3(flags)):
            typer.echo("draftwire: no EAGLE-3 draft in the launch flags, nothing to check", err=True)
            return 0
        report = examine(collect(config=config, command_line=command_line))
    except (ValueError, OSError) as failure:
        if not anyway:
            fail(str(failure))
        typer.echo(f"draftwire: {printable(str(failure))}", err=True)
        return 2
    typer.echo(render(report, colour=wants_colour(sys.stderr)), err=True)
    return report.status


def _names_eagle3(flags: Flags) -> bool:
    """Whether the draft, where one is named, is an EAGLE-3 one: EAGLE and NEXTN serve others too, and rightly."""
    name = flags.text("speculative-draft-model-path")
    if not name:
        return False
    return looks_eagle3(read_config(find_directory(name, flags.text("speculative-draft-model-revision"))))


def register(app: typer.Typer) -> None:
    app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True,
                                  "allow_interspersed_args": False})(launch)  # fmt: skip
