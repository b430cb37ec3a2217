"""What stands over a panel, no wider than the panel."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from draftwire.bench.panels import Panel

LINES = 2  # At most, of a title, of what is under it and of its flags.


def wrapped(text: str, fits: Callable[[str], bool], most: int) -> list[str]:
    """At most so many lines that fit, broken after commas and before flags; what is left out is an ellipsis."""
    lines: list[str] = []
    for part in re.split(r" (?=--)|(?<=,) ", text) if text else ():
        if lines and fits(f"{lines[-1]} {part}"):
            lines[-1] += f" {part}"
        elif len(lines) < most:
            lines.append(part)
        else:
            lines[-1] += f" {part}"
            break
    return [line if fits(line) else _shortened(line, fits) for line in lines]


def _shortened(line: str, fits: Callable[[str], bool]) -> str:
    kept = line
    while kept and not fits(f"{kept}\N{HORIZONTAL ELLIPSIS}"):
        kept = kept[:-1].rstrip(" ,")
    return f"{kept}\N{HORIZONTAL ELLIPSIS}"


def write_title(axes: Any, panel: Panel) -> None:
    """Title, and under it the setting and its flags, no wider than the panel is without them: its layout is known."""
    bold = axes.set_title("", loc="left", fontsize=10, fontweight="bold")
    under = axes.annotate("", (0, 1), (0, 6), "axes fraction", "offset points", fontsize=8, color="#5f5f5f")
    width = axes.get_tightbbox().x1 - axes.get_window_extent().x0

    def lines(artist: Any, text: str) -> list[str]:
        def fits(line: str) -> bool:
            artist.set_text(line)
            return artist.get_window_extent().width <= width

        return wrapped(text, fits, LINES)

    title = lines(bold, panel.title)
    below = [*lines(under, panel.subtitle), *lines(under, panel.flags)]
    under.set_text("\n".join(below))
    axes.set_title("\n".join(title), loc="left", fontsize=10, fontweight="bold", pad=6 + 11 * len(below))
