"""The readers of a draft directory: what is there is read, and what is not right is said in one line."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
import small_drafts as small
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from draftwire.draft import DraftError, find_directory, read_draft
from draftwire.headers import read_header, read_tensors

FUZZ = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def refusal(call, *arguments) -> str:
    with pytest.raises(DraftError) as raised:
        call(*arguments)
    line = str(raised.value)
    assert len(line.splitlines()) == 1
    assert line.startswith("expected ")
    assert "; found " in line
    return line


@pytest.mark.parametrize("shards", [1, 3])
def test_reads_what_safetensors_reads(tmp_path: Path, shards: int) -> None:
    from safetensors import safe_open

    draft = read_draft(small.write(tmp_path / "draft", small.speculators_config(), small.tensors(), shards))
    assert draft.layout == "speculators"
    seen = set()
    for file in (tmp_path / "draft").glob("*.safetensors"):
        with safe_open(file, "numpy") as opened:
            for name in opened.keys():  # noqa: SIM118
                stored = draft.tensors[name]
                array = opened.get_tensor(name)
                assert (stored.shape, stored.read()) == (array.shape, array.tobytes())
                seen.add(name)
    assert seen == draft.tensors.keys()


MODELOPT = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 4, 7], "use_last_layernorm": True}}


@pytest.mark.parametrize(
    ("layout", "config", "tensors"),
    [
        ("speculators", small.speculators_config(), small.tensors()),
        ("specforge", small.flat_config(), small.flat_tensors()),
        ("modelopt", small.flat_config(**MODELOPT), small.flat_tensors()),
        ("sglang", small.flat_config(eagle_config=None), small.flat_tensors()),
        ("sglang", small.flat_config(eagle_config=None, architectures=["LlamaForCausalLM"]), small.flat_tensors()),
        ("mla", small.flat_config(architectures=["Eagle3DeepseekV2ForCausalLM"]), small.flat_tensors()),
    ],
)
def test_recognises(tmp_path: Path, layout: str, config: dict, tensors: dict) -> None:
    assert read_draft(small.write(tmp_path / "draft", config, tensors)).layout == layout


def test_a_target_is_no_draft(tmp_path: Path) -> None:
    config = small.flat_config(architectures=["LlamaForCausalLM"])
    small.write(tmp_path / "model", config, {"model.embed_tokens.weight": small.floats(4, 2)})
    assert "name the directory of the draft, not of its target" in refusal(read_draft, tmp_path / "model")


@pytest.mark.parametrize("kind", ["dflash", "peagle", "mtp", 3])
def test_other_speculators_are_refused(tmp_path: Path, kind: object) -> None:
    config = small.speculators_config(speculators_model_type=kind)
    assert repr(kind) in refusal(read_draft, small.write(tmp_path / "draft", config, small.tensors()))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    folder = small.write(tmp_path / "draft", small.speculators_config(), small.tensors(), shards=2)
    (folder / "model-00002.safetensors").unlink()
    assert "model-00002.safetensors" in refusal(read_draft, folder)
    (folder / "model.safetensors.index.json").unlink()
    (folder / "model-00001.safetensors").rename(folder / "pytorch_model.bin")
    assert "pytorch_model.bin" in refusal(read_draft, folder)
    (folder / "config.json").unlink()
    assert "config.json" in refusal(read_draft, folder)
    assert "neither" in refusal(find_directory, str(tmp_path / "nothing" / "here" / "at all"))


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '"x"', "[" * 100_000, "\xff"])
def test_configs_that_are_no_table(tmp_path: Path, text: str) -> None:
    folder = small.write(tmp_path / "draft", small.speculators_config(), small.tensors())
    (folder / "config.json").write_text(text, encoding="latin-1")
    refusal(read_draft, folder)


def test_the_hub_cache_is_asked_and_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert "hf download some/draft" in refusal(find_directory, "some/draft")
    repository = tmp_path / "models--some--draft"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc123")
    (repository / "snapshots" / "abc123").mkdir(parents=True)
    assert find_directory("some/draft") == repository / "snapshots" / "abc123"


def test_a_revision_of_a_hub_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    repository = tmp_path / "models--some--draft"
    commit = "0123456789" * 4
    (repository / "refs" / "refs" / "pr").mkdir(parents=True)
    for ref, revision in (("main", "aaaaaa"), ("v1.0", "bbbbbb"), ("refs/pr/1", "cccccc"), (None, commit)):
        (repository / "snapshots" / revision).mkdir(parents=True)
        if ref:
            (repository / "refs" / ref).write_text(revision)
        assert find_directory("some/draft", ref or commit).name == revision
    assert find_directory("some/draft", "").name == "aaaaaa"
    assert "hf download some/draft --revision v2" in refusal(find_directory, "some/draft", "v2")
    assert "correct the revision" in refusal(find_directory, "some/draft", "../../refs/main")
    assert "--revision" in refusal(find_directory, "some/draft", "f" * 40)
    (repository / "refs" / "v1.0").write_text("dddddd")
    assert "refs/v1.0" in refusal(find_directory, "some/draft", "v1.0")
    # A directory has no revisions, as in SGLang.
    assert find_directory(str(tmp_path), "v2") == tmp_path


def header(entries: object, data: int) -> bytes:
    text = json.dumps(entries).encode() if not isinstance(entries, bytes) else entries
    return struct.pack("<Q", len(text)) + text + bytes(data)


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\x00" * 7, struct.pack("<Q", 10**12), struct.pack("<Q", 10) + b"{}", header([], 0), header(b"{]", 0),
        header(b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "a": 1}', 8),
        header({"a": ENTRY}, 4), header({"a": ENTRY}, 12), header({"a": {**ENTRY, "shape": [3]}}, 8),
        header({"a": {**ENTRY, "shape": [-2]}}, 8), header({"a": {**ENTRY, "shape": [2.0]}}, 8),
        header({"a": {**ENTRY, "shape": [True, 2]}}, 8), header({"a": {**ENTRY, "dtype": "F33"}}, 8),
        header({"a": {**ENTRY, "data_offsets": [8, 0]}}, 8), header({"a": {**ENTRY, "data_offsets": [0]}}, 8),
        header({"a": {**ENTRY, "data_offsets": [8, 16]}}, 16), header({"a": {"dtype": "F32"}}, 8),
        header({"a": ENTRY, "b": {**ENTRY, "data_offsets": [4, 12]}}, 12), header({"a": 5}, 0),
        header({"a": {**ENTRY, "shape": [10**30]}}, 8), header(b"[" * 90_000, 0),
    ],
)  # fmt: skip
def test_headers_that_lie(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(content)
    assert str(file) in refusal(read_header, file)


@pytest.mark.parametrize("length", range(0, 4000, 61))
def test_truncated(tmp_path: Path, length: int) -> None:
    """Any cut is noticed: the data must fill the file to its last byte."""
    whole = small.pack(small.tensors())
    file = tmp_path / "model.safetensors"
    file.write_bytes(whole[: len(whole) - 1 - length])
    refusal(read_header, file)


@FUZZ
@given(st.binary(max_size=300))
def test_any_bytes(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(content)
    agrees_with_safetensors(file)


KEYS = st.sampled_from(["dtype", "shape", "data_offsets", "a"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.text(max_size=4) | st.sampled_from(["F32", "BF16"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@FUZZ
@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4), st.integers(0, 64))
def test_any_header(tmp_path: Path, entries: dict, data: int) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(header(entries, data))
    agrees_with_safetensors(file)


@FUZZ
@given(st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), min_size=1, max_size=4))
def test_any_flipped_bytes(tmp_path: Path, flips: list) -> None:
    content = bytearray(small.pack(small.tensors()))
    for place, value in flips:
        content[place % len(content)] = value
    file = tmp_path / "model.safetensors"
    file.write_bytes(content)
    agrees_with_safetensors(file)


def agrees_with_safetensors(file: Path) -> None:
    """What is believed here, safetensors believes too, and tells the same of it."""
    from safetensors import safe_open

    try:
        mine = read_header(file)
    except DraftError as error:
        assert len(str(error).splitlines()) == 1
        return
    with safe_open(file, "numpy") as opened:
        theirs = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118
        assert {n: (t.dtype, list(t.shape)) for n, t in mine.items()} == {
            n: (s.get_dtype(), s.get_shape()) for n, s in theirs.items()
        }


@FUZZ
@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4) | JSON)
def test_any_index(tmp_path: Path, places: object) -> None:
    folder = small.write(tmp_path / "draft", small.speculators_config(), small.tensors())
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    try:
        assert read_tensors(folder) == {}
    except DraftError as error:
        assert len(str(error).splitlines()) == 1


def test_an_index_cannot_leave_the_directory(tmp_path: Path) -> None:
    folder = small.write(tmp_path / "draft", small.speculators_config(), small.tensors())
    (tmp_path / "other.safetensors").write_bytes(small.pack({"a": small.floats(2)}))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../other.safetensors"}}))
    assert "beside it" in refusal(read_tensors, folder)


def test_tensors_that_share_bytes(tmp_path: Path) -> None:
    """Two tensors over the first of two places: the sizes add up, the places do not."""
    entry = {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}
    header = json.dumps({"a": entry, "b": entry}).encode()
    file = tmp_path / "model.safetensors"
    file.write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    with pytest.raises(DraftError, match="expected 'b' from byte 4 of the data; found 0"):
        read_header(file)
