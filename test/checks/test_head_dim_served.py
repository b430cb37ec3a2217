from pathlib import Path

from cases import damage, look, only

NAME = "head_dim_served"


def test_healthy() -> None:
    only(look(NAME), "ok", "8 heads of 24")


def test_112(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", head_dim=112)
    only(look(NAME, draft), "warning", "112", "triton")
    only(look(NAME, draft, "--attention-backend", "triton"), "ok")
    only(look(NAME, draft, "--attention-backend", "flashinfer"), "warning", "flashinfer")
    only(look(NAME, damage(tmp_path / "128", head_dim=128)), "ok")


def test_ranks(tmp_path: Path) -> None:
    only(look(NAME, damage(tmp_path / "draft"), "--tp", "3"), "error", "8 heads", "3 ranks")
