"""`draftwire patch`: capture by boundary in an SGLang checkout, sdist or installed tree."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from draftwire.patching.plan import Plan


def patch(
    tree: Annotated[Path, typer.Argument(metavar="TREE", help="A git checkout, an sdist or a site-packages folder.")],
    check: Annotated[bool, typer.Option("--check", help="Exit 0: patched, 1: not patched, 2: cannot tell.")] = False,
    revert: Annotated[bool, typer.Option("--revert", help="Give upstream's bytes back.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Print the patch for this tree; write nothing.")] = False,
) -> None:
    """Patch an SGLang tree, which then serves a draft's embedding output without draftwire installed."""
    from draftwire.patching import apply
    from draftwire.patching.plan import plan
    from draftwire.patching.refusals import PatchError
    from draftwire.patching.tree import Tree
    from draftwire.patching.writing import alone

    if check + revert + diff > 1:
        _end("expected one of --check, --revert and --diff, found several; name one", 2)
    try:
        if check:
            found = plan(tree)
            _end(f"{found.tree.root}: {found.verdict}; {found}", 0 if found.is_patched else 1)
        if diff:
            typer.echo(apply.rendered(plan(tree)), nl=False)
            return
        with alone(Tree(tree).root):
            found = plan(tree)
            if revert:
                _run(found, apply.reverted(found), "takes off", "upstream's already")
            else:
                _run(found, apply.applied(found), "adds", "patched already")
    except PatchError as error:
        _end(str(error), 2)


def _run(found: Plan, changes: Mapping[Path, bytes | None], verb: str, done: str) -> None:
    from draftwire.patching import apply

    if apply.is_done(found, changes):
        typer.echo(f"{found.tree.root}: {done}; {found.source}")
        return
    typer.echo(f"{found.tree.root}: {verb} {found}")
    apply.carry_out(found, changes)
    typer.echo("done")


def _end(line: str, status: int) -> None:
    typer.echo(f"draftwire: {line}", err=status == 2)
    raise typer.Exit(status)


def register(app: typer.Typer) -> None:
    app.command()(patch)
