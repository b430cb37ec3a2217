"""What `--fix` writes is served as trained, by this and by other releases; and by the real engine (slow)."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest

pytest.importorskip("transformers")
import torch
import yaml
from draft_damage import DAMAGES, add_norms, damage, swap_blocks
from safetensors.torch import load_file
from test_diagnosis import SAMPLES, case_of

from draftwire.acceptance import Acceptance
from draftwire.diagnosis import Diagnosis, diagnose
from draftwire.draft import DraftError
from draftwire.mend import mend, require_output, shared_weights
from draftwire.pair import Pair, example_pair
from draftwire.sample import Samples, read_samples
from draftwire.samples_command import examine_samples
from draftwire.search import Candidate
from draftwire.settings import read_settings

PAIR = example_pair()


@pytest.fixture(scope="module")
def samples() -> Samples:
    return read_samples(SAMPLES, hidden_size=192, vocab_size=1024)


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("target_ids_in_d2t", "without_the_embedding")]


@pytest.mark.parametrize("name", ["swapped_blocks", "joint_norm", *SLOW])
def test_a_mended_draft_is_wired(name: str, samples: Samples, tmp_path: Path) -> None:
    _, config, edit = DAMAGES[name]
    draft = damage(tmp_path / "draft", config, edit)
    before = {file.name: file.read_bytes() for file in draft.iterdir()}
    text, status = examine_samples(case_of(draft), SAMPLES, fix=tmp_path / "out")
    assert status == 0
    assert "for the overlay: ids [0, 3, 6] (or [-1, 2, 5])" in text
    assert "for stock SGLang 0.5.23: the same ids [0, 3, 6]" in text
    assert text.splitlines()[0] == f"WIRED as mended; it was MISWIRED: {DAMAGES[name].axis}"
    assert {file.name: file.read_bytes() for file in draft.iterdir()} == before
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
    source, out = load_file(PAIR.draft / "model.safetensors"), load_file(tmp_path / "out" / "model.safetensors")
    assert torch.equal(out["fc.weight"], source["fc.weight"])
    assert torch.equal(out["d2t"], source["d2t"])
    assert "input_norm.weight" not in out
    assert diagnose(case_of(tmp_path / "out", delivery="stock"), samples).verdict == "WIRED"


def found_order(draft: Path, **flags: bool) -> tuple[Diagnosis, object]:
    """As if the samples had said that fc takes boundaries 3, 0, 6."""
    case = case_of(draft)
    settings = read_settings(case.draft)._replace(**flags)
    winner = Candidate((1, 0, 2), settings)
    return Diagnosis("MISWIRED", [], winner=winner, boundaries=(3, 0, 6), decided=True, served=(0, 3, 6)), case


def test_norms_of_states_move_with_their_blocks(tmp_path: Path) -> None:
    def mark(tensors: dict) -> None:
        swap_blocks(tensors)
        add_norms(tensors)
        for i in range(3):
            tensors[f"fc_norm.{i}.weight"] *= i + 1

    found, case = found_order(damage(tmp_path / "draft", {"fc_norm": True}, mark))
    mend(case, found, tmp_path / "out")
    out = load_file(tmp_path / "out" / "model.safetensors")
    assert [float(out[f"fc_norm.{i}.weight"][0]) for i in range(3)] == [2, 1, 3]
    assert torch.equal(out["fc.weight"], load_file(PAIR.draft / "model.safetensors")["fc.weight"])


def test_a_joint_norm_moves_with_its_blocks(tmp_path: Path) -> None:
    def mark(tensors: dict) -> None:
        tensors["input_norm.weight"] = torch.arange(576).float()

    found, case = found_order(damage(tmp_path / "draft", {"norm_before_fc": True}, mark))
    mend(case, found, tmp_path / "out")
    weight = load_file(tmp_path / "out" / "model.safetensors")["input_norm.weight"]
    assert weight.tolist() == [*range(192, 384), *range(192), *range(384, 576)]


def test_flags_are_written(tmp_path: Path) -> None:
    found, case = found_order(damage(tmp_path / "draft"), norm_before_residual=True, norm_output=True)
    output = mend(case, found, tmp_path / "out")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["norm_before_residual"] is config["norm_output"] is True
    assert output.requires == ["norm_before_residual"]
    assert config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [0, 3, 6]


@pytest.mark.parametrize("change", [{"decided": False}, {"boundaries": (3, None, 6)}, {"winner": None}])
def test_nothing_is_mended_in_doubt(change: dict, tmp_path: Path) -> None:
    found, case = found_order(PAIR.draft)
    for key, value in change.items():
        setattr(found, key, value)
    with pytest.raises(DraftError, match="expected a wiring that is beyond doubt"):
        mend(case, found, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_is_there_is_kept(tmp_path: Path) -> None:
    found, case = found_order(PAIR.draft)
    (tmp_path / "out").mkdir()
    with pytest.raises(DraftError, match="expected a directory that is not there yet; found one that is"):
        mend(case, found, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


# ---- outputs that cannot be written


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("draft/out", "expected an output outside of "), ("nowhere/out", "expected an existing parent directory"),
        ("there", "expected a directory that is not there yet; found one that is"), ("x" * 300, "File name too long"),
        ("/proc/out", "found No such file or directory in /proc/out"), ("file/out", "expected an existing parent"),
    ],
)  # fmt: skip
def test_an_output_that_cannot_be(out: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, before the samples are run, and nothing is left."""
    draft = damage(tmp_path / "draft")
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("")
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr("draftwire.diagnosis.diagnose", lambda *_, **__: pytest.fail("the samples were run"))
    with pytest.raises(DraftError, match=said) as refused:
        examine_samples(case_of(draft), SAMPLES, fix=tmp_path / out)
    assert "mending" not in str(refused.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_parent_that_is_a_link_into_the_draft(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft")
    (tmp_path / "link").symlink_to(draft)
    with pytest.raises(DraftError, match="expected an output outside of"):
        require_output(case_of(draft), tmp_path / "link" / "out")


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    found, case = found_order(damage(tmp_path / "draft", {}, swap_blocks))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(DraftError, match="expected to write the output; found File too large in ") as refused:
            mend(case, found, tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert str(tmp_path / "out") in str(refused.value)
    assert "mending" not in str(refused.value)
    assert [file.name for file in tmp_path.iterdir()] == ["draft"]


def test_an_output_that_cannot_be_diagnosed_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, case = found_order(damage(tmp_path / "draft", {}, swap_blocks))
    answers = [found]

    def once(*_: object, **__: object) -> Diagnosis:
        if answers:
            return answers.pop()
        raise DraftError("the samples", "none", SAMPLES, "mount them again")

    monkeypatch.setattr("draftwire.diagnosis.diagnose", once)
    with pytest.raises(DraftError, match="mount them again"):
        examine_samples(case, SAMPLES, fix=tmp_path / "out")
    assert [file.name for file in tmp_path.iterdir()] == ["draft"]


# ---- what is said of a mended draft


def mended(draft: Path, out: Path, monkeypatch: pytest.MonkeyPatch, **flags: bool) -> tuple[str, dict]:
    """Text and table of a mend, as if the samples had said boundaries 3, 0, 6 and these flags, and then that all is
    well."""
    found, case = found_order(draft, **flags)
    well = Diagnosis("WIRED", [], winner=found.winner, boundaries=(0, 3, 6), decided=True, served=(0, 3, 6))
    texts = []
    for as_json in (False, True):
        answers = [well, found]
        monkeypatch.setattr("draftwire.diagnosis.diagnose", lambda *_, answers=answers, **__: answers.pop())
        place = out.with_name(f"{out.name}-json") if as_json else out
        texts.append(examine_samples(case, SAMPLES, fix=place, as_json=as_json)[0])
    return texts[0], json.loads(texts[1])["fixed"]


def test_flags_and_differences_are_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, table = mended(damage(tmp_path / "draft", {}, swap_blocks), tmp_path / "out", monkeypatch)
    told = " ".join(text.split())
    assert text.startswith("WIRED as mended; it was MISWIRED\n")
    assert "- layer ids [-1, 2, 5] -> [0, 3, 6]" in told
    assert "- blocks of fc.weight in the order of boundaries [3, 0, 6] -> [0, 3, 6]" in told
    assert "the same ids [0, 3, 6]; the overlay is not needed" in told
    assert told.endswith(
        f"--speculative-algorithm EAGLE3 --speculative-draft-model-path {tmp_path / 'out'} --speculative-num-steps 3 "
        "--speculative-eagle-topk 1 --speculative-num-draft-tokens 4"
    )
    assert text.count("wrote ") == 1
    assert "best " not in text
    assert table["flags"]["speculative-eagle-topk"] == 1
    assert table["requires"] == []
    assert yaml.safe_load((tmp_path / "out-json" / "serve.yaml").read_text()) == table["flags"]


def test_the_figure_is_held_against_the_mended_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, case = found_order(damage(tmp_path / "draft", {}, swap_blocks))
    again = Diagnosis("WIRED", [], notes=["the trainer's figure is reached"], winner=found.winner, boundaries=(0, 3, 6))
    answers, seen = [again, found], []

    def answer(*_: object, expect: float | None = None) -> Diagnosis:
        seen.append(expect)
        return answers.pop()

    monkeypatch.setattr("draftwire.diagnosis.diagnose", answer)
    text, _ = examine_samples(case, SAMPLES, expect=0.7, fix=tmp_path / "out")
    assert seen == [0.7, 0.7]
    assert "note: the trainer's figure is reached" in text


def test_a_draft_that_needs_the_overlay_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, table = mended(damage(tmp_path / "draft"), tmp_path / "out", monkeypatch, norm_before_residual=True)
    told = " ".join(text.split())
    assert "- norm_before_residual off -> on" in told
    assert "for stock SGLang 0.5.23: none, it needs norm_before_residual: serve it with the overlay" in told
    assert table["requires"] == ["norm_before_residual"]


def test_weights_that_are_one_file_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def as_served(tensors: dict) -> None:
        for name in [name for name in tensors if name.startswith("midlayer.")]:
            tensors[name.replace("midlayer.", "layers.0.")] = tensors.pop(name)

    draft = damage(tmp_path / "draft", {}, as_served)
    found, case = found_order(draft)
    found.boundaries = (0, 3, 6)
    mend(case, found, tmp_path / "out")
    weights = [folder / "model.safetensors" for folder in (draft, tmp_path / "out")]
    assert weights[0].samefile(weights[1])
    assert shared_weights(case, tmp_path / "out") == [
        f"its model.safetensors is a hard link to {weights[0]}: edit neither in place"
    ]


@pytest.mark.slow
def test_the_engine_serves_the_mended_draft_at_the_originals_acceptance(
    tmp_path: Path, serve, pair: Pair, prompts: list[list[int]]
) -> None:
    _, config, edit = DAMAGES["swapped_blocks"]
    draft = damage(tmp_path / "draft", config | DAMAGES["without_the_embedding"].config, edit)
    _, status = examine_samples(case_of(draft), SAMPLES, fix=tmp_path / "out")
    assert status == 0
    lengths = {}
    for name, folder in (("original", pair.draft), ("damaged", draft), ("mended", tmp_path / "out")):
        with serve(pair.flags(folder)) as server:
            lengths[name] = Acceptance.of(server.generate(prompt, 48) for prompt in prompts[:8]).length
    assert lengths["mended"] == lengths["original"]
    assert lengths["damaged"] < lengths["original"] - 0.5
