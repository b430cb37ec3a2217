"""The configs behind public reports, rebuilt from their facts, get the verdict that each report's resolution gives.

A file under reports/ holds ids, sizes and flags; `assumed` says which of them the report does not tell. Weights are
headers and holes, but for norms, which are ones, and the rows that `embedding` asks for. What is not named in `found`
is no error, and `mended` (the resolution) has no error at all.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from embeddings import write_embeddings
from sparse import write_sparse

from draftwire.doctor import Report, collect, examine

FILES = sorted((Path(__file__).parent / "reports").glob("*.json"))


def examine_report(folder: Path, facts: dict[str, Any]) -> Report:
    shape = (facts["draft"]["vocab_size"], facts["draft"]["hidden_size"])
    embedding = {"embed_tokens.weight": list(shape)} if "embedding" in facts else {}
    draft = write_sparse(folder / "draft", facts["draft"], facts.get("tensors", {}) | embedding)
    target = folder / "target"
    target.mkdir()
    (target / "config.json").write_text(json.dumps(facts["target"]))
    if embedding:
        write_embeddings(draft, target, facts["embedding"], shape)
    case = collect(
        str(draft), str(target), None, facts["flags"], facts["release"],
        facts["delivery"], {},
    )  # fmt: skip
    return examine(case)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_report(tmp_path: Path, file: Path) -> None:
    facts = json.loads(file.read_text())
    report = examine_report(tmp_path / "found", facts)
    for name, level in facts["found"].items():
        findings = [finding for check, finding in report.findings if check == name]
        assert {finding.level for finding in findings} == {level}, findings
        if level != "ok":
            assert all(finding.report for finding in findings)
    errors = {name for name, finding in report.findings if finding.level == "error"}
    assert errors == {name for name, level in facts["found"].items() if level == "error"}, report.findings
    told = json.dumps(report.as_json())
    assert all(words in told for words in facts.get("says", [])), told
    addresses = {address for name in facts["found"] for address in documented(name)}
    assert facts["report"] in addresses


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_mended(tmp_path: Path, file: Path) -> None:
    facts = json.loads(file.read_text())
    for key, value in facts["mended"].items():
        facts[key] = facts[key] | value if key == "draft" else value
    report = examine_report(tmp_path / "mended", facts)
    assert not report.count("error"), [f for f in report.findings if f[1].level == "error"]
    for name in facts["found"]:
        levels = {finding.level for check, finding in report.findings if check == name}
        assert levels == {"ok"}, (name, levels)


def documented(name: str) -> list[str]:
    from draftwire import checks
    from draftwire.doctor import ADDRESS

    return ADDRESS.findall(checks.load(name).__doc__ or "")
