"""The report's charts, drawn with matplotlib: the same bytes for the same rows, by the release that pyproject names."""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Callable, Sequence
from typing import Any

from draftwire.bench.chart_files import compact, with_text
from draftwire.bench.chart_titles import write_title
from draftwire.bench.panels import MOST, Panel, Row, Series, acceptance_panels, prediction_panels, speed_panels

# Okabe and Ito's, told apart by all kinds of colour vision and in grey.
COLOURS = {"baseline": "#5f5f5f", "eagle3": "#0072b2", "mtp": "#d55e00", "predicted": "#0072b2", "measured": "#d55e00"}
BLUES = ("#3d97d3", "#1f83c4", "#0072b2", "#00517f", "#002a43")
INK, FAINT = "#222222", "#d9d9d9"
COLUMNS = 2
GAP = 11.5  # Points between the names of lines.
DPI = 84  # Of the PNG, and of the text by which both are laid out.
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none", "svg.hashsalt": "draftwire", "font.family": "DejaVu Sans", "font.size": 9,
    "axes.edgecolor": "#8a8a8a", "axes.labelcolor": INK, "text.color": INK, "xtick.color": "#5f5f5f",
    "ytick.color": "#5f5f5f", "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "axes.grid.axis": "y", "grid.color": FAINT, "grid.linewidth": 0.6, "axes.axisbelow": True, "path.simplify": False,
}  # fmt: skip


def draw_all(rows: Sequence[Row]) -> dict[str, bytes]:
    """Files by name: speed, acceptance and prediction, each as .svg and .png; a chart without data is left out.

    Raises RuntimeError, one line, where matplotlib is not installed.
    """
    wanted: dict[str, tuple[list[Panel], Callable]] = {
        "speed": (speed_panels(rows), _speed),
        "acceptance": (acceptance_panels(rows), _acceptance),
        "prediction": (prediction_panels(rows), _prediction),
    }
    out: dict[str, bytes] = {}
    for name, (panels, draw) in wanted.items():
        if panels:
            svg, png = _render(panels[:MOST], draw)
            out |= {f"{name}.svg": svg, f"{name}.png": png}
    return out


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Places near those wanted, in their order and at least `gap` apart; those that would meet move as a group."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    groups: list[list[int]] = []

    def centre(group: list[int]) -> float:
        return sum(wanted[i] for i in group) / len(group)

    def top(group: list[int]) -> float:
        return centre(group) + gap * (len(group) - 1) / 2

    def bottom(group: list[int]) -> float:
        return centre(group) - gap * (len(group) - 1) / 2

    for i in order:
        groups.append([i])
        while len(groups) > 1 and bottom(groups[-1]) - top(groups[-2]) < gap:
            groups[-2:] = [groups[-2] + groups[-1]]
    out = [0.0] * len(wanted)
    for group in groups:
        for number, i in enumerate(group):
            out[i] = bottom(group) + gap * number
    return out


def colours(series: Sequence[Series]) -> list[str]:
    """One a series; several of EAGLE-3 go from light to dark."""
    blues = [i for i, one in enumerate(series) if one.kind == "eagle3"]
    out = [COLOURS.get(one.kind, INK) for one in series]
    for number, i in enumerate(blues):
        if len(blues) > 1:
            out[i] = BLUES[round(number * (len(BLUES) - 1) / (len(blues) - 1))]
    return out


def _render(panels: Sequence[Panel], draw: Callable) -> tuple[bytes, bytes]:
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from PIL import Image
    except ImportError:
        raise RuntimeError("expected matplotlib for the charts, found none; pip install 'draftwire[report]'") from None
    columns = min(COLUMNS, len(panels))
    lines = math.ceil(len(panels) / columns)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.2 * columns, 3.3 * lines), dpi=DPI, facecolor="white")
        figure.set_layout_engine("constrained", wspace=0.08, hspace=0.08)
        FigureCanvasAgg(figure)
        grid = figure.subplots(lines, columns, squeeze=False).flatten()
        for axes, panel in zip(grid, panels, strict=False):
            axes.tick_params(length=0)
            draw(axes, panel)
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        figure.draw_without_rendering()
        for axes, panel in zip(grid, panels, strict=False):
            write_title(axes, panel)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        for axes in grid[: len(panels)]:
            _part_names(axes)
        vector, raster = io.BytesIO(), io.BytesIO()
        figure.savefig(vector, format="svg")
        svg = compact(vector.getvalue())
        figure.savefig(raster, format="png", dpi=DPI, metadata={"Software": None})
        image = Image.open(raster).convert("RGB").quantize(24, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    return svg, with_text(image, hashlib.sha256(svg).hexdigest())


def _name_lines(axes: Any, panel: Panel, tints: Sequence[str]) -> None:
    """Each series' name at the right edge, at the height of its last point."""
    for one, tint in zip(panel.series, tints, strict=True):
        place = (1.0, one.points[-1][1])
        axes.annotate(one.label, place, (6, 0), axes.get_yaxis_transform(), "offset points", color=tint, va="center",
                      annotation_clip=False, gid="name")  # fmt: skip


def _part_names(axes: Any) -> None:
    """Names that would meet, moved apart and kept below the title; the layout is settled by now."""
    names = [child for child in axes.texts if child.get_gid() == "name"]
    heights = [axes.transData.transform((1, name.xy[1]))[1] * 72 / axes.figure.dpi for name in names]
    places = spread(heights, GAP)
    ceiling = axes.bbox.y1 * 72 / axes.figure.dpi - GAP / 4
    for i in sorted(range(len(places)), key=lambda i: -places[i]):
        places[i] = min(places[i], ceiling)
        ceiling = places[i] - GAP
    for name, height, place in zip(names, heights, places, strict=True):
        name.set_position((6, place - height))
        name.set_gid(None)


def _lines(axes: Any, panel: Panel) -> list[str]:
    tints = colours(panel.series)
    for depth, (one, tint) in enumerate(zip(panel.series, tints, strict=True)):
        x, y, low, high = zip(*one.points, strict=True)
        # The shorter lines on top: they would be hidden where they run along a longer one.
        front = 3 - 0.01 * len(x) - 0.0001 * depth
        dash = (0, (4, 2)) if one.kind == "baseline" else "-"
        if low != high:
            axes.vlines(x, low, high, color=tint, linewidth=1, zorder=front)
        axes.plot(x, y, color=tint, linewidth=1.8, linestyle=dash, marker="o", markersize=4, zorder=front)
    return tints


def _speed(axes: Any, panel: Panel) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

    tints = _lines(axes, panel)
    places = sorted({point[0] for one in panel.series for point in one.points})
    least, most = panel.ends
    if len(places) > 1:
        axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(places))
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_locator(NullLocator())
    if most > 8 * least:
        _log_scale(axes, least, most)
    else:
        axes.set_ylim(0, 1.08 * most)
    axes.set_xlabel("requests at once")
    axes.set_ylabel("tokens a second")
    _name_lines(axes, panel, tints)


def _log_scale(axes: Any, least: float, most: float) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    axes.set_yscale("log")
    axes.set_ylim(least / 1.15, most * 1.15)
    ticks = [m * 10**e for e in range(-1, 8) for m in (1, 2, 5) if least / 1.15 <= m * 10**e <= most * 1.15]
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))


def _acceptance(axes: Any, panel: Panel) -> None:
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    tints = _lines(axes, panel)
    right = max(one.points[-1][0] for one in panel.series) + 0.15
    for one, tint in zip(panel.series, tints, strict=True):
        x, y = one.points[-1][:2]
        axes.hlines(y, x, right, color=tint, linewidth=0.7, linestyle=(0, (1, 2)))
    axes.set_xlim(0.85, right)
    axes.set_ylim(0, 1)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.yaxis.set_major_formatter(PercentFormatter(1, 0))
    axes.set_xlabel("position in the draft")
    axes.set_ylabel("share of steps that accept it")
    _name_lines(axes, panel, tints)


def _prediction(axes: Any, panel: Panel) -> None:
    from matplotlib.ticker import MaxNLocator

    tints = colours(panel.series)
    for one, tint in zip(panel.series, tints, strict=True):
        x, y, low, high = zip(*one.points, strict=True)
        if one.kind == "measured":
            axes.vlines(x, low, high, color=tint, linewidth=1.4)
            axes.plot(x, y, color=tint, linestyle="", marker="o", markersize=5)
        else:
            axes.fill_between(x, low, high, color=tint, alpha=0.14, linewidth=0)
            axes.plot(x, y, color=tint, linewidth=1.8, linestyle=(0, (4, 2)) if one.kind == "baseline" else "-")
    axes.set_ylim(0, 1.08 * max(value for one in panel.series for point in one.points for value in point[1:]))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.set_xlabel("draft steps")
    axes.set_ylabel("tokens a second")
    _name_lines(axes, panel, tints)
