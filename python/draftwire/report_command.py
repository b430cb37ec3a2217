"""`draftwire report`: benchmarks/REPORT.md and its charts, anew from results.jsonl."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

NAMES = [f"{name}.{kind}" for name in ("speed", "acceptance", "prediction") for kind in ("svg", "png")]


def report(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where results.jsonl is.")] = Path("benchmarks"),
) -> None:
    """Write DIR/REPORT.md and DIR/charts from DIR/results.jsonl; the same rows give the same text and SVG."""
    from draftwire.cli import one_line

    with one_line():
        write(out)
    typer.echo(f"{out / 'REPORT.md'}")


def write(folder: Path) -> None:
    """Charts first, then the report that names them; a chart that has no data any more is removed.

    Raises BenchError, one line, on rows that cannot be read.
    """
    from draftwire.bench.charts import draw_all
    from draftwire.bench.refusals import BenchError
    from draftwire.bench.report import read_rows, write_report

    results = folder / "results.jsonl"
    try:
        text = results.read_text(encoding="utf-8")
    except OSError as failure:
        found = failure.strerror or type(failure).__name__
        raise BenchError("rows of draftwire bench", found, results, "name their folder with --out") from None
    except UnicodeDecodeError:
        raise BenchError("rows in UTF-8", "other bytes", results, "mend it") from None
    rows = read_rows(text, results)
    files = draw_all(rows)
    charts = folder / "charts"
    if files:
        charts.mkdir(exist_ok=True)
    for name in NAMES:
        if name in files:
            (charts / name).write_bytes(files[name])
        else:
            (charts / name).unlink(missing_ok=True)
    (folder / "REPORT.md").write_text(write_report(rows, files), encoding="utf-8")


def register(app: typer.Typer) -> None:
    app.command()(report)
