"""Drafts that speculators itself saved: named as they lie, and well once converted and served by the overlay."""

from __future__ import annotations

from pathlib import Path

import pytest
import speculators_oracle as oracle
from cases import EXAMPLE, FLAGS
from draft_cases import FULL, TRAINERS_DEFAULT, combinations, stretched

from draftwire.convert import convert
from draftwire.doctor import Report, collect, examine

CHOSEN = {TRAINERS_DEFAULT, FULL, "llama-raw-plain-pre-reduced-full", "llama-raw-fc_norm-output-whole-full"}
CASES = [case for case in combinations() if case["name"] in CHOSEN] + stretched()
# What stock SGLang 0.5.23 does not run of each, by the check that says so.
STOCK = {
    TRAINERS_DEFAULT: {"norms_served", "window_passed"},
    FULL: {"norms_served"},
    "llama-raw-plain-pre-reduced-full": set(),
    "llama-raw-fc_norm-output-whole-full": set(),
    "three_layers": {"norms_served"},
    "mixed_windows": {"norms_served", "window_passed"},
    "four_states": {"norms_served"},
    "two_states": {"norms_served"},
    "boundary_1": {"ids_mean_one_thing", "boundaries_reachable", "norms_served"},
    "own_embedding": {"norms_served", "embedding_is_targets"},
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("speculators")
    oracle.make_drafts(CASES, EXAMPLE / "target", folder)
    return folder


def run(draft: Path, delivery: str) -> Report:
    return examine(collect(str(draft), str(EXAMPLE / "target"), None, FLAGS, "0.5.23", delivery, {}))


def errors(report: Report) -> set[str]:
    return {name for name, finding in report.findings if finding.level == "error"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_as_saved(saved: Path, case: dict) -> None:
    assert "draft_class_served" in errors(run(saved / case["name"], "stock"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_converted(saved: Path, case: dict, tmp_path: Path) -> None:
    convert(str(saved / case["name"]), tmp_path / "out", target=str(EXAMPLE / "target"))
    report = run(tmp_path / "out", "overlay")
    assert (report.verdict, errors(report)) == ("WIRED", set()), report.findings
    assert tuple(case["boundaries"]) == report.case.reading.captured
    marked = {"shapes_match_config"} if report.case.requires else set()
    assert errors(run(tmp_path / "out", "stock")) == STOCK[case["name"]] | marked
