from pathlib import Path

import small_drafts as small
from cases import damage, look, only

NAME = "draft_class_served"


def test_healthy() -> None:
    only(look(NAME), "ok", "LlamaForCausalLMEagle3")


def test_a_class_of_another_name(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", architectures=["LlamaForCausalLM"])
    only(look(NAME, draft), "error", "LlamaForCausalLMEagle3")


def test_speculators_form(tmp_path: Path) -> None:
    draft = small.write(tmp_path / "draft", small.speculators_config(), small.tensors())
    only(look(NAME, draft), "error", "nested", "draftwire convert")


def test_mla_by_release(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", architectures=["Eagle3DeepseekV2ForCausalLM"])
    only(look(NAME, draft, release="0.5.12"), "ok")
    only(look(NAME, draft, release="0.5.11"), "error", "no MLA draft", "0.5.12")


def test_layers_by_release(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", num_hidden_layers=2)
    only(look(NAME, draft, release="0.5.12"), "ok")
    only(look(NAME, draft, release="0.5.11"), "error", "has one layer")
    draft = damage(tmp_path / "mla", num_hidden_layers=2, architectures=["Eagle3DeepseekV2ForCausalLM"])
    only(look(NAME, draft), "error", "MLA draft has one layer")
