"""A draft that speculators made is converted, served, and computes in the engine what speculators computes.

The engine is upstream's, its draft's logits are read by `test/probe`; the oracle is speculators 0.9.0 from PyPI.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from draft_cases import FULL, TRAINERS_DEFAULT, combinations, stretched
from drafts_served import DraftServer
from speculators_oracle import compute_logits, made_once
from states import load_sample, relative_errors

from draftwire.convert import convert
from draftwire.pair import Pair, example_pair

pytestmark = pytest.mark.slow
CASES = {case["name"]: case for case in [*stretched(), *combinations()]}
LENGTHS = (200, 90)


made = made_once(CASES.values())


@pytest.fixture(scope="module")
def converted(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("converted")
    for name in CASES:
        convert(str(made / name), folder / name, release="0.5.23")
    return folder


@pytest.fixture(scope="module")
def answers(made: Path, converted: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple]]:
    """By case, for each prompt: what the engine's draft was fed and answered, and speculators' answer to that."""
    return ask(CASES, made, converted, tmp_path_factory.mktemp("answers"))


def ask(names, made: Path, converted: Path, folder: Path, **fields) -> dict[str, list[tuple]]:
    from safetensors.torch import load_file, save_file

    served, requests = {}, []
    samples = [load_sample(example_pair().directory, i) for i in range(len(LENGTHS))]
    prompts = [s["input_ids"][:length].tolist() for s, length in zip(samples, LENGTHS, strict=True)]
    with DraftServer(converted / next(iter(names)), folder, **fields) as server:
        for name in names:
            assert server.exchange(converted / name) is None
            served[name] = [server.draft(prompt) for prompt in prompts]
    for name, drafted in served.items():
        for i, one in enumerate(drafted):
            states, out = folder / f"{name}-{i}.in", folder / f"{name}-{i}.out"
            save_file({"hidden": one.hidden.contiguous(), "tokens": one.tokens.long()}, states)
            requests.append((made / name, states, out))
    compute_logits(requests)
    return {
        name: [(one, load_file(folder / f"{name}-{i}.out")["logits"]) for i, one in enumerate(drafted)]
        for name, drafted in served.items()
    }


@pytest.mark.parametrize("name", CASES)
def test_logits_are_the_trainers(name: str, answers: dict, made: Path) -> None:
    from safetensors.torch import load_file

    tensors = load_file(made / name / "model.safetensors")
    for drafted, expected in answers[name]:
        assert expected.std() > 0.5
        assert (drafted.logits - expected).abs().max() < 2e-5
        # The token that a step proposes, in the target's vocabulary by the trainer's own map, is read by the next.
        proposed = expected.argmax(-1)
        if "d2t" in tensors:
            proposed = proposed + tensors["d2t"][proposed]
        assert drafted.tokens[-2:].tolist() == proposed[:2].tolist()


def test_states_are_the_samples(answers: dict) -> None:
    """The engine fed the draft what the fixture's samples hold, up to their bfloat16."""
    for i, length in enumerate(LENGTHS):
        wanted = load_sample(example_pair().directory, i)["hidden_states"][:3, :length]
        fed = answers[TRAINERS_DEFAULT][i][0].hidden.view(length, 3, -1).transpose(0, 1)
        assert max(relative_errors(fed, wanted)) < 0.02


def test_a_window_and_a_norm_show(answers: dict) -> None:
    """The cases differ where they should: the test could tell one network from another."""
    with_window, without = answers[TRAINERS_DEFAULT][0][1], answers[TRAINERS_DEFAULT.replace("window", "full")][0][1]
    assert (with_window - without).abs().max() > 1e-2


@pytest.mark.parametrize("name", [TRAINERS_DEFAULT, FULL, "three_layers"])
def test_served_by_its_serve_yaml(name, converted: Path, pair: Pair, prompts, plain_outputs, serve) -> None:
    """Launched as a user would, the draft changes the speed and no token."""
    flags = ["--model-path", str(pair.target), "--dtype", "float32", "--config", str(converted / name / "serve.yaml")]
    with serve(flags) as server:
        answer = [server.generate(prompt, 24) for prompt in prompts[:6]]
    assert [one["output_ids"] for one in answer] == [output[:24] for output in plain_outputs[:6]]
    assert all(one["meta_info"]["spec_verify_ct"] > 0 for one in answer)


def test_stock_stops(converted: Path, pair: Pair, fails) -> None:
    """Without the overlay a draft that only it can serve ends the server at load, with the tensor's shape."""
    flags = ["--model-path", str(pair.target), "--dtype", "float32"]
    flags += ["--config", str(converted / TRAINERS_DEFAULT / "serve.yaml")]
    status, lines, _, alive = fails(flags, env={"DRAFTWIRE": "off"}, timeout=120)
    assert status != 0
    assert not alive
    assert any("Attempted to load weight (torch.Size([1, 192]))" in line for line in lines)
    assert not any("fired up and ready" in line for line in lines)


def test_stock_serves_what_it_can(converted: Path, made: Path, tmp_path: Path) -> None:
    """What needs no overlay is served right without it."""
    names = ["llama-raw-before_fc-output-reduced-full", "llama-raw-fc_norm-pre-whole-full"]
    for name in names:
        assert "requires" not in json.loads((converted / name / "config.json").read_text())["eagle_config"]
    answered = ask(names, made, converted, tmp_path, env={"DRAFTWIRE": "off"})
    for drafted, expected in [one for answers in answered.values() for one in answers]:
        assert (drafted.logits - expected).abs().max() < 1e-4


@pytest.mark.parametrize("name", ["layers.0.mlp.up_proj.weight", "layers.0.self_attn.q_norm.weight", "d2t"])
def test_a_missing_tensor_ends_the_server(name: str, converted: Path, pair: Pair, tmp_path: Path, fails) -> None:
    from safetensors.torch import load_file, save_file

    source = converted / "qwen3-residual-fc_norm-pre-reduced-full"
    tensors = load_file(source / "model.safetensors")
    del tensors[name]
    (tmp_path / "config.json").write_bytes((source / "config.json").read_bytes())
    save_file(tensors, tmp_path / "model.safetensors")
    status, lines, _, alive = fails([*pair.flags(tmp_path)], timeout=240)
    assert status != 0
    assert not alive
    assert any(line.startswith("draftwire: expected the tensor ") and repr(name) in line for line in lines)
