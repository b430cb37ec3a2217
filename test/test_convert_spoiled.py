"""Each file, key and tensor of a draft in turn: missing, of another shape or dtype, truncated, or lying about its size.
One line that names it, status 2 and no output; or, where it may be missing, what the trainer's class reads then."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import small_drafts as small
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_convert_output import command

from draftwire.convert import DraftError, convert
from draftwire_overlay.srt.speculative.aux_boundaries import WiringError

TENSORS = small.tensors(layers=2)
MAPS = ("d2t", "t2d")
# The target has an embedding, and d2t alone says which tokens the draft knows.
OPTIONAL = ("embed_tokens.weight", "t2d")


def refused(folder: Path, draft: Path) -> str:
    ran = command(draft, folder / "out")
    assert ran.exit_code == 2, ran.output
    assert len(ran.output.splitlines()) == 1
    assert ran.output.startswith("draftwire: expected ")
    assert "; found " in ran.output
    assert [p.name for p in folder.iterdir()] == ["draft"]
    return ran.output


def draft(folder: Path, tensors: dict, config: dict | None = None, shards: int = 1) -> Path:
    return small.write(folder / "draft", config or small.speculators_config(layers=2), tensors, shards)


def said_name(name: str) -> str:
    """As SGLang calls it: the first norm of a later layer is hidden_norm there."""
    return name.replace("layers.1.input_layernorm", "layers.1.hidden_norm")


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_is_missing(tmp_path: Path, name: str) -> None:
    source = draft(tmp_path, {n: t for n, t in TENSORS.items() if n != name})
    if name in OPTIONAL:
        assert command(source, tmp_path / "out").exit_code == 0
    else:
        assert said_name(name) in refused(tmp_path, source)


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_of_another_shape(tmp_path: Path, name: str) -> None:
    dtype, shape, data = TENSORS[name]
    longer = (dtype, (shape[0] + 1, *shape[1:]), data + data[: len(data) // shape[0]])
    assert said_name(name).split(".weight")[0] in refused(tmp_path, draft(tmp_path, {**TENSORS, name: longer}))


@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.parametrize("dtype", ["I16", "F8_E4M3", "F64"])
def test_a_tensor_of_another_dtype(tmp_path: Path, name: str, dtype: str) -> None:
    _, shape, _ = TENSORS[name]
    count = 1
    for size in shape:
        count *= size
    other = (dtype, shape, bytes(count * {"I16": 2, "F8_E4M3": 1, "F64": 8}[dtype]))
    assert said_name(name).split(".weight")[0] in refused(tmp_path, draft(tmp_path, {**TENSORS, name: other}))


@pytest.mark.parametrize("cut", [0, 1, 7, 8, 9, 100, -1, -8, -1000])
def test_a_truncated_file(tmp_path: Path, cut: int) -> None:
    source = draft(tmp_path, TENSORS)
    data = (source / "model.safetensors").read_bytes()
    (source / "model.safetensors").write_bytes(data[:cut])
    assert "model.safetensors" in refused(tmp_path, source)


@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.parametrize("by", [1, -1, 2**40])
def test_a_header_that_lies_about_a_size(tmp_path: Path, name: str, by: int) -> None:
    source = draft(tmp_path, TENSORS)
    data = (source / "model.safetensors").read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    entries = json.loads(data[8 : 8 + length])
    entries[name]["data_offsets"][1] += by
    header = json.dumps(entries).encode()
    (source / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + data[8 + length :])
    assert repr(name) in refused(tmp_path, source)


FILES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "no config": ("config.json", lambda d: (d / "config.json").unlink()),
    "an empty config": ("config.json", lambda d: (d / "config.json").write_bytes(b"")),
    "half a config": ("config.json", lambda d: (d / "config.json").write_bytes(b'{"speculators_model_type": "eag')),
    "a list": ("config.json", lambda d: (d / "config.json").write_bytes(b"[]")),
    "no shard": ("model-00002", lambda d: (d / "model-00002-of-00002.safetensors").unlink(missing_ok=True)
                 or (d / "model-00002.safetensors").unlink()),
    "an empty shard": ("model-00002", lambda d: (d / "model-00002.safetensors").write_bytes(b"")),
    "half an index": ("index.json", lambda d: (d / "model.safetensors.index.json").write_bytes(b'{"weight_map"')),
    "no weight_map": ("index.json", lambda d: (d / "model.safetensors.index.json").write_bytes(b"{}")),
    "a shard elsewhere": ("index.json", lambda d: (d / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"fc.weight": "../model-00001.safetensors"}}))),
    "nothing at all": ("safetensors", lambda d: [f.unlink() for f in d.glob("model*")]),
}  # fmt: skip


@pytest.mark.parametrize("what", FILES)
def test_a_file(tmp_path: Path, what: str) -> None:
    said, spoil = FILES[what]
    source = draft(tmp_path, TENSORS, shards=2)
    spoil(source)
    assert said in refused(tmp_path, source)


def outcome(folder: Path, config: dict) -> tuple | str:
    """The config that is written and its flags, or the refusal without the folder's own name."""
    source = small.write(folder / "draft", config, small.tensors())
    try:
        output = convert(str(source), folder / "out")
    except (DraftError, WiringError) as error:
        assert not (folder / "out").exists()
        assert len(str(error).splitlines()) == 1
        return str(error).replace(str(folder), "")
    flags = {k: v for k, v in output.flags.items() if "path" not in k}
    return output.config, flags, output.requires


LAYER = sorted(small.speculators_config()["transformer_layer_config"].keys() - {"model_type"})
FLAGS = ["norm_before_residual", "norm_before_fc", "fc_norm", "norm_output", "embed_requires_grad"]


@pytest.mark.parametrize("key", LAYER)
def test_a_missing_layer_key_is_its_class_default(tmp_path: Path, key: str) -> None:
    """The oracle: what transformers' own class fills in. speculators saves the difference from it."""
    from transformers import LlamaConfig

    kept = small.speculators_config()["transformer_layer_config"]
    if key == "num_attention_heads":
        kept = {}  # its default, 32, does not divide 16
    default = getattr(LlamaConfig(**{k: v for k, v in kept.items() if k != key}), key)
    without = outcome(tmp_path / "without", small.speculators_config(layer={key: None}))
    assert without == outcome(tmp_path / "default", small.speculators_config(layer={key: default}))


@pytest.mark.parametrize("key", FLAGS)
def test_a_missing_flag_is_false(tmp_path: Path, key: str) -> None:
    without = outcome(tmp_path / "without", small.speculators_config(**{key: None}))
    assert without == outcome(tmp_path / "false", small.speculators_config(**{key: False}))
    assert not isinstance(without, str)


NEEDED = {
    "speculators_model_type": "architectures", "speculators_version": "speculators_version",
    "transformer_layer_config": "transformer_layer_config", "draft_vocab_size": "draft_vocab_size",
    "eagle_aux_hidden_state_layer_ids": "eagle_aux_hidden_state_layer_ids", "speculators_config": "--target",
}  # fmt: skip


@pytest.mark.parametrize("key", NEEDED)
def test_a_missing_key_that_is_needed(tmp_path: Path, key: str) -> None:
    config = {k: v for k, v in small.speculators_config().items() if k != key}
    if key == "speculators_model_type":
        del config["speculators_config"]
    found = outcome(tmp_path, config)
    assert isinstance(found, str)
    assert NEEDED[key] in found


def test_every_key_was_looked_at() -> None:
    assert set(small.speculators_config()) == {*NEEDED, *FLAGS, "dtype"}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_bytes_in_any_place(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Bytes of a file are changed: the draft is converted, or refused in one line with nothing written."""
    folder = tmp_path_factory.mktemp("bytes")
    source = draft(folder, TENSORS, shards=data.draw(st.sampled_from([1, 2])))
    file = data.draw(st.sampled_from(sorted(source.iterdir())))
    content = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, min(len(content), 1500) - 1))
        content[place] = data.draw(st.integers(0, 255))
    file.write_bytes(content)
    try:
        convert(str(source), folder / "out")
    except (DraftError, WiringError) as error:
        assert len(str(error).splitlines()) == 1
        assert [p.name for p in folder.iterdir()] == ["draft"]
