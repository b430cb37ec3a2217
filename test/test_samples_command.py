"""`draftwire doctor --samples` as a user types it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib

pytest.importorskip("transformers")
from packaging.specifiers import SpecifierSet
from typer.testing import CliRunner

from draftwire.cli import app
from draftwire.delivery import available
from draftwire.draft import DraftError
from draftwire.pair import example_pair
from draftwire.plugin import supported
from draftwire.release import RELEASES
from draftwire.samples_command import read_expect

ROOT = Path(__file__).parent.parent
PAIR = example_pair()
SAMPLES = str(PAIR.directory / "samples")
AS_SERVED = ("--draft", str(PAIR.draft), "--target", str(PAIR.target))


def run(*arguments: str):
    answer = CliRunner().invoke(app, ["doctor", *arguments])
    return answer.exit_code, answer.output


def words(text: str) -> str:
    """The text as one line, whatever its width."""
    return " ".join(text.split())


def test_wired() -> None:
    status, text = run(*AS_SERVED, "--sglang", "0.5.23", "--delivery", "overlay", "--samples", SAMPLES,
                       "--expect", "65.3%")  # fmt: skip
    assert status == 0
    assert text.splitlines()[0] == "WIRED"
    assert max(map(len, text.splitlines())) <= 80
    assert "best boundaries (0, 3, 6) of 24 choices, beyond doubt after 1020 tokens" in words(text)
    assert "the trainer's figure 65.3% is reached: 67.3%" in words(text)


def test_the_guide_shows_what_is_printed() -> None:
    """But for the digits after a point, which another machine may round otherwise."""
    told = (ROOT / "docs" / "samples.md").read_text()
    _, text = run(*AS_SERVED, "--samples", SAMPLES, "--sglang", "0.5.23", "--delivery", "stock")
    assert re.sub(r"\.\d%", "%", text.strip()) in re.sub(r"\.\d%", "%", told)


def test_before_there_is_a_draft() -> None:
    status, text = run("--target", str(PAIR.target), "--samples", SAMPLES, "--json")
    assert status == 1
    assert [s["boundary"] for s in json.loads(text)["states"]] == [0, 3, 6, 9]


def one_line(*arguments: str) -> str:
    status, text = run(*arguments)
    assert status == 2, text
    (line,) = text.strip().splitlines()
    assert line.startswith("draftwire: expected")
    return line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--fix", "out"], "without --samples; found --fix"),
        (["--expect", "0.7", "--data", "d"], "without --samples; found --expect, --data"),
        (["--samples", "nowhere"], "expected a directory of samples"),
        (["--samples", SAMPLES, "--states", "0,3"], "boundaries [0, 3, 6, 9] of manifest.json"),
        (["--samples", SAMPLES, "--expect", "1200"], "--expect"),
        (["--samples", SAMPLES, "--data", "nowhere"], "nowhere"),
        (["--samples", SAMPLES, "--only", "fc_width"], "with --samples; found --only"),
        (["--samples", SAMPLES, "--list", "--explain", "fc_width"], "with --samples; found --list, --explain"),
        (["--samples", ""], "no characters in --samples"),
        (["--samples", SAMPLES, "--data", ""], "no characters in --data"),
        (["--samples", SAMPLES, "--fix", ""], "no characters in --fix"),
        (["--samples", SAMPLES, "--delivery", "both"], "found both in --delivery"),
    ],
)
def test_one_line(arguments: list[str], said: str) -> None:
    line = one_line(*AS_SERVED, "--sglang", "0.5.23", *arguments)
    assert said in line or "pyarrow" in line


@pytest.mark.parametrize(
    "dropped",
    [["--fix", "OUT"], ["--expect", "nan"], ["--data", "/nonexistent"], ["--sglang", "9.9"], ["--delivery", "bogus"],
     ["--only", "fc_width"], ["--list"], ["--fix", "OUT", "--expect", "0.7"]],
)  # fmt: skip
def test_naming_states_drops_no_option(dropped: list[str]) -> None:
    line = one_line("--samples", SAMPLES, "--target", str(PAIR.target), *dropped)
    assert "a target and no draft" in line
    assert [option in line for option in dropped if option.startswith("--")] == [True] * sum("--" in d for d in dropped)


# ---- deliveries that there are


@pytest.mark.parametrize("mode", [[], ["--samples", SAMPLES]], ids=["static", "samples"])
@pytest.mark.parametrize(
    ("release", "delivery", "there"),
    [("0.5.8", "overlay", "stock or patch"), ("0.5.13.post1", "overlay", "stock or patch"),
     ("0.5.24", "overlay", "0.5.24: stock ("), ("0.5.24", "patch", "0.5.24: stock ("),
     ("0.5.7", "patch", "0.5.7: stock (")],
)  # fmt: skip
def test_a_delivery_that_there_is_not(mode: list[str], release: str, delivery: str, there: str) -> None:
    line = one_line(*AS_SERVED, *mode, "--sglang", release, "--delivery", delivery)
    assert there in line
    assert f"found {delivery} in --delivery" in line
    assert "0.5.8 to 0.5.23" in line


def test_a_release_that_nobody_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRAFTWIRE_UNTESTED", raising=False)
    assert "a release that was read" in one_line(*AS_SERVED, "--samples", SAMPLES, "--sglang", "9.9")
    assert "newest" in one_line(*AS_SERVED, "--samples", SAMPLES, "--sglang", "newest")


def test_deliveries_by_release() -> None:
    """The patches that lie in patches/, and the range that pyproject.toml states."""
    series = tomllib.loads((ROOT / "patches" / "series.toml").read_text())["patch"]
    patched = [SpecifierSet(patch["releases"]) for patch in series]
    overlay = SpecifierSet(supported())
    for release in (*RELEASES, "0.5.7", "0.5.24"):
        found = available(release, {})
        assert ("patch" in found) == any(p.contains(release) for p in patched), release
        assert ("overlay" in found) == overlay.contains(release), release
        assert "stock" in found
    assert available("0.5.23+cu130", {}) == ("stock", "overlay", "patch")
    assert available("0.5.24", {"DRAFTWIRE_UNTESTED": "1"}) == ("stock", "overlay")


# ---- the trainer's figure


@pytest.mark.parametrize(("text", "share"), [("0.747", 0.747), ("74.7%", 0.747), (" 1 ", 1.0), ("1.5%", 0.015)])
def test_a_figure(text: str, share: float) -> None:
    assert read_expect(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["1.5", "74.7", "0", "0%", "-0.5", "nan", "inf", "101%", "x", "%"])
def test_no_figure(text: str) -> None:
    with pytest.raises(DraftError, match=r"expected a share such as 0.747, or a percentage with its sign"):
        read_expect(text)


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
