"""Options that every command that measures has."""

from pathlib import Path
from typing import Annotated

import typer

Concurrency = Annotated[str, typer.Option(help="Requests at once; default those of 1,8,32 that it serves.")]
Prompts = Annotated[Path | None, typer.Option(metavar="FILE", help="Your own traffic, JSONL.")]
Out = Annotated[Path, typer.Option(metavar="DIR", help="Where results.jsonl is.")]
Tokens = Annotated[int, typer.Option(min=0, help="The most an answer has; default the prompt file's, else 512.")]
Requests = Annotated[int, typer.Option(min=0, help="A run; default 4 a concurrent one, at least 8.")]
Rounds = Annotated[int, typer.Option(min=1, help="Runs of each load in each of an arm's two visits.")]
Timeout = Annotated[float, typer.Option(min=1, help="Seconds that any stage may last.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Of the servers; default free ones.")]
