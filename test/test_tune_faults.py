"""tune around its servers: a whole run, an interrupt in either measurement, failures. SGLang is fake_engine's."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CONFIG = """
model-path: target
device: cpu
max-running-requests: 4
disable-cuda-graph: true
speculative-algorithm: EAGLE3
speculative-draft-model-path: draft
speculative-num-steps: 3
speculative-eagle-topk: 1
speculative-num-draft-tokens: 4
"""


class Tune:
    """`draftwire tune` in a folder of its own."""

    def __init__(self, folder: Path):
        self.folder, self.results, self.pids = folder, folder / "out" / "results.jsonl", folder / "pids"
        for name in ("target", "draft"):
            (folder / name).mkdir()
        (folder / "draft" / "model.safetensors").write_bytes(b"weights")
        (folder / "serve.yaml").write_text(CONFIG)
        (folder / "prompts.jsonl").write_text("".join(f'{{"prompt": "prompt {i}"}}\n' for i in range(8)))

    def start(self, fault: str = "") -> subprocess.Popen:
        command = [sys.executable, "-m", "draftwire", "tune", "serve.yaml", "--prompts", "prompts.jsonl", "--most", "3"]
        command += ["--concurrency", "1", "--tokens", "64", "--out", "out", "--rounds", "1", "--check", "1"]
        env = {**os.environ, "PYTHONPATH": str(HERE / "fake_engine"), "FAKE_FAULT": fault, "FAKE_PIDS": str(self.pids)}
        return subprocess.Popen(command, cwd=self.folder, env={**env, "TMPDIR": str(self.folder)}, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip

    def assert_nothing_left(self) -> None:
        """No process of any server, and their children are among those that were written down."""
        started = self.pids.read_text().split()
        end = time.monotonic() + 10
        while (alive := [pid for pid in started if is_alive(pid)]) and time.monotonic() < end:
            time.sleep(0.05)
        assert len(started) >= 2 and not alive


def is_alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def tune(tmp_path: Path) -> Tune:
    return Tune(tmp_path)


def test_a_whole_run(tune: Tune) -> None:
    """The fake accepts 0 or 3 drafts, half and half, and answers in the same time at any step count."""
    stdout, stderr = (done := tune.start()).communicate(timeout=180)
    assert done.returncode == 0, stderr
    row = json.loads(stdout.splitlines()[-1])
    assert [json.loads(line) for line in tune.results.read_text().splitlines()] == [row]
    assert [p["accept_length"] for p in row["predictions"]] == pytest.approx([1.5, 2, 2.5])
    assert [m["arm"] for m in row["measurements"]] == ["baseline", "eagle3", "eagle3"], "no run of fixed length"
    assert len(row["checked"]) == 1 and row["checked"][0]["accept_length"] > 1
    tune.assert_nothing_left()


@pytest.mark.parametrize("passes, stage", [(1, "eagle3 3/1/4: warming up"), (2, "baseline: 8 requests")])
def test_an_interrupt_leaves_no_process_and_no_row(tune: Tune, passes: int, stage: str) -> None:
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
    assert not tune.results.exists() or not tune.results.read_text()
    assert not any(line.startswith("{") for line in stdout.splitlines())
    tune.assert_nothing_left()


@pytest.mark.parametrize("fault, status, said", [("die_serving", 2, "CUDA error"), ("other_length", 1, "as long")])
def test_a_run_that_fails_is_one_line_and_no_row(tune: Tune, fault: str, status: int, said: str) -> None:
    _, stderr = (done := tune.start(fault)).communicate(timeout=120)
    assert done.returncode == status and said in stderr.splitlines()[-1], stderr
    assert "Traceback" not in stderr and (not tune.results.exists() or not tune.results.read_text())
    tune.assert_nothing_left()
