"""docs/checks.md is what its command makes, byte for byte, and its figures are the measured ones."""

import json
import re
from pathlib import Path

from draftwire import checks
from draftwire.catalogue import COMMAND, COSTS, DOCS, UNMEASURED, write_catalogue


def test_the_catalogue_is_generated() -> None:
    text = (DOCS / "checks.md").read_text()
    assert text == write_catalogue(json.loads(COSTS.read_text())), f"run `{COMMAND}`"
    assert COMMAND in text.splitlines()[0]
    for name in checks.NAMES:
        (link,) = re.findall(rf"^\| \[`{name}`\]\((\S+)\) \| \S", text, re.MULTILINE)
        assert (DOCS / link).resolve() == Path(checks.load(name).__file__ or "")


def test_costs_are_of_checks() -> None:
    costs = json.loads(COSTS.read_text())
    assert set(costs["faults"]) <= set(checks.NAMES) and len(costs["faults"]) >= 10
    assert set(costs["faults"]) | set(UNMEASURED) == set(checks.NAMES) and not set(costs["faults"]) & set(UNMEASURED)
    assert all({"crash", "acceptance"} & fault.keys() for fault in costs["faults"].values())
