"""`draftwire doctor --samples` as a user types it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("transformers")
from typer.testing import CliRunner

from draftwire.cli import app
from draftwire.pair import example_pair

PAIR = example_pair()
SAMPLES = str(PAIR.directory / "samples")


def run(*arguments: str):
    answer = CliRunner().invoke(app, ["doctor", *arguments])
    return answer.exit_code, answer.output


def test_wired() -> None:
    status, text = run("--draft", str(PAIR.draft), "--target", str(PAIR.target), "--sglang", "0.5.23", "--delivery",
                       "overlay", "--samples", SAMPLES, "--expect", "0.653")  # fmt: skip
    assert status == 0
    assert text.splitlines()[-1] == "WIRED"
    assert "best: states (0, 3, 6), beyond doubt after 1020 tokens" in text


def test_before_there_is_a_draft() -> None:
    status, text = run("--target", str(PAIR.target), "--samples", SAMPLES, "--json")
    assert status == 1
    assert [s["boundary"] for s in json.loads(text)["states"]] == [0, 3, 6, 9]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--fix", "out"], "expected --samples with"),
        (["--samples", "nowhere"], "expected a directory of samples"),
        (["--samples", SAMPLES, "--states", "0,3"], "boundaries [0, 3, 6, 9] of manifest.json"),
        (["--samples", SAMPLES, "--expect", "1200"], "--expect"),
        (["--samples", SAMPLES, "--data", "nowhere"], "nowhere"),
    ],
)
def test_one_line(arguments: list[str], said: str) -> None:
    status, text = run("--draft", str(PAIR.draft), "--target", str(PAIR.target), "--sglang", "0.5.23", *arguments)
    assert status == 2
    (line,) = text.strip().splitlines()
    assert line.startswith("draftwire: expected")
    assert said in line or "pyarrow" in line


def test_the_doctor_without_samples_imports_no_torch() -> None:
    code = """
import sys
from draftwire.cli import app
try:
    app(args=sys.argv[1:])
finally:
    assert "torch" not in sys.modules
"""
    arguments = ["doctor", "--draft", str(PAIR.draft), "--target", str(PAIR.target), "--sglang", "0.5.23"]
    ran = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert "AssertionError" not in ran.stderr
    assert "WIRED" in ran.stdout
