"""The `draftwire` command. Imports are lazy: help and the reading commands need neither torch nor SGLang."""

from __future__ import annotations

import os
import shlex
import sys

import typer

from draftwire import doctor_command, launch_command, patch_command

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)


@app.callback(help="Right wiring for EAGLE-3 drafts on SGLang.")
def main() -> None:
    pass


@app.command()
def demo() -> None:
    """Serve the small pair without its draft, wired and mis-wired, and show what each is worth."""
    from draftwire.demo import run

    try:
        status = run()
    except (RuntimeError, OSError) as error:
        typer.echo(f"draftwire: {error}", err=True)
        status = 2
    raise typer.Exit(status)


@app.command()
def serve_example(port: int = 30000) -> None:
    """Serve the small pair, wired as trained, in the foreground: the launch command is printed first."""
    from draftwire.engine import find_device, small_engine
    from draftwire.pair import example_pair

    engine = small_engine(find_device())
    flags = [*example_pair().flags(), *engine.flags, "--port", str(port)]
    command = [sys.executable, "-m", "sglang.launch_server", *flags]
    typer.echo(" ".join([*(f"{k}={v}" for k, v in engine.env.items()), shlex.join(command)]), err=True)
    os.execve(sys.executable, command, {**os.environ, **engine.env})


patch_command.register(app)
doctor_command.register(app)
launch_command.register(app)
