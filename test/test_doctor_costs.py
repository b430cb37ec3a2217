"""Each damaged draft is named by its check, and costs on the real engine what docs/check-costs.json says.

DRAFTWIRE_RECORD=1 writes the figures anew; then `python -m draftwire.catalogue`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from faults import COSTS_ABOUT, FAULTS, HEALTHY, Fault, launch_flags, serve

from draftwire.catalogue import COSTS
from draftwire.doctor import collect, examine

NOISE = 0.15  # of acceptance length, between machines: a near tie can fall otherwise


def by_check(fault: Fault) -> str:
    return fault.check


def examine_fault(fault: Fault, draft: Path):
    environment = fault.env if fault.check else {}
    return examine(collect(None, None, None, launch_flags(fault, draft), "0.5.23", "stock", environment))


def test_the_healthy_one_is_wired(tmp_path: Path) -> None:
    report = examine_fault(HEALTHY, HEALTHY.make(tmp_path / "draft"))
    errors = [finding for finding in report.findings if finding[1].level == "error"]
    assert not errors


@pytest.mark.parametrize("fault", FAULTS, ids=by_check)
def test_its_check_names_it(tmp_path: Path, fault: Fault) -> None:
    report = examine_fault(fault, fault.make(tmp_path / "draft"))
    levels = {finding.level for name, finding in report.findings if name == fault.check}
    assert levels & {"warning", "error"}, report.findings
    healthy = examine_fault(HEALTHY, HEALTHY.make(tmp_path / "healthy"))
    assert {finding.level for name, finding in healthy.findings if name == fault.check} == {"ok"}


@pytest.mark.slow
@pytest.mark.parametrize("fault", [HEALTHY, *FAULTS], ids=lambda fault: fault.check or "healthy")
def test_it_costs(tmp_path: Path, fault: Fault, device: str) -> None:
    if device != "cpu":
        pytest.skip("the figures are of the CPU engine")
    seen = serve(fault, fault.make(tmp_path / "draft"), tmp_path / "log")
    if os.environ.get("DRAFTWIRE_RECORD"):
        record(fault, seen)
    costs = json.loads(COSTS.read_text())
    expected = costs["faults"][fault.check] if fault.check else {"acceptance": costs["healthy"]}
    assert seen.keys() <= expected.keys(), seen
    if "acceptance" in seen:
        assert abs(seen["acceptance"] - expected["acceptance"]) < NOISE


def record(fault: Fault, seen: dict[str, Any]) -> None:
    costs = json.loads(COSTS.read_text()) if COSTS.exists() else {"healthy": 0, "faults": {}}
    costs["about"] = COSTS_ABOUT
    if fault.check:
        costs["faults"][fault.check] = {"what": fault.what, **seen}
    else:
        costs["healthy"] = seen["acceptance"]
    COSTS.write_text(json.dumps(costs, indent=1, sort_keys=True) + "\n")
