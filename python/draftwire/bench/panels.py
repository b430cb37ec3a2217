"""What the report's charts show, as numbers: panels of series, from rows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

Row = Mapping[str, Any]
# A chart's panels: the settings that were measured last.
MOST = 4
ARMS = {"baseline": "no draft", "eagle3": "EAGLE-3", "mtp": "MTP"}


class Series(NamedTuple):
    """One line. kind: an arm, "predicted" or "measured". points: (x, y, least y, most y) in the order of x."""

    label: str
    kind: str
    points: tuple[tuple[float, float, float, float], ...]


class Panel(NamedTuple):
    """flags: launch flags beside the config. ends: least and most y of the panels that are read against each other,
    those of one device.
    """

    title: str
    subtitle: str
    flags: str
    series: tuple[Series, ...]
    ends: tuple[float, float] = (0.0, 0.0)


def setting(row: Row) -> tuple[str, ...]:
    """Rows with the same one are measurements of the same thing; of them the charts show the latest."""
    keys = ("draft_config_sha256", "delivery", "config", "device", "sglang", "tp_size", "draft_sha256")
    # The first rows leave these two out: they were bench's own.
    sampling = f"{row.get('temperature') or 0.0} {row.get('top_p') or 1.0}"
    flags = (*(row.get("flags") or ()), *(row.get("speculative_flags") or ()))
    prompts = (row.get("prompts") or {}).get("sha256")
    said = (str(row.get(key)) for key in keys)
    return (*said, sampling, " ".join(flags), str(prompts), str(shares_a_server(row)))


def shares_a_server(row: Row) -> bool:
    """Whether the two visits of the arm in the middle of a row's order were one server's, as in the first rows."""
    return "always_cut" not in row and row["benchmark"] == "bench"


def has_baseline(row: Row) -> bool:
    return any(entry["arm"] == "baseline" for entry in row["measurements"])


def is_chain(e: Mapping[str, Any]) -> bool:
    """An EAGLE-3 measurement that predictions are made of: no tree, over answers that end where they end."""
    return e["arm"] == "eagle3" and e["topk"] == 1 and e["length"] == "eos"


def latest(rows: Iterable[Row], benchmark: str) -> list[Row]:
    """The last row of each setting, newest first; one without a baseline only where none has one, one whose arms
    shared a server only where all do, and one that does not name the draft's config only where no other is like it.
    """
    rows = [row for row in rows if row["benchmark"] == benchmark]
    rows = [row for row in rows if not shares_a_server(row)] or rows
    last: dict[tuple[str, ...], Row] = {}
    for row in rows:
        here = last.get(setting(row))
        if here is None or has_baseline(row) or not has_baseline(here):
            last.pop(setting(row), None)
            last[setting(row)] = row
    named = {key[1:] for key, row in last.items() if row.get("draft_config_sha256")}
    kept = [row for key, row in last.items() if row.get("draft_config_sha256") or key[1:] not in named]
    return list(reversed(kept))


def _one_delivery(rows: Sequence[Row]) -> list[Row]:
    """Of rows that differ in how the states reach the draft alone, the overlay's: the report's tables have them all."""
    by_overlay = {setting(row)[2:] for row in rows if row["delivery"] == "overlay"}
    return [row for row in rows if row["delivery"] == "overlay" or setting(row)[2:] not in by_overlay]


def _with_most_loads(rows: Sequence[Row]) -> list[Row]:
    """Of each setting the rows that were measured at several concurrencies, where there is one."""
    several = [row for row in rows if len({e["concurrency"] for e in row["measurements"]}) > 1]
    settings = {setting(row) for row in several}
    return [row for row in rows if row in several or setting(row) not in settings]


def name_of(row: Row) -> tuple[str, str, str]:
    """A setting's title, what is under it, and launch flags beside its config, "" without."""
    ranks = f", tp {row['tp_size']}" if row.get("tp_size", 1) != 1 else ""
    said = (*(row.get("flags") or ()), *(row.get("speculative_flags") or ()))
    title = PurePath(row["config"]).stem
    title += f", temperature {row['temperature']:g}" if row.get("temperature") else ""
    return title, f"{row['device']}{ranks}, SGLang {row['sglang']}, {row['delivery']}", " ".join(said)


def label_of(entry: Mapping[str, Any]) -> str:
    """no draft; EAGLE-3, 3 steps; EAGLE-3, 3 steps, tree of 2, 8 tokens."""
    name, steps = ARMS.get(entry["arm"], entry["arm"]), entry["steps"]
    if steps is None:
        return name
    tree = f", tree of {entry['topk']}, {entry['draft_tokens']} tokens" if entry["topk"] != 1 else ""
    return f"{name}, {steps} step{'s' if steps != 1 else ''}{tree}"


def grouped(entries: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """By label: the baseline first, then by arm, topk and steps; each in the order of concurrency."""
    order = list(ARMS)

    def place(e: Mapping[str, Any]) -> tuple:
        arm = order.index(e["arm"]) if e["arm"] in order else len(order)
        return arm, e["topk"] or 0, e["steps"] or 0, e["draft_tokens"] or 0, e["concurrency"]

    out: dict[str, list[Mapping[str, Any]]] = {}
    for entry in sorted(entries, key=place):
        out.setdefault(label_of(entry), []).append(entry)
    return out


def ended(row: Row) -> list[Mapping[str, Any]]:
    """Measurements in which answers end with the end of sequence."""
    return [entry for entry in row["measurements"] if entry["length"] == "eos"]


def speed_panels(rows: Sequence[Row]) -> list[Panel]:
    """Tokens a second by concurrency, of rows with more than one where there are such."""
    panels: list[tuple[str, Panel]] = []
    for row in _one_delivery(latest(_with_most_loads([row for row in rows if row["benchmark"] == "bench"]), "bench")):
        series = [
            Series(label, entries[0]["arm"],
                   tuple((e["concurrency"], e["tok_s"], e["tok_s_min"], e["tok_s_max"]) for e in entries))
            for label, entries in grouped(ended(row)).items()
        ]  # fmt: skip
        panels += [(row["device"], Panel(*name_of(row), tuple(series)))] if series else []
    heights: dict[str, list[float]] = {}
    for device, panel in panels[:MOST]:
        heights.setdefault(device, []).extend(y for one in panel.series for point in one.points for y in point[1:])
    return [panel._replace(ends=(min(heights[device]), max(heights[device]))) for device, panel in panels[:MOST]]


def acceptance_panels(rows: Sequence[Row]) -> list[Panel]:
    """Share of verify steps that accept a position and all before it, at the lowest concurrency."""
    out = []
    for row in _one_delivery(latest(rows, "bench")):
        series = []
        for label, entries in grouped(e for e in ended(row) if e.get("accept_positions")).items():
            first = entries[0]
            points = tuple((j, c, c, c) for j, c in enumerate(first["accept_positions"], 1))
            series.append(Series(f"{label}: {first['accept_length']:.2f} a step", first["arm"], points))
        out += [Panel(*name_of(row), tuple(series))] if series else []
    return out


def prediction_panels(rows: Sequence[Row]) -> list[Panel]:
    """Tokens a second by number of steps, predicted and then measured, at the concurrency tuned for. The band of no
    draft is of both runs: the second, which the measured ones are of, widens it by its median.
    """
    out = []
    for row in latest(rows, "tune"):
        at = row["at"]
        plain = [e for e in row["measurements"] if e["arm"] == "baseline" and e["concurrency"] == at]
        predicted = [p for p in row["predictions"] if p["concurrency"] == at]
        checked = sorted((m for m in row["checked"] if m["concurrency"] == at), key=lambda m: m["steps"])
        series = [Series("predicted", "predicted", _by_steps(predicted))]
        series += [Series("measured", "measured", _by_steps(checked))] if checked else []
        for e in plain:
            both = row.get("repeated") or ()
            ends = [m["after"] for m in both if m["concurrency"] == at and m["steps"] is None]
            ends += [e["tok_s_min"], e["tok_s_max"]]
            flat = (e["tok_s"], min(ends), max(ends))
            steps = sorted({p["steps"] for p in predicted})
            series.insert(0, Series("no draft", "baseline", ((steps[0], *flat), (steps[-1], *flat))))
        title, under, flags = name_of(row)
        out.append(Panel(f"{title}, {at} at once", under, flags, tuple(series)))
    return out


def _by_steps(entries: Iterable[Mapping[str, Any]]) -> tuple[tuple[float, float, float, float], ...]:
    return tuple((e["steps"], e["tok_s"], e["tok_s_min"], e["tok_s_max"]) for e in entries)
