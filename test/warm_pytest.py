"""Run pytest many times in forks of one process that has imported SGLang: `python warm_pytest.py`.

Reads lines of JSON, {"path": the folder to import from first, "arguments": pytest's, "output": a file}, and answers
each with pytest's status. A run then costs its tests, and not the eight seconds of SGLang's import.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys

ENGINE = [
    "managers.scheduler_components.weight_updater",
    "models.kimi_k25",
    "models.kimi_k25_eagle3",
    "models.llama_eagle3",
    "model_executor.model_runner",
    "model_executor.model_runner_components.spec_aux_hidden_state",
    "speculative.eagle_worker_v2",
    "server_args",
]


def import_engine() -> None:
    """Everything of SGLang that the tests use, and nothing of draftwire, which each fork finds in its own folder."""
    import torch

    if not torch.cuda.is_available():
        os.environ.setdefault("SGLANG_USE_CPU_ENGINE", "1")
    for name in ENGINE:
        importlib.import_module(f"sglang.srt.{name}")
    ours = [name for name in sys.modules if name.split(".")[0] in ("draftwire", "draftwire_overlay")]
    assert not ours, f"expected nothing of draftwire before a fork, found {ours}"


def run(request: dict) -> int:
    """pytest's status in a fork of this process, which is ended after 300 s."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 99
    try:
        signal.alarm(300)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.environ["PYTHONPATH"] = request["path"]
        sys.path.insert(0, request["path"])
        import pytest

        status = int(pytest.main(request["arguments"]))
        sys.stdout.flush()
    finally:
        os._exit(status)


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What SGLang prints while it is imported is no answer.
    import_engine()
    for line in sys.stdin:
        print(run(json.loads(line)), file=answers, flush=True)
