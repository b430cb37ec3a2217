"""Real processes that must not come up: our one line last, a non-zero status, no process left."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from draftwire.pair import Pair

WORKER_REFUSES = """
import draftwire_overlay.srt.speculative.eagle_worker_v2 as overlay
overlay._fan_in = lambda model: 7
"""
UNKNOWN_RELEASE = """
import sglang.version
sglang.version.__version__ = "0.9.9"
"""
RENAMED = """
import importlib.util, sys
import draftwire_overlay.srt.models.deepseek_v2 as overlay
seam = overlay.DeepseekV2ForCausalLM
seam.set_eagle3_states = seam.set_eagle3_layers_to_capture
"""


@pytest.fixture
def site(tmp_path: Path) -> Callable:
    """Environment of a server in whose every process `code` runs first."""

    def write(code: str) -> dict[str, str]:
        (tmp_path / "sitecustomize.py").write_text(code)
        return {"PYTHONPATH": str(tmp_path)}

    return write


def check_refusal(result: tuple, *words: str, within: float = 60) -> None:
    status, lines, seconds, alive = result
    assert status == 1
    assert lines[-1].startswith("draftwire: expected ") and all(word in lines[-1] for word in words), lines[-1]
    assert seconds < within
    assert not alive


def test_ids_out_of_range(fails: Callable, pair: Pair, tmp_path: Path) -> None:
    draft = pair.rewire(tmp_path / "draft", [0, 99])
    result = fails(pair.flags(draft))
    check_refusal(result, "boundaries of 0 to 12", "[0, 99]", "draft/config.json", within=40)
    assert not any("Load weight" in line for line in result[1])


def test_a_worker_at_tensor_parallel_2(fails: Callable, pair: Pair, site: Callable) -> None:
    result = fails(pair.flags(), ranks=2, env=site(WORKER_REFUSES), timeout=120)
    check_refusal(result, "3 x 192 = 576", "found 7", within=60)


def test_stock_stops_at_minus_one(fails: Callable, pair: Pair) -> None:
    status, lines, _, alive = fails(pair.flags(), env={"DRAFTWIRE": "off"}, timeout=120)
    assert status not in (0, None) and not alive
    assert any("captured 2 of 3 aux hidden states" in line for line in lines)
    assert any("draftwire is off" in line for line in lines)


@pytest.mark.slow
def test_unknown_release(fails: Callable, pair: Pair, site: Callable) -> None:
    check_refusal(fails(pair.flags(), env=site(UNKNOWN_RELEASE)), "SGLang >=0.5.14", "found 0.9.9", "DRAFTWIRE")


@pytest.mark.slow
def test_a_hook_that_does_not_apply(fails: Callable, pair: Pair, site: Callable) -> None:
    check_refusal(fails(pair.flags(), env=site(RENAMED)), "set_eagle3_states", "no such method")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--pp-size", "2"], ["pipeline parallelism of 1", "--pp-size 2"]),
        (["--enable-two-batch-overlap"], ["boundaries below 1", "--enable-two-batch-overlap"]),
    ],
)
def test_flags_that_hide_states(fails: Callable, pair: Pair, flags: list[str], words: list[str]) -> None:
    check_refusal(fails([*pair.flags(), *flags]), *words)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([-2, 1], ["ids of -1 and above", "[-2, 1]"]),
        ([3, 3, 6], ["each id once", "[3, 3, 6]"]),
        ([5, 2, -1], ["ascending", "[5, 2, -1]", "permute"]),
        (["a"], ["integer layer ids", "['a']"]),
        ([-1, 2], ["2 x 192 = 384", "[192, 576]"]),
    ],
)
def test_ids_that_cannot_be_served(fails: Callable, pair: Pair, tmp_path: Path, ids: list, words: list[str]) -> None:
    check_refusal(fails(pair.flags(pair.rewire(tmp_path / "draft", ids))), *words)


@pytest.mark.slow
def test_sglang_serve_refuses_too(fails: Callable, pair: Pair, tmp_path: Path) -> None:
    draft = pair.rewire(tmp_path / "draft", [0, 99])
    command = (str(Path(sys.executable).with_name("sglang")), "serve")
    check_refusal(fails(pair.flags(draft), module=command), "boundaries of 0 to 12")
