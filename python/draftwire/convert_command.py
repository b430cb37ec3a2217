"""`draftwire convert`: a trainer's draft directory becomes one that SGLang serves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def convert(
    source: Annotated[str, typer.Argument(metavar="DIR|org/name", help="The draft; a hub name is looked up locally.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The directory to write, not there yet.")],
    target: Annotated[str, typer.Option(help="The target model, where the draft does not name it.")] = "",
    boundaries: Annotated[str, typer.Option(help="Such as 0,3,31, where the draft's ids have no one meaning.")] = "",
    release: Annotated[str, typer.Option(help="The SGLang release that will serve it.")] = "",
) -> None:
    """Write a directory that SGLang serves as the trainer trained it, or say in one line why not."""
    from draftwire.convert import DraftError
    from draftwire.convert import convert as run
    from draftwire.convert.flatten import SERVED
    from draftwire_overlay.srt.speculative.aux_boundaries import WiringError

    try:
        given = [int(b) for b in boundaries.split(",")] if boundaries else None
    except ValueError:
        _fail(f"expected numbers such as 0,3,31; found {boundaries!r} in --boundaries; name the boundaries")
    if release and release.split("+")[0] not in SERVED:
        _fail(
            f"expected a release of {SERVED[0]} to {SERVED[-1]}; found {release!r} in --release; "
            "name the SGLang that will serve, or leave it out"
        )
    try:
        output = run(source, out, target=target or None, boundaries=given, release=release)
    except (DraftError, WiringError) as error:
        _fail(str(error))
    except (OSError, RuntimeError, ValueError) as error:
        _fail(f"expected to read {source} and write {out}; found {error}; correct the path or its rights")
    for note in output.notes:
        typer.echo(f"note: {note}")
    typer.echo(f"{out}: boundaries {output.boundaries}, {len(output.pieces)} tensors, flags in {out / 'serve.yaml'}")
    if output.requires:
        typer.echo(
            f"served by SGLang with draftwire's overlay only ({', '.join(output.requires)}); a stock server refuses it"
        )


def _fail(line: str) -> None:
    typer.echo(f"draftwire: {line}", err=True)
    raise typer.Exit(2)


def register(app: typer.Typer) -> None:
    app.command()(convert)
