"""A launch file in a folder of its own, served by fake_engine instead of SGLang, and a command of ours upon it."""

import os
import subprocess
import sys
import time
from pathlib import Path

from processes import interruptible, is_alive

import draftwire

FAKE = Path(__file__).parent / "fake_engine"
CONFIG = """
model-path: {target}
device: cpu
max-running-requests: {limit}
disable-cuda-graph: true
speculative-algorithm: EAGLE3
speculative-draft-model-path: draft
speculative-num-steps: 3
speculative-eagle-topk: 1
speculative-num-draft-tokens: 4
"""


def write_launch_file(folder: Path, prompts: int, limit: int = 4, target: str = "org/target") -> None:
    """serve.yaml for `limit` requests at once, and so many prompts in prompts.jsonl. target: its model-path."""
    (folder / "serve.yaml").write_text(CONFIG.format(limit=limit, target=target))
    (folder / "prompts.jsonl").write_text("".join(f'{{"prompt": "prompt {i}"}}\n' for i in range(prompts)))


class FakeDeployment:
    """`command`: of `python -m draftwire`. `out`: its results.jsonl. `pids`: every server's that it started; their
    launch flags are in `commands`, a line each.
    """

    def __init__(self, folder: Path, *command: str):
        self.folder, self.out, self.pids = folder, folder / "out" / "results.jsonl", folder / "pids"
        self.commands = folder / "commands"
        self.command = [*command, "--prompts", "prompts.jsonl", "--out", "out"]
        for name in ("target", "draft"):
            (folder / name).mkdir()
        (folder / "draft" / "model.safetensors").write_bytes(b"weights")
        write_launch_file(folder, prompts=12, target="target")

    def start(self, *flags: str, fault: str = "", **fields) -> subprocess.Popen:
        path = f"{FAKE}:{Path(draftwire.__file__).parents[1]}"
        env = {**os.environ, "PYTHONPATH": path, "FAKE_FAULT": fault, "FAKE_PIDS": str(self.pids)}
        env = {**env, "TMPDIR": str(self.folder), **fields.pop("env", {})}
        fields = {"preexec_fn": interruptible, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **fields}
        command = [sys.executable, "-m", "draftwire", *self.command, *flags]
        return subprocess.Popen(command, cwd=self.folder, env=env, text=True, **fields)

    def run(self, *flags: str, fault: str = "", **fields) -> tuple[int, list[str], list[str]]:
        """Status and the lines of both streams; asserts that no process is left."""
        running = self.start(*flags, fault=fault, **fields)
        stdout, stderr = running.communicate(timeout=180)
        self.assert_no_orphan()
        return running.returncode, stdout.splitlines(), stderr.splitlines()

    def assert_no_orphan(self) -> int:
        """How many processes it had started."""
        started = self.pids.read_text().split() if self.pids.exists() else []
        end = time.monotonic() + 10
        while (alive := [pid for pid in started if is_alive(pid)]) and time.monotonic() < end:
            time.sleep(0.05)
        assert not alive
        return len(started)
