"""Every way to start SGLang wires the draft: `sglang serve` and `sglang.Engine` as `python -m sglang.launch_server`."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import TOKENS

from draftwire.acceptance import Acceptance
from draftwire.engine import small_engine
from draftwire.pair import Pair

WIRED = "draftwire: aux hidden states at boundaries [0, 3, 6]"

# Its arguments as SGLang's own parser reads them from flags; its last line is the answers.
IN_PROCESS = """
import json, sys
import sglang
from sglang.srt.server_args import prepare_server_args

if __name__ == "__main__":
    prompts, tokens = json.loads(sys.argv[1])
    engine = sglang.Engine(server_args=prepare_server_args(sys.argv[2:]))
    sampling = {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}
    answers = [engine.generate(input_ids=prompt, sampling_params=sampling) for prompt in prompts]
    engine.shutdown()
    print(json.dumps(answers))
"""


@pytest.mark.slow
def test_sglang_serve_is_wired(serve: Callable, pair: Pair) -> None:
    command = (str(Path(sys.executable).with_name("sglang")), "serve")
    with serve(pair.flags(), module=command) as server:
        assert Acceptance.of([server.generate(prompt, TOKENS) for prompt in pair.prompts[:8]]).length > 2.5
        assert WIRED in server.log.read_text()


@pytest.mark.slow
def test_engine_in_a_persons_own_process_is_wired(pair: Pair, device: str, tmp_path: Path) -> None:
    script = tmp_path / "own.py"
    script.write_text(IN_PROCESS)
    engine = small_engine(device)
    asked = json.dumps([pair.prompts[:8], TOKENS])
    ended = subprocess.run(
        [sys.executable, str(script), asked, *pair.flags(), *engine.flags],
        env={**os.environ, **engine.env},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert Acceptance.of(json.loads(ended.stdout.splitlines()[-1])).length > 2.5
    assert WIRED in ended.stdout + ended.stderr
