"""The `draftwire` command. Imports are lazy: help and the reading commands need neither torch nor SGLang."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from draftwire import (
    bench_command,
    convert_command,
    doctor_command,
    launch_command,
    patch_command,
    report_command,
    tune_command,
)
from draftwire.interruption import orderly_exit

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)


@app.callback(help="Right wiring for EAGLE-3 drafts on SGLang.")
def main() -> None:
    pass


@contextmanager
def one_line() -> Iterator[None]:
    """An error that the user can mend is one line and status 2; a signal ends as Ctrl-C does, with every server."""
    try:
        with orderly_exit():
            yield
    except typer.Exit:  # A RuntimeError too.
        raise
    except ImportError as error:
        typer.echo(f"draftwire: expected SGLang beside draftwire, found: {error}; run `make setup`", err=True)
        raise typer.Exit(2) from None
    except (RuntimeError, OSError) as error:
        typer.echo(f"draftwire: {error}", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        typer.echo("draftwire: interrupted, and every server that it started is ended", err=True)
        raise typer.Exit(130) from None


@app.command()
def demo() -> None:
    """Serve the small pair without its draft, wired and mis-wired, and show what each is worth."""
    with one_line():
        from draftwire.demo import run

        status = run()
    raise typer.Exit(status)


@app.command()
def serve_example(port: int = 30000) -> None:
    """Serve the small pair, wired as trained, in the foreground: the launch command is printed first."""
    with one_line():
        from draftwire.engine import find_device, small_engine
        from draftwire.pair import example_pair

        engine, dtype = small_engine(device := find_device()), "float32" if device == "cpu" else "bfloat16"
        flags = [*example_pair().flags(dtype=dtype), *engine.flags, "--port", str(port)]
    command = [sys.executable, "-m", "sglang.launch_server", *flags]
    typer.echo(" ".join([*(f"{k}={v}" for k, v in engine.env.items()), shlex.join(command)]), err=True)
    os.execve(sys.executable, command, {**os.environ, **engine.env})


patch_command.register(app)
doctor_command.register(app)
launch_command.register(app)
convert_command.register(app)
bench_command.register(app)
tune_command.register(app)
report_command.register(app)
