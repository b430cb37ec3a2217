"""What `draftwire convert` writes, and that it writes nothing where anything is wrong."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import small_drafts as small
from typer.testing import CliRunner

from draftwire.convert import DraftError, convert

NBR = {"norm_before_residual": True}


def command(*arguments: object):
    import typer

    from draftwire.convert_command import register

    app = typer.Typer()
    app.callback()(lambda: None)
    register(app)
    return CliRunner().invoke(app, ["convert", *map(str, arguments)])


def read(out: Path) -> dict:
    from safetensors.numpy import load_file

    return load_file(out / "model.safetensors")


def digest(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}


def test_a_speculators_draft(tmp_path: Path) -> None:
    source = small.write(tmp_path / "draft", small.speculators_config(), small.tensors(), shards=2)
    before = digest(source)
    ran = command(source, tmp_path / "out")
    assert ran.exit_code == 0, ran.output
    assert "norm_before_residual" in ran.output
    assert digest(source) == before
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLMEagle3"]
    assert config["eagle_config"] == {
        "use_aux_hidden_state": True, "eagle_aux_hidden_state_layer_ids": [0, 3, 6], "aux_boundaries": [0, 3, 6],
        "requires": ["norm_before_residual"],
    }  # fmt: skip
    written, wanted = read(tmp_path / "out"), small.tensors()
    assert written.keys() == wanted.keys()
    for name, (_, shape, data) in wanted.items():
        marked = (1, *shape) if name == "layers.0.hidden_norm.weight" else shape
        assert (written[name].shape, written[name].tobytes()) == (marked, data)


def test_serve_yaml_is_sglangs_own(tmp_path: Path) -> None:
    """Every flag is one that the installed SGLang's parser knows, and the file is what its reader reads."""
    import yaml

    layer = {"layer_types": ["sliding_attention"], "sliding_window": 2048}
    methods = {"proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 5}]}
    config = small.speculators_config(layer=layer)
    config["speculators_config"] |= methods
    convert(str(small.write(tmp_path / "draft", config, small.tensors())), tmp_path / 'out "x"')
    flags = yaml.safe_load((tmp_path / 'out "x"' / "serve.yaml").read_text())
    assert flags == {
        "speculative-algorithm": "EAGLE3", "speculative-draft-model-path": str(tmp_path / 'out "x"'),
        "speculative-num-steps": 5, "speculative-eagle-topk": 1, "speculative-num-draft-tokens": 6,
        "speculative-draft-window-size": 2047,
    }  # fmt: skip


def test_weights_that_are_right_already_are_linked(tmp_path: Path) -> None:
    config = small.speculators_config(norm_before_residual=False)
    source = small.write(tmp_path / "draft", config, small.tensors())
    convert(str(source), tmp_path / "out")
    assert (tmp_path / "out" / "model.safetensors").samefile(source / "model.safetensors")


def test_weights_on_another_disk_are_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*paths):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    source = small.write(tmp_path / "draft", small.speculators_config(norm_before_residual=False), small.tensors())
    convert(str(source), tmp_path / "out")
    assert not (tmp_path / "out" / "model.safetensors").samefile(source / "model.safetensors")
    assert {n: t.tobytes() for n, t in read(tmp_path / "out").items()} == {
        n: data for n, (_, _, data) in small.tensors().items()
    }


def test_later_layers_take_sglangs_names(tmp_path: Path) -> None:
    convert(
        str(small.write(tmp_path / "draft", small.speculators_config(layers=3), small.tensors(layers=3))),
        tmp_path / "out",
    )
    names = read(tmp_path / "out").keys()
    assert {"layers.1.hidden_norm.weight", "layers.2.hidden_norm.weight", "layers.0.input_layernorm.weight"} <= names
    assert "layers.1.input_layernorm.weight" not in names


@pytest.mark.parametrize("missing", [("embed_tokens.weight",), ("lm_head.weight",)])
def test_what_the_target_shares_may_be_missing(tmp_path: Path, missing: tuple[str, ...]) -> None:
    """A whole vocabulary needs no head of its own: SGLang reads draft_vocab_size null as the target's head."""
    tensors = {n: t for n, t in small.tensors().items() if n not in (*missing, "d2t", "t2d")}
    if "lm_head.weight" in tensors:
        tensors["lm_head.weight"] = small.floats(small.VOCABULARY, small.HIDDEN)
    config = small.speculators_config(draft_vocab_size=small.VOCABULARY)
    output = convert(str(small.write(tmp_path / "draft", config, tensors)), tmp_path / "out")
    assert any("SGLang takes the target's" in note for note in output.notes)
    assert (output.config["draft_vocab_size"] is None) == ("lm_head.weight" in missing)


SPOILED = {
    "a head of a reduced vocabulary": ("lm_head.weight", lambda t: t.pop("lm_head.weight")),
    "d2t": ("d2t", lambda t: t.pop("d2t")),
    "the fc": ("fc.weight", lambda t: t.pop("fc.weight")),
    "a norm": ("hidden_norm", lambda t: t.pop("layers.0.hidden_norm.weight")),
    "the fc's width": ("fc.weight", lambda t: t.update({"fc.weight": small.floats(16, 64)})),
    "a projection's shape": ("q_proj", lambda t: t.update({"layers.0.self_attn.q_proj.weight": small.floats(16, 16)})),
    "a norm's dtype": ("norm.weight", lambda t: t.update({"norm.weight": small.integers([1] * 16)})),
    "d2t's dtype": ("d2t", lambda t: t.update({"d2t": small.floats(10)})),
    "d2t's length": ("d2t", lambda t: t.update({"d2t": small.integers([0] * 9)})),
    "d2t against t2d": ("d2t", lambda t: t.update({"d2t": small.integers([0] * 10)})),
    "d2t out of range": ("d2t", lambda t: (t.pop("t2d"), t.update({"d2t": small.integers([0] * 9 + [31])}))),
    "t2d's length": ("t2d", lambda t: t.update({"t2d": small.booleans([True] * 10)})),
    "t2d's count": ("t2d", lambda t: t.update({"t2d": small.booleans([True] * 40)})),
    "a tensor that is unknown": ("extra.weight", lambda t: t.update({"extra.weight": small.floats(2)})),
    "a norm without its flag": ("input_norm", lambda t: t.update({"input_norm.weight": small.floats(48)})),
    "a bias": ("q_proj.bias", lambda t: t.update({"layers.0.self_attn.q_proj.bias": small.floats(16)})),
}


@pytest.mark.parametrize("what", SPOILED)
def test_a_spoiled_tensor_is_named(tmp_path: Path, what: str) -> None:
    said, spoil = SPOILED[what]
    tensors = small.tensors()
    spoil(tensors)
    assert_refused(tmp_path, small.speculators_config(), tensors, said)


KEYS = {
    "transformer_layer_config": small.speculators_config(transformer_layer_config=None),
    "model_type": small.speculators_config(layer={"model_type": None}),
    "hidden_act": small.speculators_config(layer={"hidden_act": "gelu"}),
    "attention_bias": small.speculators_config(layer={"attention_bias": True}),
    "hidden_size": small.speculators_config(layer={"hidden_size": "16"}),
    "num_hidden_layers": small.speculators_config(layer={"num_hidden_layers": 0}),
    "num_key_value_heads": small.speculators_config(layer={"num_key_value_heads": 3}),
    "rms_norm_eps": small.speculators_config(layer={"rms_norm_eps": 2}),
    "draft_vocab_size": small.speculators_config(draft_vocab_size=41),
    "norm_output": small.speculators_config(norm_output="yes"),
    "norm_before_fc or fc_norm": small.speculators_config(norm_before_fc=True, fc_norm=True),
    "speculators_version": small.speculators_config(speculators_version="0.4.2"),
    "sliding_window": small.speculators_config(layer={"layer_types": ["sliding_attention"]}),
    "layer_types": small.speculators_config(layer={"layer_types": ["sliding_attention"] * 2, "sliding_window": 8}),
    "target_hidden_size": small.speculators_config(target_hidden_size=-1),
    "eagle_aux_hidden_state_layer_ids": small.speculators_config(eagle_aux_hidden_state_layer_ids=None),
    "ascending": small.speculators_config(eagle_aux_hidden_state_layer_ids=[3, 0, 6]),
    "fc.weight": small.speculators_config(eagle_aux_hidden_state_layer_ids=[0, 3]),
    "rope_parameters": small.speculators_config(layer={"rope_parameters": [1]}),
    "speculative_tokens": small.speculators_config(
        speculators_config={"proposal_methods": [{"speculative_tokens": 0}],
                            "verifier": {"architectures": ["DeepseekV3ForCausalLM"]}}
    ),
    "--target": small.speculators_config(speculators_config=None),
    "captured for DeepSeek": small.speculators_config(
        speculators_config={"verifier": {"architectures": ["LlamaForCausalLM"]}}
    ),
    "quantization_config": small.speculators_config(quantization_config={"bits": 4}),
}  # fmt: skip


@pytest.mark.parametrize("said", KEYS)
def test_a_spoiled_key_is_named(tmp_path: Path, said: str) -> None:
    assert_refused(tmp_path, KEYS[said], small.tensors(), said)


def assert_refused(folder: Path, config: dict, tensors: dict, said: str) -> None:
    ran = command(small.write(folder / "draft", config, tensors), folder / "out")
    assert ran.exit_code == 2, ran.output
    assert len(ran.output.splitlines()) == 1
    assert ran.output.startswith("draftwire: expected ")
    assert said in ran.output
    assert [p.name for p in folder.iterdir()] == ["draft"]


def test_an_output_that_is_there(tmp_path: Path) -> None:
    source = small.write(tmp_path / "draft", small.speculators_config(), small.tensors())
    (tmp_path / "out").mkdir()
    assert command(source, tmp_path / "out").exit_code == 2
    assert list((tmp_path / "out").iterdir()) == []
    assert command(source, tmp_path / "no" / "out").exit_code == 2
    assert "found 'x'" in command(source, tmp_path / "new", "--boundaries", "x").output


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = small.write(tmp_path / "draft", small.speculators_config(), small.tensors())

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DraftError, match="No space left"):
        convert(str(source), tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["draft"]


def test_a_source_that_shrinks_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut between the reading of its header and of its data."""
    import draftwire.convert as package

    source = small.write(tmp_path / "draft", small.speculators_config(), small.tensors())
    plan = package.plan

    def planned(*arguments, **fields):
        output = plan(*arguments, **fields)
        os.truncate(source / "model.safetensors", 3000)
        return output

    monkeypatch.setattr(package, "plan", planned)
    with pytest.raises(DraftError, match="export the draft again"):
        convert(str(source), tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["draft"]


def test_needs_neither_torch_nor_sglang(tmp_path: Path) -> None:
    source = small.write(tmp_path / "draft", small.speculators_config(), small.tensors())
    program = (
        "import sys\nfrom pathlib import Path\nfrom draftwire.convert import convert\n"
        f"convert({str(source)!r}, Path({str(tmp_path / 'out')!r}))\n"
        "assert not {'torch', 'sglang', 'numpy'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.slow
def test_a_real_geometry_in_little_memory(tmp_path: Path) -> None:
    """Kimi-K2.5's width (7,168, vocabulary 163,840, bfloat16, 4.7 GB, the file sparse): under 1 GB resident."""
    hidden, inner, vocabulary, reduced = 7168, 18432, 163840, 32000
    source = tmp_path / "draft"
    sizes = {"hidden_size": hidden, "intermediate_size": inner, "vocab_size": vocabulary, "num_attention_heads": 64,
             "num_key_value_heads": 64, "head_dim": 128}  # fmt: skip
    config = small.speculators_config(layer=sizes, draft_vocab_size=reduced)
    shapes = {
        "fc.weight": [hidden, 3 * hidden], "norm.weight": [hidden], "embed_tokens.weight": [vocabulary, hidden],
        "lm_head.weight": [reduced, hidden], "layers.0.hidden_norm.weight": [hidden],
        "layers.0.input_layernorm.weight": [hidden], "layers.0.post_attention_layernorm.weight": [hidden],
        "layers.0.mlp.gate_proj.weight": [inner, hidden], "layers.0.mlp.up_proj.weight": [inner, hidden],
        "layers.0.mlp.down_proj.weight": [hidden, inner], "layers.0.self_attn.o_proj.weight": [hidden, 8192],
        **{f"layers.0.self_attn.{n}_proj.weight": [8192, 2 * hidden] for n in "qkv"},
    }  # fmt: skip
    entries, at = {}, reduced * 8 + vocabulary
    entries["d2t"] = {"dtype": "I64", "shape": [reduced], "data_offsets": [0, reduced * 8]}
    entries["t2d"] = {"dtype": "BOOL", "shape": [vocabulary], "data_offsets": [reduced * 8, at]}
    for name, shape in shapes.items():
        size = 2 * shape[0] * (shape[1] if shape[1:] else 1)
        entries[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    source.mkdir()
    (source / "config.json").write_text(json.dumps(config))
    text = json.dumps(entries).encode()
    block = os.urandom(1 << 20)
    with (source / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        data = file.tell()
        file.seek(data + reduced * 8)
        file.write(b"\1" * reduced)
        for entry in list(entries.values())[2:]:
            file.seek(data + entry["data_offsets"][0])
            file.write(block[: entry["data_offsets"][1] - entry["data_offsets"][0]])
        file.truncate(data + at)
    program = (
        "from pathlib import Path\nfrom draftwire.convert import convert\n"
        f"convert({str(source)!r}, Path({str(tmp_path / 'out')!r}))\n"
        # Not ru_maxrss, which begins with the peak of the process that started this one.
        "print(next(l.split()[1] for l in open('/proc/self/status') if l.startswith('VmHWM')))"
    )
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    print(f"{ran.stdout.strip()} KiB resident for {at} bytes of tensors")
    assert int(ran.stdout) < 1024 * 1024
    from safetensors import safe_open

    with safe_open(tmp_path / "out" / "model.safetensors", "np") as out:
        assert out.get_slice("layers.0.hidden_norm.weight").get_shape() == [1, hidden]
        assert out.get_slice("embed_tokens.weight").get_shape() == [vocabulary, hidden]
    (tmp_path / "out" / "model.safetensors").unlink()


def test_an_output_inside_the_source_is_refused(tmp_path: Path) -> None:
    draft = small.write(tmp_path / "draft", small.speculators_config(), small.tensors())
    with pytest.raises(DraftError, match="an output outside of"):
        convert(str(draft), draft / "out")
    assert sorted(path.name for path in draft.iterdir()) == ["config.json", "model.safetensors"]


def test_a_pipe_for_a_file_is_refused(tmp_path: Path) -> None:
    draft = small.write(tmp_path / "draft", small.speculators_config(), small.tensors())
    (draft / "model.safetensors").unlink()
    os.mkfifo(draft / "model.safetensors")
    with pytest.raises(DraftError, match="no regular file"):
        convert(str(draft), tmp_path / "out")
