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
    only(look(NAME, damage(tmp_path / "wide"), "--tp", "16"), "error", "8 heads", "16 ranks")
    only(look(NAME, damage(tmp_path / "none"), "--tp", "0"), "error", "0 ranks")
    only(look(NAME, launch=None), "ok", "1 rank")


def test_dp_attention(tmp_path: Path) -> None:
    """Attention is divided among the ranks of one group only."""
    apart = ("--tp", "16", "--dp", "4")
    only(look(NAME, damage(tmp_path / "a"), *apart, "--enable-dp-attention"), "ok", "over 4 rank")
    only(look(NAME, damage(tmp_path / "b"), *apart), "error", "16 ranks")
    only(look(NAME, damage(tmp_path / "c"), "--tp", "16", "--dp", "0", "--enable-dp-attention"), "error", "16 ranks")
    only(look(NAME, damage(tmp_path / "d"), "--tp", "2", "--dp", "4", "--enable-dp-attention"), "error", "0 ranks")


def test_key_value_heads(tmp_path: Path) -> None:
    """As LlamaAttention asserts: each rank has whole heads, or each head whole ranks."""
    draft = damage(tmp_path / "draft", num_key_value_heads=6, num_attention_heads=24)
    only(look(NAME, draft, "--tp", "4"), "error", "6 key-value heads", "4 ranks")
    only(look(NAME, draft, "--tp", "3"), "ok")
    only(look(NAME, draft, "--tp", "12"), "ok")
    mla = {"architectures": ["Eagle3DeepseekV2ForCausalLM"], "num_key_value_heads": 6, "num_attention_heads": 24}
    only(look(NAME, damage(tmp_path / "mla", **mla), "--tp", "4"), "ok", "MLA")
