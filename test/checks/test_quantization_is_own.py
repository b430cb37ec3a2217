import json
from pathlib import Path

import pytest
from cases import damage, look, only, read_weights

NAME = "quantization_is_own"
OWN = "--speculative-draft-model-quantization"
FP8 = {"quant_method": "fp8"}


def packed() -> dict:
    """One matrix of the layer as a quantiser stores it."""
    weights = read_weights()
    _, (rows, columns), _ = weights["midlayer.mlp.down_proj.weight"]
    weights["midlayer.mlp.down_proj.weight"] = ("F8_E4M3", (rows, columns), bytes(rows * columns))
    return weights


def test_healthy(tmp_path: Path) -> None:
    only(look(NAME), "ok")
    only(look(NAME, launch=None), "skipped")
    draft = damage(tmp_path / "draft")
    only(look(NAME, draft, "--quantization", "awq", OWN, "unquant"), "ok")
    only(look(NAME, draft, "--quantization", "unquant"), "ok")
    own = damage(tmp_path / "own", tensors=packed(), quantization_config=FP8)
    only(look(NAME, own, "--quantization", "awq"), "ok", "'fp8'")
    only(look(NAME, own, launch=None), "ok")


@pytest.mark.parametrize("flags", [["--quantization", "AWQ"], [OWN, "awq"]])
def test_a_flag_that_the_weights_are_not(tmp_path: Path, flags: list[str]) -> None:
    draft = damage(tmp_path / "draft")
    only(look(NAME, draft, *flags), "error", "built as awq", "unquant")
    only(look(NAME, draft, flags[0], "fp8"), "warning", "fp8", "unquant")


def test_a_config_that_the_weights_are_not(tmp_path: Path) -> None:
    """Seen without any launch flags; no flag undoes it, as SGLang then reads the config."""
    copied = damage(tmp_path / "draft", quantization_config=FP8)
    only(look(NAME, copied, launch=None), "error", "stored in floating point", "'fp8'", "Delete it")
    only(look(NAME, copied, OWN, "unquant"), "error", "stored in floating point")
    only(look(NAME, damage(tmp_path / "odd", quantization_config="fp8")), "error", "quantization_config 'fp8'")


def test_weights_of_which_nothing_is_said(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", tensors=packed())
    only(look(NAME, draft, launch=None), "error", "nothing says how", "layers.0.mlp.down_proj.weight")
    only(look(NAME, draft, OWN, "fp8"), "ok", "A flag says")
    only(look(NAME, draft, "--quantization", "fp8"), "ok", "A flag says")
    only(look(NAME, draft, "--quantization", "fp8", OWN, "unquant"), "error", "nothing says how")


def test_modelopts_file(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", tensors=packed())
    file = draft / "hf_quant_config.json"
    file.write_text(json.dumps({"quantization": {"quant_algo": "FP8"}}))
    only(look(NAME, draft), "ok", "'FP8' in hf_quant_config.json")
    file.write_text(json.dumps({"quantization": {"quant_algo": None}}))
    only(look(NAME, draft), "error", "nothing says how")
    for text in ("{", "[]", "{}", "[" * 100_000):
        file.write_text(text)
        only(look(NAME, draft), "error", "cannot be read", "quant_algo")


def test_a_quantised_cache_is_no_quantised_draft(tmp_path: Path) -> None:
    cache = {"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8}}
    only(look(NAME, damage(tmp_path / "draft", quantization_config=cache)), "ok")
    both = cache | {"config_groups": {"group_0": {}}}
    only(look(NAME, damage(tmp_path / "both", quantization_config=both)), "error", "stored in floating point")


@pytest.mark.parametrize(
    "method", ["fp8", "w8a8_fp8", "mxfp4", "mxfp8", "bitsandbytes", "nvfp4_online", "quark_mxfp4", "MXFP8"]
)
def test_methods_that_quantise_while_loading(tmp_path: Path, method: str) -> None:
    only(look(NAME, damage(tmp_path / "draft"), "--quantization", method), "warning", f"quantised to {method.lower()}")


def test_a_method_for_experts_only(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft")
    for release, level in (("0.5.17", "error"), ("0.5.18", "ok"), ("0.5.23", "ok")):
        for flag in ("--quantization", OWN):
            only(look(NAME, draft, flag, "modelopt_fp4", release=release), level)
    only(look(NAME, draft, "--quantization", "modelopt_fp8"), "error")


def test_upstreams_own_config_of_that_method(tmp_path: Path) -> None:
    """What the installed release makes of a draft in full precision: a config whose dense layers are plain ones."""
    from types import SimpleNamespace

    from sglang.srt.layers.linear import LinearBase
    from sglang.srt.model_loader.weight_utils import get_quant_config
    from transformers import AutoConfig

    class Layer(LinearBase):
        def __init__(self) -> None:
            pass

    draft = damage(tmp_path / "draft")
    model = SimpleNamespace(hf_config=AutoConfig.from_pretrained(draft), model_path=str(draft), revision=None,
                            is_draft_model=True, is_draft_quantization_explicit=False)  # fmt: skip
    load = SimpleNamespace(model_loader_extra_config=None, download_dir=None)
    model.quantization = "modelopt_fp4"
    method = get_quant_config(model, load, {}).get_quant_method(Layer(), "model.layers.0.mlp.gate_up_proj")
    assert type(method).__name__ == "UnquantizedLinearMethod"
    model.quantization = "modelopt_fp8"
    with pytest.raises(ValueError, match="config file"):
        get_quant_config(model, load, {})
