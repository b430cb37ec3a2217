"""A finding: what a check saw, as a value. Text and JSON are two renderings of it."""

from __future__ import annotations

from dataclasses import dataclass

LEVELS = ("ok", "skipped", "warning", "error")
UNREPORTED = "-"


@dataclass(frozen=True)
class Finding:
    """`level`: one of LEVELS. `text`: one sentence. `evidence`: what was read, and where. `remedy`: what to do.

    `report`: the address of a public report of the same fault; where it is empty the check's first one is meant,
    UNREPORTED says that there is none.
    """

    level: str
    text: str
    evidence: tuple[str, ...] = ()
    remedy: str = ""
    report: str = ""

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ValueError(f"expected a level of {', '.join(LEVELS)}; found {self.level!r}")
        if self.level in ("warning", "error") and not self.remedy:
            raise ValueError(f"expected a remedy beside the {self.level} {self.text!r}; found none")


def ok(text: str, *evidence: str) -> Finding:
    """All is well, as far as this check sees."""
    return Finding("ok", text, evidence)


def skipped(text: str) -> Finding:
    """Not looked at; `text` says what was missing. Never counts as well."""
    return Finding("skipped", text)


def warning(text: str, *evidence: str, remedy: str, report: str = "") -> Finding:
    """Served, but perhaps not as trained, or not for long."""
    return Finding("warning", text, evidence, remedy, report)


def error(text: str, *evidence: str, remedy: str, report: str = "") -> Finding:
    """Will not start, or is served wrong."""
    return Finding("error", text, evidence, remedy, report)
