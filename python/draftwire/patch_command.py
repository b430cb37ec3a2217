"""`draftwire patch`: capture by boundary in an SGLang checkout, sdist or installed tree."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def patch(
    tree: Annotated[Path, typer.Argument(metavar="TREE", help="A git checkout, an sdist or a site-packages folder.")],
    check: Annotated[bool, typer.Option("--check", help="Exit 0: patched, 1: not patched, 2: cannot tell.")] = False,
    revert: Annotated[bool, typer.Option("--revert", help="Give upstream's bytes back.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Print the patch for this tree; write nothing.")] = False,
) -> None:
    """Patch an SGLang tree, which then serves a draft's embedding output without draftwire installed."""
    from draftwire.patching import apply
    from draftwire.patching.refusals import PatchError

    if check + revert + diff > 1:
        _end("expected one of --check, --revert and --diff, found several; name one", 2)
    try:
        plan = apply.plan(tree)
        if check:
            state = (
                "patched" if plan.is_patched else "not patched" if plan.is_untouched else "half patched, run it again"
            )
            _end(f"{plan.tree.root}: {state}; {plan}", 0 if plan.is_patched else 1)
        if diff:
            typer.echo(apply.rendered(plan), nl=False)
        elif revert:
            _run(apply.revert, plan, plan.is_untouched, "takes off", "upstream's already")
        else:
            _run(apply.apply, plan, plan.is_patched, "adds", "patched already")
    except PatchError as error:
        _end(str(error), 2)


def _run(action, plan, is_done: bool, verb: str, done: str) -> None:
    if is_done:
        typer.echo(f"{plan.tree.root}: {done}; {plan.source}")
        return
    typer.echo(f"{plan.tree.root}: {verb} {plan}")
    action(plan)
    typer.echo("done")


def _end(line: str, status: int) -> None:
    typer.echo(f"draftwire: {line}", err=status == 2)
    raise typer.Exit(status)


def register(app: typer.Typer) -> None:
    app.command()(patch)
