"""What the report says of a draft that is served, and what of it cannot be known; the map, the head and the path."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import small_drafts as small
from test_convert_output import assert_refused, command, read

from draftwire.convert import DraftError, convert

IDS = "eagle_aux_hidden_state_layer_ids"


def whole_tensors(**more) -> dict:
    tensors = {name: tensor for name, tensor in small.tensors().items() if name not in ("d2t", "t2d")}
    return {**tensors, "lm_head.weight": small.floats(small.VOCABULARY, small.HIDDEN), **more}


def whole_config(**changes) -> dict:
    return small.speculators_config(draft_vocab_size=small.VOCABULARY, **changes)


IDENTITY = [
    {"d2t": small.integers([0] * 40)}, {"d2t": small.integers([0] * 40), "t2d": small.booleans([True] * 40)},
    {"t2d": small.booleans([True] * 40)}, {"d2t": small.integers(list(range(40)))},
]  # fmt: skip
MOVING = [
    {"d2t": small.integers([0] * 39 + [-1])}, {"d2t": small.integers([1] * 39 + [-39])},
    {"d2t": small.integers([0] * 10)}, {"d2t": small.floats(40)},
    {"d2t": small.integers([0] * 40), "t2d": small.booleans([True] * 39 + [False])},
    {"t2d": small.booleans([True] * 10)},
]  # fmt: skip


@pytest.mark.parametrize("maps", IDENTITY)
def test_a_map_that_moves_nothing_is_left_out(tmp_path: Path, maps: dict) -> None:
    source = small.write(tmp_path / "draft", whole_config(), whole_tensors(**maps))
    output = convert(str(source), tmp_path / "out")
    assert any("left out: the draft has the whole vocabulary" in note for note in output.notes)
    assert not {"d2t", "t2d"} & read(tmp_path / "out").keys()


@pytest.mark.parametrize("maps", MOVING)
def test_a_map_of_the_whole_vocabulary_that_moves_a_token(tmp_path: Path, maps: dict) -> None:
    assert_refused(tmp_path, whole_config(), whole_tensors(**maps), "2")


def flat_whole(**changes) -> dict:
    return small.flat_config(draft_vocab_size=small.VOCABULARY, eagle_config={IDS: [-1, 2, 5]}, **changes)


def tied(folder: Path, head: tuple | None) -> Path:
    tensors = whole_tensors()
    del tensors["lm_head.weight"]
    if head:
        tensors["lm_head.weight"] = head
    return small.write(folder / "draft", flat_whole(tie_word_embeddings=True), tensors)


def test_a_tied_head_keeps_the_drafts_embedding(tmp_path: Path) -> None:
    """SGLang would put the target's embedding into both; stored twice, one is left out."""
    target = str(small.target(tmp_path / "target"))
    for number, head in enumerate((None, small.floats(small.VOCABULARY, small.HIDDEN))):
        out = tmp_path / f"out-{number}"
        output = convert(str(tied(tmp_path / str(number), head)), out, target=target)
        assert output.requires == ["own_embedding"]
        assert "lm_head.weight" not in read(out)
        assert json.loads((out / "config.json").read_text())["tie_word_embeddings"] is True
        assert any("lm_head left out" in note for note in output.notes) == (head is not None)


def test_a_tied_flag_beside_another_head(tmp_path: Path) -> None:
    dtype, shape, data = small.floats(small.VOCABULARY, small.HIDDEN)
    target = str(small.target(tmp_path / "target"))
    with pytest.raises(DraftError, match=r"lm_head\.weight equal to embed_tokens\.weight"):
        convert(str(tied(tmp_path, (dtype, shape, data[:-1] + b"\1"))), tmp_path / "out", target=target)
    assert not (tmp_path / "out").exists()


def target_with(folder: Path, embedding: tuple | None) -> str:
    target = small.target(folder / "target")
    if embedding:
        (target / "model.safetensors").write_bytes(small.pack({"model.embed_tokens.weight": embedding}))
    return str(target)


def noise(seed: int) -> tuple:
    import random

    import numpy

    values = numpy.array([random.Random(seed + i).gauss(0, 1) for i in range(40 * 16)], dtype="<f4")
    return "F32", (40, 16), values.tobytes()


@pytest.mark.parametrize(
    ("mine", "theirs", "said"),
    [
        (noise(1), noise(1), "16 rows were compared and are the same"),
        (noise(1), noise(1000), "right if they were never trained; if they were, write embed_requires_grad true"),
        (noise(1), None, "not compared with it, whose weights are not at hand (--target DIR)"),
        (noise(1), ("U8", (40, 16), bytes(640)), "not compared with it, whose rows are U8"),
        (noise(1), ("F32", (40, 17), bytes(40 * 17 * 4)), "not compared"),
    ],
)
def test_what_is_known_of_an_embedding(tmp_path: Path, mine: tuple, theirs: tuple | None, said: str) -> None:
    config = small.speculators_config(norm_before_residual=False)
    tensors = {**small.tensors(), "embed_tokens.weight": mine}
    ran = command(small.write(tmp_path / "draft", config, tensors), tmp_path / "out", "--target",
                  target_with(tmp_path, theirs))  # fmt: skip
    assert ran.exit_code == 0
    (note,) = [line for line in ran.output.splitlines() if "embed_tokens" in line]
    assert note.startswith("note: embed_tokens: SGLang takes the target's in its place")
    assert said in note


def test_an_embedding_that_is_kept_is_not_judged(tmp_path: Path) -> None:
    source = small.write(tmp_path / "draft", small.speculators_config(embed_requires_grad=True), small.tensors())
    assert not any("embed_tokens" in note for note in convert(str(source), tmp_path / "out").notes)


def test_a_guess_of_the_ids_is_said(tmp_path: Path) -> None:
    source = small.write(tmp_path / "draft", small.flat_config(eagle_config=None), small.flat_tensors())
    target = small.target(tmp_path / "target")
    ran = command(source, tmp_path / "out", "--target", target)
    assert "note: no layer ids: boundaries [2, 6, 9] are SGLang's default, a guess" in ran.output
    said = command(source, tmp_path / "said", "--target", target, "--boundaries", "2,6,9")
    assert "a guess" not in said.output


def test_shared_storage_is_said(tmp_path: Path) -> None:
    source = small.write(tmp_path / "draft", small.speculators_config(norm_before_residual=False), small.tensors())
    ran = command(source, tmp_path / "out")
    assert (tmp_path / "out" / "model.safetensors").samefile(source / "model.safetensors")
    assert f"a hard link to {source / 'model.safetensors'}: one storage, so edit neither in place" in ran.output
    marked = small.write(tmp_path / "marked", small.speculators_config(), small.tensors())
    assert "hard link" not in command(marked, tmp_path / "copied").output


@pytest.mark.parametrize("version", ["0.10.0", "0.10.0.dev3", "1.2", "0.4.2", "0.5.0rc1", "", "nine", None, 9])
def test_other_versions_of_speculators(tmp_path: Path, version: object) -> None:
    config = small.speculators_config(speculators_version=version)
    assert_refused(tmp_path, config, small.tensors(), "speculators_version 0.5 to 0.9")


@pytest.mark.parametrize("version", ["0.5.0", "0.6.0.dev12", "0.7", "0.8.1", "0.9.0", "0.9.4"])
def test_known_versions_of_speculators(tmp_path: Path, version: str) -> None:
    config = small.speculators_config(speculators_version=version)
    assert convert(str(small.write(tmp_path / "draft", config, small.tensors())), tmp_path / "out")


@pytest.mark.parametrize("release", ["0.5.99", "0.5.24", "0.4.0", "1.0", "newest", "0.5.17.post3", "0.5", "v0.5.17"])
def test_a_release_that_is_none(tmp_path: Path, release: str) -> None:
    source = small.write(tmp_path / "draft", small.speculators_config(), small.tensors())
    ran = command(source, tmp_path / "out", "--release", release)
    assert ran.exit_code == 2
    assert ran.output.startswith(f"draftwire: expected a release of 0.5.14 to 0.5.23; found {release!r} in --release; ")
    assert [p.name for p in tmp_path.iterdir()] == ["draft"]


def test_releases_are_those_that_the_project_states(tmp_path: Path) -> None:
    """pyproject.toml's range, read by the plugin, against each release that was ever read."""
    from draftwire.plugin import known
    from draftwire.release import RELEASES

    source = small.write(tmp_path / "draft", small.speculators_config(), small.tensors())
    taken = {r: command(source, tmp_path / r, "--release", r).exit_code == 0 for r in RELEASES}
    assert taken == {release: known(release) for release in RELEASES}
    assert sum(taken.values()) == 11
    assert command(source, tmp_path / "local", "--release", "0.5.23+cu130").exit_code == 0


NAMES = ["draft \N{ROCKET}", "entwürfe", 'a "b" \\c', "- x: #y", "tab\there", "next\x85line", "\ufeffbom", "yes", "1e3"]


@pytest.mark.parametrize("name", NAMES)
def test_any_path_is_the_same_to_sglangs_reader(tmp_path: Path, name: str) -> None:
    """serve.yaml is read by the installed SGLang's own class for --config, which opens it in the locale's encoding."""
    source = small.write(tmp_path / "draft", small.speculators_config(), small.tensors())
    convert(str(source), tmp_path / name)
    file = tmp_path / name / "serve.yaml"
    assert file.read_bytes().isascii()
    arguments = config_merger()().merge_config_with_args(["--config", str(file)])
    assert arguments[arguments.index("--speculative-draft-model-path") + 1] == str(tmp_path / name)
    assert arguments[arguments.index("--speculative-num-draft-tokens") + 1] == "4"


def config_merger() -> type:
    import importlib.util

    import upstream

    file = upstream.installed() / "srt" / "utils" / "server_args_config_parser.py"
    spec = importlib.util.spec_from_file_location("server_args_config_parser", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ConfigArgumentMerger


def test_a_path_that_no_file_can_hold(tmp_path: Path) -> None:
    source = small.write(tmp_path / "draft", small.speculators_config(), small.tensors())
    ran = command(source, os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    assert ran.exit_code == 2
    assert "expected an output path in UTF-8" in ran.output
    assert [p.name for p in tmp_path.iterdir()] == ["draft"]
