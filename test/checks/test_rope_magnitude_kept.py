from pathlib import Path

from cases import damage, look, only

NAME = "rope_magnitude_kept"


KIMI = {"type": "yarn", "factor": 64.0, "original_max_position_embeddings": 4096, "mscale": 1.0, "mscale_all_dim": 1.0}


def yarn(folder: Path, **keys: object) -> Path:
    return damage(folder, rope_scaling={k: v for k, v in (KIMI | keys).items() if v is not None})


def test_healthy(tmp_path: Path) -> None:
    only(look(NAME), "ok")
    only(look(NAME, yarn(tmp_path / "draft"), release="0.5.16"), "ok", "1.000")
    plain = yarn(tmp_path / "plain", mscale=None, mscale_all_dim=None)
    only(look(NAME, plain, release="0.5.15"), "ok", "1.416")


def test_mscale_before_0_5_16(tmp_path: Path) -> None:
    """facts of the releases: 1.416 at factor 64, where Hugging Face multiplies by 1."""
    found = only(look(NAME, yarn(tmp_path / "draft"), release="0.5.15.post1"), "error", "1.416", "by 1.000")
    factor = float(found.remedy.split("attn_factor ")[1].split()[0])
    mended = yarn(tmp_path / "mended", mscale=None, mscale_all_dim=None, attn_factor=factor)
    for release in ("0.5.8", "0.5.15.post1", "0.5.16", "0.5.23"):
        only(look(NAME, mended, release=release), "ok", "1.000")


def test_attention_factor_is_never_read(tmp_path: Path) -> None:
    draft = yarn(tmp_path / "draft", mscale=None, mscale_all_dim=None, attention_factor=1.0)
    only(look(NAME, draft), "error", "1.416")
