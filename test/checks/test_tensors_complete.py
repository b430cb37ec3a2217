import json
from pathlib import Path

import pytest
import small_drafts as small
from cases import damage, look, only, read_weights
from sparse import write_header, write_sparse

from draftwire.headers import read_header

NAME = "tensors_complete"
REPORTS = Path(__file__).parent.parent / "reports"
MLA = ("self_attn.q_a_proj", "self_attn.q_a_layernorm", "self_attn.q_b_proj", "self_attn.kv_a_proj_with_mqa",
       "self_attn.kv_a_layernorm", "self_attn.kv_b_proj", "self_attn.o_proj", "mlp.gate_proj")  # fmt: skip


def without(*names: str) -> dict:
    return {name: tensor for name, tensor in read_weights().items() if name not in names}


def test_healthy(tmp_path: Path) -> None:
    only(look(NAME), "ok")
    whole = damage(tmp_path / "whole", tensors=without("lm_head.weight", "d2t"), draft_vocab_size=None)
    only(look(NAME, whole), "ok")


def test_an_embedding_of_another_width(tmp_path: Path) -> None:
    """SGLang does not share the target's where widths differ."""
    only(look(NAME, damage(tmp_path / "draft", target_hidden_size=256)), "error", "embed_tokens")


@pytest.mark.parametrize(
    "name", ["lm_head.weight", "norm.weight", "midlayer.hidden_norm.weight", "midlayer.self_attn.q_proj.weight"]
)
def test_failing(tmp_path: Path, name: str) -> None:
    found = look(NAME, damage(tmp_path / "draft", tensors=without(name)))
    assert " more" not in only(found, "error", f"no {name.replace('midlayer', 'layers.0')}", "random").text


def test_several(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", tensors=without("lm_head.weight", "norm.weight"))
    only(look(NAME, draft), "error", "no norm.weight and 1 more")


def test_the_second_layer(tmp_path: Path) -> None:
    """speculators calls its norm input_layernorm; SGLang would leave hidden_norm at random."""
    config = small.flat_config(num_hidden_layers=2)
    draft = small.write(tmp_path / "draft", config, small.tensors(2))
    only(look(NAME, draft, target=None), "error", "layers.1.hidden_norm.weight")


def test_biases(tmp_path: Path) -> None:
    only(look(NAME, damage(tmp_path / "fc", bias=True)), "error", "fc.bias and 1 more")
    only(look(NAME, damage(tmp_path / "o", attention_bias=True)), "error", "layers.0.self_attn.o_proj.bias")
    whole = read_weights() | {"fc.bias": small.floats(192), "midlayer.self_attn.o_proj.bias": small.floats(192)}
    only(look(NAME, damage(tmp_path / "whole", tensors=whole, bias=True)), "ok")


def test_without_states_fc_is_not_needed(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", tensors=without("fc.weight"), eagle_config={"use_aux_hidden_state": False})
    only(look(NAME, draft), "ok")


def write_mla(folder: Path, changes: dict, **keys: object) -> Path:
    facts = json.loads((REPORTS / "kimi-k2.6-mla-before-0.5.12.json").read_text())
    return write_sparse(folder, facts["draft"] | keys, changes)


def test_mla(tmp_path: Path) -> None:
    draft = write_mla(tmp_path / "draft", {})
    only(look(NAME, draft, target=None), "ok")
    for name in MLA:
        cut = write_mla(tmp_path / name, {})
        header = cut / "model.safetensors"
        stored = {n: (t.dtype, list(t.shape)) for n, t in read_header(header).items()}
        del stored[f"midlayer.{name}.weight"]
        write_header(header, stored)
        only(look(NAME, cut, target=None), "error", f"no layers.0.{name}.weight")
    only(look(NAME, write_mla(tmp_path / "bias", {}, bias=True), target=None), "error", "no fc.bias")
    only(look(NAME, write_mla(tmp_path / "o", {}, attention_bias=True), target=None), "ok")


def test_a_spelling_that_the_loader_drops(tmp_path: Path) -> None:
    """Tensors that are there, under a name that the class does not take, are missing all the same."""
    weights = {f"model.{name}": tensor for name, tensor in read_weights().items()}
    found = look(NAME, damage(tmp_path / "draft", tensors=weights), delivery="stock")
    only(found, "error", "no lm_head.weight", "model.lm_head.weight is in the file", "draftwire convert")
    assert " more" not in found[0].text
    weights["lm_head.weight"] = weights.pop("model.lm_head.weight")
    only(look(NAME, damage(tmp_path / "spelled", tensors=weights), delivery="stock"), "ok")
    cut = write_mla(tmp_path / "mla", {})
    stored = {f"model.{n}": (t.dtype, list(t.shape)) for n, t in read_header(cut / "model.safetensors").items()}
    write_header(cut / "model.safetensors", stored)
    only(look(NAME, cut, target=None), "error", "There is no fc.weight and 15 more")
