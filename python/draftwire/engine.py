"""What an SGLang engine needs on this machine: flags and environment by device."""

from __future__ import annotations

import subprocess
import sys
from typing import NamedTuple

_ASK = "import torch; print(torch.cuda.get_device_name(0) if torch.cuda.is_available() else 'cpu')"


class Engine(NamedTuple):
    """`device`: what to print. `flags`, `env`: for `python -m sglang.launch_server`."""

    device: str
    flags: list[str]
    env: dict[str, str]


def find_device(python: str = sys.executable) -> str:
    """The GPU's name as torch tells it in that interpreter, else "cpu"."""
    asked = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, check=False)
    if asked.returncode:
        last = asked.stderr.strip().splitlines()[-1]
        raise RuntimeError(f"expected torch in {python}, found: {last}; run `make setup`")
    return asked.stdout.strip()


def small_engine(device: str, ranks: int = 1) -> Engine:
    """Settings for the small pair: a few requests, 8,192 tokens of KV cache."""
    flags = ["--max-total-tokens", "8192", "--mem-fraction-static", "0.3", "--sleep-on-idle"]
    flags += ["--tp-size", str(ranks)] if ranks > 1 else []
    if device != "cpu":
        gpu = ["--attention-backend", "triton", "--max-running-requests", "8", "--cuda-graph-max-bs-decode", "8"]
        return Engine(device, [*flags, *gpu, "--grammar-backend", "none"], {})
    # One thread a rank: as fast at this size, and 40 times faster than two that spin for a busy core.
    env = {"SGLANG_USE_CPU_ENGINE": "1", "TORCHDYNAMO_DISABLE": "1", "OMP_NUM_THREADS": "1"}
    if ranks > 1:
        # A CUDA build of torch would start NCCL, and the CPU engine wants a core named for each rank.
        env |= {"SGLANG_NCCL_SO_PATH": "/none", "SGLANG_CPU_OMP_THREADS_BIND": "|".join(map(str, range(ranks)))}
    return Engine(device, [*flags, "--device", "cpu", "--disable-cuda-graph", "--max-running-requests", "4"], env)
