from pathlib import Path

from cases import damage, look, only

NAME = "quantization_is_own"


def test_healthy(tmp_path: Path) -> None:
    only(look(NAME), "ok")
    only(look(NAME, launch=None), "skipped")
    draft = damage(tmp_path / "draft")
    only(look(NAME, draft, "--quantization", "awq", "--speculative-draft-model-quantization", "unquant"), "ok")
    own = damage(tmp_path / "own", quantization_config={"quant_method": "fp8"})
    only(look(NAME, own, "--quantization", "awq"), "ok", "of its own")


def test_failing(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft")
    only(look(NAME, draft, "--quantization", "awq"), "error", "built as awq", "unquant")
    only(look(NAME, draft, "--quantization", "fp8"), "warning", "fp8", "unquant")
