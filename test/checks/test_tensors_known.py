from pathlib import Path

from cases import damage, look, only, read_weights

NAME = "tensors_known"


def rename(old: str, new: str) -> dict:
    return {name.replace(old, new): tensor for name, tensor in read_weights().items()}


def test_healthy(tmp_path: Path) -> None:
    only(look(NAME), "ok")
    draft = damage(tmp_path / "draft", tensors=rename("midlayer.", "layers.0."))
    only(look(NAME, draft, release="0.5.12"), "ok")


def test_layers_0_before_0_5_12(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", tensors=rename("midlayer.", "layers.0."))
    only(look(NAME, draft, release="0.5.11"), "error", "drops", "layers.0.", "midlayer")


def test_an_unknown_name(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", tensors=rename("midlayer.mlp.up_proj", "midlayer.mlp.up"))
    found = only(look(NAME, draft), "error", "refuses layers.0.mlp.up.weight")
    assert " more" not in found.text
    both = {
        name.replace("mlp.up_proj", "mlp.up").replace("mlp.gate_proj", "mlp.gate"): t
        for name, t in read_weights().items()
    }
    only(look(NAME, damage(tmp_path / "both", tensors=both)), "error", "layers.0.mlp.gate.weight and 1 more")
    only(look(NAME, draft, delivery="stock"), "warning", "drop layers.0.mlp.up.weight")
