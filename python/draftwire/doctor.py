"""Collect a case, run the checks, come to a verdict. Imports neither torch nor SGLang."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from draftwire import checks
from draftwire.case import DELIVERIES, Case
from draftwire.delivery import find_delivery, installed_release
from draftwire.draft import Draft, DraftError, find_directory, read_draft
from draftwire.finding import LEVELS, UNREPORTED, Finding
from draftwire.flags import Flags, read_flags
from draftwire.release import parse
from draftwire.target import Target, read_target

OF_DRAFT = ("speculative-draft-model-path", "speculative-draft-model-revision")
OF_TARGET = ("model-path", "revision")
ADDRESS = re.compile(r"https://\S+")


@dataclass(frozen=True)
class Report:
    """`findings`: the name of the check beside each finding, in the order in which they ran."""

    case: Case
    findings: tuple[tuple[str, Finding], ...]

    def count(self, level: str) -> int:
        return sum(finding.level == level for _, finding in self.findings)

    @property
    def verdict(self) -> str:
        """MISWIRED where there is an error; WIRED where every check of the wiring looked and all is well."""
        if self.count("error"):
            return "MISWIRED"
        wiring = [finding.level for name, finding in self.findings if name in checks.WIRING]
        looked = {name for name, _ in self.findings}.issuperset(checks.WIRING)
        return "WIRED" if looked and set(wiring) == {"ok"} else "UNKNOWN"

    @property
    def status(self) -> int:
        """The exit status: 1 for an error, 2 where nothing was found wrong but part of the wiring not looked at."""
        if self.count("error"):
            return 1
        blind = [name for name, f in self.findings if f.level == "skipped" and name in checks.WIRING]
        return 2 if blind or not any(f.level != "skipped" for _, f in self.findings) else 0

    def as_json(self) -> dict[str, Any]:
        """A table for `json.dumps`."""
        case = self.case
        return {
            "draft": str(case.draft.directory),
            "target": str(case.target.directory) if case.target else None,
            "release": case.release,
            "delivery": case.delivery,
            "boundaries": list(case.reading.captured) if case.reading.captured is not None else None,
            "verdict": self.verdict,
            "status": self.status,
            "counts": {level: self.count(level) for level in LEVELS},
            "findings": [
                {"check": name, "level": f.level, "text": f.text, "evidence": list(f.evidence), "remedy": f.remedy,
                 "report": f.report}
                for name, f in self.findings
            ],
        }  # fmt: skip


def collect(
    draft: str | None = None,
    target: str | None = None,
    config: Path | None = None,
    command_line: Sequence[str] = (),
    release: str | None = None,
    delivery: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Case:
    """Read what there is to know of a draft, its target and its launch. A name is a directory or one in the hub cache.

    draft, target: where None, the launch flags name them. release: default the SGLang installed here, else the newest.
    delivery: stock, overlay or patch; default what this environment would start.
    Raises DraftError, one line, where something that was named cannot be read.
    """
    environment = os.environ if environment is None else environment
    flags = read_flags(config, command_line) if config or command_line else None
    named = (draft or "", target or "")
    draft = draft or (flags.text("speculative-draft-model-path") if flags else "")
    if not draft:
        raise DraftError("a draft", "none named", "--draft and the launch flags",
                         "name it with --draft or --speculative-draft-model-path")  # fmt: skip
    release = release or installed_release()
    parse(release)
    delivery = delivery or find_delivery(release, environment)
    if delivery not in DELIVERIES:
        raise DraftError(f"one of {', '.join(DELIVERIES)}", delivery, "--delivery", "name one of them")
    try:
        read = read_draft(find_directory(draft, _revision(flags, draft, *OF_DRAFT)))
        _require_draft(read)
        return Case(read, _find_target(target, flags, read.config), flags, release, delivery, environment, named)
    except OSError as failure:
        where = failure.filename or draft
        raise DraftError(
            "to read", failure.strerror or type(failure).__name__, where, "check path and rights"
        ) from None


def _require_draft(draft: Draft) -> None:
    """A target's own directory can look like an MLA draft."""
    marks = ("eagle_config", "draft_vocab_size", "speculators_model_type")
    fc = any(name.removeprefix("model.") == "fc.weight" for name in draft.tensors)
    if not fc and not any(key in draft.config for key in marks):
        raise DraftError(
            "an EAGLE-3 draft, which has an fc.weight", f"architectures {draft.config.get('architectures')}",
            draft.directory, "name the directory of the draft, not of its target",
        )  # fmt: skip


def _revision(flags: Flags | None, name: str, path: str, revision: str) -> str:
    """The hub revision that the flags say of this model; none where they serve another."""
    if flags is None or (flags.said(path) and flags.text(path).lower() != name.lower()):
        return ""
    return flags.text(revision)


def _find_target(name: str | None, flags: Flags | None, config: Mapping[str, Any]) -> Target | None:
    """By name, by the launch flags, else the verifier of a speculators draft where it is at hand."""
    name = name or (flags.text("model-path") if flags else "")
    if name:
        return read_target(find_directory(name, _revision(flags, name, *OF_TARGET)))
    outer = config.get("speculators_config")
    verifier = outer.get("verifier") if isinstance(outer, dict) else None
    named = verifier.get("name_or_path") if isinstance(verifier, dict) else None
    if not isinstance(named, str):
        return None
    try:
        return read_target(find_directory(named))
    except (DraftError, OSError):
        return None


def examine(case: Case, names: Iterable[str] = checks.NAMES) -> Report:
    """Run checks by name. One that throws is a finding of level error. Raises KeyError on an unknown name."""
    findings: list[tuple[str, Finding]] = []
    for name in names:
        module = checks.load(name)
        reports = ADDRESS.findall(module.__doc__ or "")
        for finding in _run(module.check, case):
            findings.append((name, replace(finding, report=_known_from(finding, reports))))
    return Report(case, tuple(findings))


def _known_from(finding: Finding, reports: Sequence[str]) -> str:
    if finding.level not in ("warning", "error") or finding.report == UNREPORTED:
        return ""
    return finding.report or (reports[0] if reports else "")


def _run(check: Any, case: Case) -> list[Finding]:
    try:
        answer = check(case)
        answers = answer if isinstance(answer, list) else [answer]
        if not answers or not all(isinstance(a, Finding) for a in answers):
            raise TypeError(f"expected findings, found {answer!r}")
        return answers
    except DraftError as refusal:
        return [Finding("error", "What it looks at cannot be read.", (str(refusal),), "Correct what is named here.")]
    except Exception as failure:
        seen = f"{type(failure).__name__}: {failure}"[:300]
        return [Finding("error", "The check itself failed.", (seen,), "Report this draft's config to draftwire.")]
