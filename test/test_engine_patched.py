"""A patched tree, with no overlay loaded, serves the example pair exactly as the overlay does on the same release."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from conftest import TOKENS
from patched import tree
from states import load_sample, relative_errors, served_states

from draftwire.acceptance import Acceptance
from draftwire.pair import Pair

pytestmark = pytest.mark.slow
RELEASES = ("0.5.23", "0.5.22")
# The allow-list keeps draftwire's own plugin out, on a CPU it lets the kernels in.
WITHOUT_OVERLAY = {"SGLANG_PLUGINS": "draftwire_cpu"}


def copy_of(release: str, folder: Path) -> dict[str, str]:
    """The environment in which `import sglang` finds that release, unpatched, in `folder`."""
    shutil.copytree(
        tree(release), folder / "sglang", copy_function=os.link, ignore=shutil.ignore_patterns("__pycache__")
    )
    return {"PYTHONPATH": str(folder)}


def patch(folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "draftwire", "patch", str(folder)], check=True)


@pytest.fixture(scope="module", params=RELEASES)
def both(request, serve: Callable, pair: Pair, tmp_path_factory) -> dict[str, dict]:
    """What the same requests bring from a patched tree without the overlay, and from the overlay."""
    observed = {}
    for name in ("patched", "overlay"):
        folder = tmp_path_factory.mktemp(name)
        env = copy_of(request.param, folder)
        if name == "patched":
            patch(folder)
            env |= WITHOUT_OVERLAY
        with serve([*pair.flags(dtype="bfloat16"), "--enable-return-hidden-states"], env=env) as server:
            samples = [load_sample(pair.directory, number) for number in range(3)]
            states = [served_states(server, sample["input_ids"], 3) for sample in samples]
            server.flush_cache()
            answers = [server.generate(prompt, 48) for prompt in pair.prompts]
            observed[name] = {
                "states": states,
                "expected": [sample["hidden_states"][:3] for sample in samples],
                "acceptance": Acceptance.of(answers),
                "outputs": [answer["output_ids"] for answer in answers],
                "log": server.log.read_text(errors="replace"),
            }
    return observed


def test_the_states_are_the_training_samples_and_the_overlays(both):
    for found, other, expected in zip(
        both["patched"]["states"], both["overlay"]["states"], both["patched"]["expected"], strict=True
    ):
        assert torch.equal(found, other)
        errors = relative_errors(found, expected)
        assert errors[0] == 0.0
        assert max(errors) < 2e-2


def test_acceptance_and_outputs_are_the_overlays(both):
    assert both["patched"]["outputs"] == both["overlay"]["outputs"]
    assert both["patched"]["acceptance"] == both["overlay"]["acceptance"]
    assert both["patched"]["acceptance"].length >= 2.7


def test_the_overlay_was_out_and_the_wiring_was_said(both):
    lines = [line for line in both["patched"]["log"].splitlines() if "boundaries [0, 3, 6] of 12" in line]
    assert len(lines) == 1
    assert "EAGLE-3 draft: " in lines[0] and "[-1, 2, 5]" in lines[0]
    assert "draftwire:" not in both["patched"]["log"]
    assert "draftwire: aux hidden states at boundaries [0, 3, 6]" in both["overlay"]["log"]


@pytest.mark.parametrize(("ids", "said"), [([2, -1, 5], "[2, -1, 5]"), ([-1, 2, 11], "[0, 3, 12]")])
def test_a_refusal_is_the_last_line_and_comes_before_a_worker(ids, said, fails: Callable, pair: Pair, tmp_path):
    env = copy_of("0.5.23", tmp_path) | WITHOUT_OVERLAY
    patch(tmp_path)
    draft = pair.rewire(tmp_path / "draft", ids)
    status, lines, _, alive = fails(pair.flags(draft), env=env, timeout=120)
    assert status == 1 and not alive
    assert lines[-1].startswith("EAGLE-3 draft: expected ")
    assert said in lines[-1]
    assert not any("TP0" in line or "Load weight" in line for line in lines)


def test_a_half_patched_tree_does_not_start(pair: Pair, fails: Callable, tmp_path):
    """As a killed run leaves it: everything but the last file. The same command then ends it."""
    env = copy_of("0.5.23", tmp_path) | WITHOUT_OVERLAY
    patch(tmp_path)
    mark = tmp_path / "sglang" / "srt" / "speculative" / "aux_boundaries.py"
    mark.unlink()
    status, lines, _, alive = fails(pair.flags(), env=env, timeout=120)
    assert status == 1 and not alive
    assert "aux_boundaries" in lines[-1]
    patch(tmp_path)
    assert mark.exists()


def test_two_ranks_of_a_patched_tree_capture_the_states(serve: Callable, pair: Pair, plain_outputs: list, tmp_path):
    env = copy_of("0.5.23", tmp_path) | WITHOUT_OVERLAY
    patch(tmp_path)
    with serve([*pair.flags(), "--enable-return-hidden-states"], env=env, ranks=2) as server:
        sample = load_sample(pair.directory, 0)
        errors = relative_errors(served_states(server, sample["input_ids"], 3), sample["hidden_states"][:3])
        assert errors[0] == 0.0 and max(errors) < 2e-2
        answers = [server.generate(prompt, TOKENS) for prompt in pair.prompts[:4]]
        assert [answer["output_ids"] for answer in answers] == plain_outputs[:4]
        assert Acceptance.of(answers).length > 2


def test_the_overlay_stands_aside_from_a_patched_tree(serve: Callable, pair: Pair, tmp_path):
    env = copy_of("0.5.23", tmp_path)
    patch(tmp_path)
    with serve(pair.flags(), env=env) as server:
        assert server.generate(pair.prompts[0], 32)["meta_info"]["spec_verify_ct"] <= 16
        assert "stands aside" in server.log.read_text()
