from pathlib import Path

import pytest
from cases import EXAMPLE, damage, look, only, read_weights
from small_drafts import floats

NAME = "norms_served"


def test_healthy() -> None:
    only(look(NAME), "ok")
    only(look(NAME, delivery="stock"), "ok")


@pytest.mark.parametrize(
    ("keys", "release", "delivery", "level"),
    [
        ({"norm_before_residual": True}, "0.5.23", "stock", "error"),
        ({"norm_before_residual": True}, "0.5.23", "overlay", "ok"),
        ({"norm_before_residual": True}, "0.5.12", "patch", "ok"),
        (
            {"norm_before_residual": True, "eagle_config": {"requires": ["norm_before_residual"]}},
            "0.5.8",
            "patch",
            "ok",
        ),
        ({"norm_before_fc": True, "eagle_config": {"requires": ["norm_before_fc"]}}, "0.5.17", "patch", "error"),
        ({"norm_before_fc": True, "eagle_config": {"requires": ["norm_before_fc"]}}, "0.5.17", "overlay", "ok"),
        ({"norm_before_fc": True}, "0.5.17", "stock", "ok"),
        ({"norm_before_fc": True}, "0.5.16", "stock", "error"),
        ({"norm_before_fc": True}, "0.5.16", "overlay", "ok"),
        ({"fc_norm": True}, "0.5.12", "stock", "ok"),
        ({"fc_norm": True}, "0.5.11", "stock", "error"),
        ({"norm_output": True}, "0.5.11", "stock", "error"),
        ({"eagle_config": {"norm_output": True}}, "0.5.23", "overlay", "error"),
        ({"eagle_config": {"requires": ["qk_norm"]}}, "0.5.23", "stock", "error"),
        ({"norm_before_residual": True, "eagle_config": {"norm_before_residual": False}}, "0.5.23", "stock", "ok"),
        ({"model_type": "qwen3", "eagle_config": {"requires": ["qk_norm"]}}, "0.5.23", "overlay", "ok"),
    ],
)
def test_by_release(tmp_path: Path, keys: dict, release: str, delivery: str, level: str) -> None:
    only(look(NAME, damage(tmp_path / "draft", **keys), release=release, delivery=delivery), level)


@pytest.mark.parametrize(
    ("key", "release", "level"),
    [("norm_before_fc", "0.5.23", "error"), ("fc_norm", "0.5.12", "error"), ("fc_norm", "0.5.13", "ok")],
)
def test_mla(tmp_path: Path, key: str, release: str, level: str) -> None:
    draft = damage(tmp_path / "draft", architectures=["Eagle3DeepseekV2ForCausalLM"], **{key: True})
    found = only(look(NAME, draft, release=release, delivery="stock"), level)
    assert level == "ok" or ("overlay" in found.remedy) == (key == "norm_before_fc")


def test_mla_has_no_norm_before_residual(tmp_path: Path) -> None:
    draft = damage(tmp_path / "mla", architectures=["Eagle3DeepseekV2ForCausalLM"], norm_before_residual=True)
    only(look(NAME, draft, delivery="overlay"), "error", "norm_before_residual")
    only(look(NAME, draft, release="0.5.13", delivery="patch"), "error", "norm_before_residual")


def test_what_the_patch_serves() -> None:
    """Its own list, which cannot be imported without SGLang's tree; and what the replay makes of it."""
    from draftwire import patching
    from draftwire.checks.norms_served import PATCHED

    source = (Path(patching.__file__).parent / "draft_wiring.py").read_text()
    assert f"\nSERVED = {PATCHED!r}\n".replace("'", '"') in source


@pytest.mark.parametrize("delivery", ["stock", "overlay", "patch"])
def test_as_the_replay_has_it(tmp_path: Path, delivery: str) -> None:
    from draftwire.doctor import collect
    from draftwire.settings import served_settings

    draft = damage(tmp_path / "draft", norm_before_residual=True)
    served = served_settings(collect(str(draft), str(EXAMPLE / "target"), release="0.5.14", delivery=delivery))
    assert served.norm_before_residual == (look(NAME, draft, release="0.5.14", delivery=delivery)[0].level == "ok")


def test_what_a_newer_converter_asked_for(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", eagle_config={"requires": ["norm_before_residual", "third_eye"]})
    only(look(NAME, draft), "error", "third_eye", "newer draftwire")
    only(look(NAME, draft, release="0.5.12", delivery="patch"), "error", "third_eye", "newer draftwire")


def test_remedy_and_reason(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", norm_before_fc=True)
    only(look(NAME, draft, release="0.5.16", delivery="stock"), "error", "SGLang 0.5.16 ignores it", "overlay")
    mla = damage(tmp_path / "mla", architectures=["Eagle3DeepseekV2ForCausalLM"], norm_before_fc=True)
    only(look(NAME, mla, delivery="stock"), "error", "its MLA draft ignores it")


@pytest.mark.parametrize("name", ["norm_before_fc", "qk_norm", "sliding_window", "own_embedding"])
def test_what_the_patch_refuses(tmp_path: Path, name: str) -> None:
    draft = damage(tmp_path / "draft", eagle_config={"requires": [name]})
    found = look(NAME, draft, release="0.5.17", delivery="patch")
    assert "error" in {f.level for f in found if f"patch refuses a draft that requires {name}" in f.text}
    told = [f.text for f in look(NAME, draft, release="0.5.17", delivery="overlay")]
    assert not any("patch refuses" in text for text in told)


def test_layers_of_qwen3(tmp_path: Path) -> None:
    norms = {f"midlayer.self_attn.{part}_norm.weight": floats(24) for part in "qk"}
    keys = {"tensors": read_weights() | norms, "model_type": "qwen3"}
    only(look(NAME, damage(tmp_path / "draft", **keys)), "error", "qk_norm", "Llama's attention")
    only(look(NAME, damage(tmp_path / "asked", **keys, eagle_config={"requires": ["qk_norm"]})), "ok")
