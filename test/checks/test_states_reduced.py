from pathlib import Path

from cases import EXAMPLE, damage, look, only, write_target

DRAFT = EXAMPLE / "draft"

NAME = "states_reduced"


TP = ("--tp-size", "8")


def test_healthy() -> None:
    only(look(NAME), "ok")
    only(look(NAME, release="0.5.13"), "ok", "--tp-size 1")


def test_failing() -> None:
    only(look(NAME, DRAFT, *TP, release="0.5.13"), "warning", "partial sum", "--tp-size 8")
    only(look(NAME, DRAFT, *TP, release="0.5.14", delivery="stock"), "ok")
    only(look(NAME, DRAFT, *TP, release="0.5.13", delivery="patch"), "ok")
    only(look(NAME, DRAFT, *TP, "--enforce-disable-flashinfer-allreduce-fusion", release="0.5.13"), "ok")
    only(look(NAME, DRAFT, *TP, "--enable-dp-attention", release="0.5.13"), "ok")
    only(look(NAME, launch=None, release="0.5.13"), "skipped")


def test_a_scattered_embedding() -> None:
    flag = "--enable-attn-tp-input-scattered"
    only(look(NAME, DRAFT, flag, release="0.5.13", delivery="patch"), "error", "Leave the flag out")
    only(look(NAME, DRAFT, flag, release="0.5.14", delivery="patch"), "ok")
    only(look(NAME, release="0.5.13", delivery="patch"), "ok")
    only(look(NAME, launch=None, release="0.5.13", delivery="patch"), "skipped")


def test_gathered_from_every_rank(tmp_path: Path) -> None:
    flags = (*TP, "--dp-size", "2", "--enable-dp-attention", "--moe-a2a-backend", "deepep")
    for delivery in ("stock", "patch"):
        only(look(NAME, DRAFT, *flags, release="0.5.9", delivery=delivery), "error", "every rank", "deepep", "0.5.10")
    only(look(NAME, DRAFT, *flags, release="0.5.10"), "ok")
    only(look(NAME, DRAFT, *flags[:-2], release="0.5.9"), "ok")
    only(look(NAME, DRAFT, *flags[:-1], "mooncake", release="0.5.9"), "error", "--moe-a2a-backend mooncake")
    only(look(NAME, DRAFT, *flags[:-1], "mori", release="0.5.9"), "ok")
    only(look(NAME, DRAFT, launch=None, release="0.5.9"), "skipped")
    only(look(NAME, DRAFT, *TP, *flags[-2:], release="0.5.9"), "warning", "partial sum")
    other = write_target(tmp_path / "target", architectures=["Qwen3MoeForCausalLM"])
    only(look(NAME, DRAFT, *flags, release="0.5.9", target=other), "ok")
    only(look(NAME, DRAFT, *flags, release="0.5.9", target=None), "skipped")


def test_only_the_embedding_and_only_the_patch_cares_for_scattering(tmp_path: Path) -> None:
    flag = "--enable-attn-tp-input-scattered"
    later = damage(tmp_path / "draft", [2, 5, 8])
    only(look(NAME, later, flag, release="0.5.13", delivery="patch"), "ok")
    only(look(NAME, DRAFT, flag, release="0.5.12", delivery="patch"), "error", "Leave the flag out")
    only(look(NAME, DRAFT, flag, release="0.5.12", delivery="stock"), "ok")
    only(look(NAME, DRAFT, flag, *TP, release="0.5.13", delivery="stock"), "warning", "partial sum")
