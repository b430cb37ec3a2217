"""tune around its servers: a whole run, an interrupt in either measurement, failures. SGLang is fake_engine's."""

import json
import signal
from pathlib import Path

import pytest
from fake_deployment import FakeDeployment


@pytest.fixture
def tune(tmp_path: Path) -> FakeDeployment:
    flags = ["--most", "3", "--concurrency", "1", "--tokens", "64", "--rounds", "1", "--check", "1"]
    return FakeDeployment(tmp_path, "tune", "serve.yaml", *flags)


def test_a_whole_run(tune: FakeDeployment) -> None:
    """The fake accepts 0 or 3 drafts, half and half, and answers in the same time at any step count."""
    status, out, err = tune.run()
    assert status == 0, err
    row = json.loads(out[-1])
    assert [json.loads(line) for line in tune.out.read_text().splitlines()] == [row]
    assert [p["accept_length"] for p in row["predictions"]] == pytest.approx([1.5, 2, 2.5])
    assert [(m["arm"], m["concurrency"]) for m in row["measurements"]] == [
        ("baseline", 1), ("baseline", 4), ("eagle3", 1), ("eagle3", 1)]  # fmt: skip
    (costs,) = row["costs"]
    assert costs["steps"] == 3 and costs["verify"] > 0, "from the baseline with 4 tokens in its batch"
    assert {m["length"] for m in row["measurements"]} == {"eos"}, "no run of fixed length"
    assert len(row["checked"]) == 1 and row["checked"][0]["accept_length"] > 1


@pytest.mark.parametrize("passes, stage", [(1, "eagle3 3/1/4: warming up"), (2, "baseline: 8 requests")])
def test_an_interrupt_leaves_no_process_and_no_row(tune: FakeDeployment, passes: int, stage: str) -> None:
    running = tune.start()
    assert running.stderr is not None
    seen = 0
    for line in running.stderr:
        seen += line.startswith("[1/")
        if seen == passes and stage in line:
            break
    running.send_signal(signal.SIGINT)
    stdout, stderr = running.communicate(timeout=60)
    assert running.returncode == 130 and "interrupted, and every server that it started is ended" in stderr
    assert not tune.out.exists() or not tune.out.read_text()
    assert not any(line.startswith("{") for line in stdout.splitlines())
    assert tune.assert_no_orphan() >= 2


@pytest.mark.parametrize("fault, status, said", [("die_serving", 2, "CUDA error"), ("other_length", 1, "as long")])
def test_a_run_that_fails_is_one_line_and_no_row(tune: FakeDeployment, fault: str, status: int, said: str) -> None:
    ended, _, err = tune.run(fault=fault)
    assert ended == status and said in err[-1], err
    assert not any("Traceback" in line for line in err) and (not tune.out.exists() or not tune.out.read_text())
    assert tune.assert_no_orphan() >= 2
