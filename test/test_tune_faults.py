"""tune around its servers: a whole run, an interrupt in either measurement, failures. SGLang is fake_engine's."""

import json
import os
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
def test_an_interrupt_leaves_no_process_and_no_half_row(tune: FakeDeployment, passes: int, stage: str) -> None:
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
    rows = [json.loads(line) for line in tune.out.read_text().splitlines()] if tune.out.exists() else []
    assert [line for line in stdout.splitlines() if line.startswith("{")] == [json.dumps(row) for row in rows]
    if passes == 1:
        assert not rows
    else:
        (row,) = rows
        assert row["check_failed"] == "interrupted" and row["checked"] == [] and len(row["predictions"]) == 3
    assert tune.assert_no_orphan() >= 2


def test_a_check_that_fails_does_not_take_the_measured_run_with_it(tune: FakeDeployment) -> None:
    """The server of the second run's first arm is killed once the first run is measured."""
    running = tune.start()
    assert running.stderr is not None
    seen = 0
    for line in running.stderr:
        seen += line.startswith("[1/")
        if seen == 2 and "baseline: 8 requests" in line:
            os.kill(int(tune.pids.read_text().split()[-2]), signal.SIGKILL)
            break
    stdout, stderr = running.communicate(timeout=60)
    assert running.returncode == 2 and "kept without its check" in stderr, stderr
    (row,) = [json.loads(line) for line in tune.out.read_text().splitlines()]
    assert json.loads(stdout.splitlines()[-1]) == row and row["checked"] == [] and row["check_failed"] in stderr
    assert tune.assert_no_orphan() >= 2


@pytest.mark.parametrize("fault, status, said", [("die_serving", 2, "CUDA error"), ("other_length", 1, "as long")])
def test_a_run_that_fails_is_one_line_and_no_row(tune: FakeDeployment, fault: str, status: int, said: str) -> None:
    ended, _, err = tune.run(fault=fault)
    assert ended == status and said in err[-1], err
    assert not any("Traceback" in line for line in err) and (not tune.out.exists() or not tune.out.read_text())
    assert tune.assert_no_orphan() >= 2


@pytest.mark.parametrize("fault, servers, said", [("loop", 1, "in baseline"), ("answer_nothing", 2, "in eagle3 1/1/2")])
def test_what_nothing_can_mend_ends_the_run_at_once(tune: FakeDeployment, fault: str, servers: int, said: str) -> None:
    """After the visit that shows it, not after the last one."""
    ended, out, err = tune.run(fault=fault)
    assert ended == 1 and said in err[-1] and "nothing further was measured, and no row was written" in err[-1], err
    assert len(tune.commands.read_text().splitlines()) == servers
    assert not any(line.startswith("{") for line in out) and not tune.out.exists()


def test_the_second_run_knows_how_long_a_stage_lasts(tune: FakeDeployment) -> None:
    """From the first run: the fake starts in a second, and no guess of 40 s comes back."""
    status, _, err = tune.run()
    first, second = [line for line in err if line.startswith("[1/")]
    assert status == 0 and first.endswith(" min left") and second.endswith(" s left"), err
