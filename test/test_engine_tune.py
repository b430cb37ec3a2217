"""tune on the real engine: from runs at 1 and 5 steps it predicts 2, 3 and 4 as they are measured beside them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from draftwire.bench.prediction import is_within, read_points
from draftwire.bench.run import Options
from draftwire.bench.tuning import Study
from draftwire.tune_command import comparable_row

ROOT = Path(__file__).resolve().parents[1]
CONFIG = ROOT / "configs" / "tiny-cpu.yaml"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """Baseline and 1 to 5 steps in one run, ABBA: a drift of the machine hits all alike."""
    before = os.getcwd()
    os.chdir(ROOT)
    try:
        out = tmp_path_factory.mktemp("tune")
        options = Options(concurrency=(1,), steps=(1, 2, 3, 4, 5), requests=8, rounds=2, out=out)
        return comparable_row(CONFIG, options, Console(stderr=True))
    finally:
        os.chdir(before)


def test_predicted_within_a_tenth_or_the_spread(run: dict) -> None:
    """The prediction knows nothing of the measurements that it is held against but for counts 1 and 5 themselves."""
    known = {**run, "measurements": [m for m in run["measurements"] if m["steps"] in (None, 1, 5)]}
    predictions = {p.steps: p for p in Study(known, 5).predictions}
    _, drafted = read_points(run)
    lines, held = [], []
    for point in drafted:
        said = predictions[point.steps]
        lines.append(
            f"{point.steps} steps: predicted {said.tok_s:.1f} tok/s ({said.low:.1f}-{said.high:.1f}), measured "
            f"{point.tok_s:.1f} ({point.low:.1f}-{point.high:.1f}), off {said.tok_s / point.tok_s - 1:+.1%}; "
            f"accepted {said.accept_length:.2f}, measured {point.accept_length():.2f}"
        )
        held.append(is_within(said.tok_s, point.tok_s, point.low, point.high))
    print("\n".join(lines))
    assert len(held) == 5 and all(held), lines


def test_acceptance_is_predicted_whatever_the_machine_does(run: dict) -> None:
    """Free of timing: greedy in float32, the same text at every count. Within 5%, and not the same at every count."""
    known = {**run, "measurements": [m for m in run["measurements"] if m["steps"] in (None, 1, 5)]}
    predictions = {p.steps: p for p in Study(known, 5).predictions}
    _, drafted = read_points(run)
    lengths = [point.accept_length() for point in drafted]
    assert [predictions[k].accept_length for k in range(1, 6)] == pytest.approx(lengths, rel=0.05)
    assert lengths == sorted(lengths) and lengths[4] > 1.5 * lengths[0]


def test_the_command_measures_predicts_and_measures_again(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "draftwire", "tune", str(CONFIG), "--concurrency", "1", "--most", "3"]
    command += ["--check", "1", "--tree", "--requests", "4", "--tokens", "32", "--rounds", "1", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    row = json.loads(done.stdout.splitlines()[-1])
    assert [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()] == [row]
    assert [(m["steps"], m["concurrency"]) for m in row["measurements"]] == [
        (None, 1),
        (None, 4),
        (None, 8),
        (1, 1),
        (3, 1),
    ]
    (costs,) = row["costs"]
    assert costs["steps"] == 3 and 0 < costs["plain"] < costs["verify"], "4 tokens in a batch cost more than 1"
    (checked,) = row["checked"]
    best = next(p for p in row["best"] if p["concurrency"] == 1)
    assert checked["steps"] == best["steps"] and checked["tok_s"] > 0
    assert checked["accept_length"] == pytest.approx(best["accept_length"], rel=0.1)
    assert "Fastest by prediction" in done.stdout and "would have to accept" in done.stdout
    tree = row["tree"]["measured"]
    assert best["accept_length"] < tree["accept_length"] <= row["tree"]["most"] and tree["chain_tok_s"] > 0
