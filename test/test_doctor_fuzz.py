"""Seeds of fuzz_doctor.py: those that once tripped the doctor, and a few hundred more; and what it must not expand."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from cases import EXAMPLE, FLAGS
from fuzz_doctor import try_seed

from draftwire.doctor import collect, examine
from draftwire.draft import DraftError


@pytest.mark.parametrize("start", range(0, 400, 50))
def test_seeds(tmp_path: Path, start: int) -> None:
    seen = set()
    for seed in range(start, start + 50):
        folder = tmp_path / str(seed)
        folder.mkdir()
        seen.add(try_seed(seed, folder))
    assert {"refused", "MISWIRED"} <= seen


def test_a_yaml_that_unfolds_without_end(tmp_path: Path) -> None:
    """Ten levels of ten references each: a few bytes that would print as ten billion."""
    lines = ["a0: &a0 {k: x}"]
    for level in range(1, 11):
        lines.append(f"a{level}: &a{level} {{{', '.join(f'k{i}: *a{level - 1}' for i in range(10))}}}")
    file = tmp_path / "serve.yaml"
    file.write_text("\n".join([*lines, "quantization: *a10", "pp-size: *a10"]))
    started = time.monotonic()
    case = collect(str(EXAMPLE / "draft"), str(EXAMPLE / "target"), file, FLAGS, "0.5.23", environment={})
    findings = examine(case, ["quantization_is_own", "one_pipeline_stage"]).findings
    assert [finding.level for _, finding in findings] == ["error", "error"]
    assert time.monotonic() - started < 5


def test_a_path_that_is_a_table(tmp_path: Path) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text("speculative-draft-model-path: {a: b}\n")
    with pytest.raises(DraftError, match="one value"):
        collect(None, None, file, [], "0.5.23", environment={})
