"""Stated boundaries are held against the target's own forward, and only the target's output stands for its tokens."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("transformers")
import torch
from safetensors.torch import load_file, save_file

from draftwire import naming
from draftwire.diagnosis import diagnose
from draftwire.doctor import collect
from draftwire.draft import DraftError
from draftwire.naming import run_target
from draftwire.pair import example_pair
from draftwire.sample import Samples, read_samples
from draftwire.target import read_target

PAIR = example_pair()
SAMPLES = PAIR.directory / "samples"


def dumped(folder: Path, boundaries: list[int] | None = None) -> Path:
    """The example's samples without its table of the target's tokens."""
    folder.mkdir()
    for file in SAMPLES.glob("data_*.pt"):
        shutil.copy(file, folder / file.name)
    if boundaries is not None:
        (folder / "manifest.json").write_text(json.dumps({"boundaries": boundaries}))
    return folder


def run(samples: Samples, target: Path = PAIR.target):
    return diagnose(collect(str(PAIR.draft), str(target), release="0.5.23", delivery="overlay"), samples)


@pytest.fixture(scope="module")
def output() -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """The target's output of each sample before and after the final norm."""
    read = read_target(PAIR.target)
    found = {}
    for file in sorted(SAMPLES.glob("data_*.pt")):
        boundaries, normed = run_target(read, torch.load(file, weights_only=True)["input_ids"])
        found[file.name] = boundaries[-1], normed
    return found


@pytest.mark.parametrize(
    ("boundaries", "said"),
    [([0, 6, 3, 9], "boundary 6 as state 1, as it is said to be; found boundary 3"),
     ([0, 3, 6, 12], "boundary 12 as state 3, as it is said to be; found boundary 9")],
)  # fmt: skip
def test_a_wrong_manifest(tmp_path: Path, boundaries: list[int], said: str) -> None:
    for given in ({"states": boundaries}, {}):
        folder = dumped(tmp_path / f"by_{len(given)}", None if given else boundaries)
        with pytest.raises(DraftError, match=said):
            run(read_samples(folder, **given))


def test_specforges_last_state_is_not_believed(tmp_path: Path) -> None:
    folder = dumped(tmp_path / "dump")
    for file in folder.glob("data_*.pt"):
        table = torch.load(file, weights_only=True)
        states = table.pop("hidden_states")
        file.unlink()
        torch.save({**table, "aux_hidden_state": torch.cat(states[:3], -1)[None], "hidden_state": states[3][None]},
                   file.with_suffix(".ckpt"))  # fmt: skip
    with pytest.raises(DraftError, match="boundary 12 as state 3, as it is said to be; found boundary 9"):
        run(read_samples(folder, states=[0, 3, 6, 12]))


@pytest.mark.parametrize("states", [[0, 3, 6, 9], None])
def test_a_last_state_that_is_not_the_output_decides_nothing(tmp_path: Path, states: list[int] | None) -> None:
    found = run(read_samples(dumped(tmp_path / "dump"), states=states))
    assert found.kind == "next token"
    assert "the last dumped state is boundary 9 of 12, not the target's output: it decides nothing" in found.notes
    assert "dumped last state" in found.scores  # what the trainer compared with is shown all the same


def test_the_output_decides_in_its_trainers_form_only(tmp_path: Path, output: dict) -> None:
    for name, which in (("raw", 0), ("normed", 1)):
        folder = dumped(tmp_path / name, [0, 3, 6, 12])
        for file in folder.glob("data_*.pt"):
            table = torch.load(file, weights_only=True)
            table["hidden_states"][3] = output[file.name][which].bfloat16()
            torch.save(table, file)
        found = run(read_samples(folder))
        assert found.verdict == "WIRED"
        assert found.kind == ("next token" if which else "dumped last state")
        assert any("boundary 12 after the final norm, not" in note for note in found.notes) == bool(which)


def test_where_the_target_does_not_fit_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naming, "_free_memory", lambda: 2**20)
    found = run(read_samples(dumped(tmp_path / "dump"), states=[0, 3, 6, 9]))
    assert found.verdict == "WIRED"
    (note,) = [note for note in found.notes if "on trust" in note]
    assert note.startswith("boundaries [0, 3, 6, 9] of the dumped states: taken on trust, the target's layers in float")
    assert found.kind == "next token"  # boundary 9 of 12 by what is said


def test_a_target_without_its_layers_is_not_run(tmp_path: Path) -> None:
    """transformers would fill them with noise."""
    (tmp_path / "config.json").write_bytes((PAIR.target / "config.json").read_bytes())
    weights = load_file(PAIR.target / "model.safetensors")
    save_file({n: t for n, t in weights.items() if ".layers." not in n}, tmp_path / "model.safetensors")
    with pytest.raises(DraftError, match=r"expected a target with all of its layers; found no model\.layers\.0\."):
        run_target(read_target(tmp_path), torch.arange(8))
    found = run(read_samples(SAMPLES), tmp_path)
    assert found.verdict == "WIRED"
    assert any("taken on trust, expected a target with all of its layers" in note for note in found.notes)


def test_the_target_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    monkeypatch.setattr(naming, "run_target", lambda *given: runs.append(given) or run_target(*given))
    samples = read_samples(SAMPLES)
    assert [run(samples).verdict for _ in range(2)] == ["WIRED"] * 2
    assert len(runs) == 1
