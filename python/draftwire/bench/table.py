"""Measurements as a person reads them on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

LEGEND = (
    "tok/s, and gain over the baseline's: median (least-most); TTFT, TPOT: ms;\n"
    "accept: tokens a verify step; same: share of outputs equal to the baseline's;\n"
    "fixed: the end of sequence ignored"
)


def table_of(entries: Sequence[dict[str, Any]]) -> Table:
    """What a person reads, within 80 columns. The row holds more."""
    table = Table(box=None, padding=(0, 1, 0, 0))
    for heading in ("", "users", "tok/s", "TTFT", "TPOT", "accept", "gain", "same"):
        table.add_column(heading, justify="left" if not heading else "right", no_wrap=True)
    for entry in entries:
        steps = f" {entry['steps']}/{entry['topk']}/{entry['draft_tokens']}" if entry["steps"] else ""
        table.add_row(
            entry["arm"] + steps,
            f"{entry['concurrency']} fixed" if entry["length"] == "fixed" else str(entry["concurrency"]),
            _speed(entry),
            f"{entry['ttft_ms']:.0f}",
            f"{entry['tpot_ms']:.1f}",
            _or_dash(entry["accept_length"]),
            _gain(entry),
            _or_dash(entry["outputs_equal"]),
        )
    return table


def _speed(entry: Mapping[str, Any]) -> str:
    speed, *ends = (entry[key] for key in ("tok_s", "tok_s_min", "tok_s_max"))
    if speed >= 10_000:
        return f"{speed / 1000:.1f}k ({ends[0] / 1000:.1f}-{ends[1] / 1000:.1f})"
    return f"{speed:.{0 if speed >= 1000 else 1}f} ({ends[0]:.0f}-{ends[1]:.0f})"


def _gain(entry: Mapping[str, Any]) -> str:
    if entry["speedup"] is None:
        return "-"
    return f"{entry['speedup']:.2f} ({entry['speedup_min']:.2f}-{entry['speedup_max']:.2f})"


def _or_dash(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
