"""A report as text of 80 columns; colour only where a terminal asks for it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from draftwire.doctor import Report
from draftwire.finding import Finding

WIDTH, MARGIN = 80, 10
COLOURS = {"ok": 32, "skipped": 36, "warning": 33, "error": 31}


def render(report: Report, *, colour: bool = False) -> str:
    """All findings, the worst told in full, and the verdict last."""
    case = report.case
    lines = [f"{case.draft.layout} draft {printable(str(case.draft.directory))}"]
    target = f"{case.target.architecture}, {case.target.num_layers} layers" if case.target else "not named"
    lines += wrap(f"target {target}; {case.server}")
    if case.reading.captured is not None:
        lines += wrap(f"captures {case.reading}")
    lines.append("")
    for name, finding in report.findings:
        lines += _finding(name, finding, colour)
    counts = ", ".join(f"{report.count(level)} {level}" for level in COLOURS)
    lines += ["", f"{counts}: {report.verdict}"]
    if report.status == 2:
        lines += wrap("Part of the wiring was not looked at: see the skipped lines. Name --target.")
    return "\n".join(lines)


def _finding(name: str, finding: Finding, colour: bool) -> Iterator[str]:
    level = finding.level.ljust(MARGIN)
    yield (f"\x1b[{COLOURS[finding.level]}m{level}\x1b[0m" if colour else level) + name
    if finding.level == "ok":
        return
    yield from wrap(finding.text, margin=MARGIN)
    if finding.level == "skipped":
        return
    for line in finding.evidence:
        yield from wrap(f"- {line}", margin=MARGIN)
    yield from wrap(f"Remedy: {finding.remedy}", margin=MARGIN)
    if finding.report:
        yield from wrap(f"Known from {finding.report}", margin=MARGIN)


def wrap(text: str, width: int = WIDTH, margin: int = 0) -> list[str]:
    """Lines of at most `width` columns; a path or address that is longer stands whole on a line of its own."""
    indent = " " * margin
    return textwrap.wrap(
        printable(text), width, initial_indent=indent, subsequent_indent=indent, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def page(text: str) -> str:
    """A check's docstring in 80 columns; the lines of its list stay lines."""
    paragraphs = text.strip().split("\n\n")
    told = [p if "\n- " in p else "\n".join(wrap(" ".join(p.split()))) for p in paragraphs]
    return "\n\n".join(told)


def listing(names_and_lines: Iterable[tuple[str, str]]) -> str:
    """Each name and what it states."""
    width = 31
    lines = []
    for name, line in names_and_lines:
        wrapped = textwrap.wrap(line, WIDTH - width, break_on_hyphens=False)
        lines += [f"{name:<{width}}{wrapped[0]}", *(" " * width + more for more in wrapped[1:])]
    return "\n".join(lines)


def printable(text: str) -> str:
    """Names come from files: nothing that would steer a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)
