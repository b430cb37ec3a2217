from pathlib import Path

import pytest
import small_drafts as small
from cases import damage, look, only, read_config, write

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


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"model_type": None}, "without a model_type"),
        ({"model_type": 3}, "without a model_type"),
        ({"draft_vocab_size": None}, "ends without it"),
        ({"num_hidden_layers": None}, "how many layers"),
        ({"num_hidden_layers": 0}, "num_hidden_layers 0"),
        ({"num_hidden_layers": "1"}, "num_hidden_layers '1'"),
        ({"hidden_act": "gelu"}, "silu only"),
    ],
)
def test_keys_that_the_class_reads(tmp_path: Path, keys: dict, words: str) -> None:
    only(look(NAME, damage(tmp_path / "draft", **keys)), "error", words)


def test_what_transformers_makes_of_them(tmp_path: Path) -> None:
    """The same keys in Hugging Face's own loader, through which SGLang reads a draft."""
    from transformers import AutoConfig

    def load(**keys: object):
        return AutoConfig.from_pretrained(damage(tmp_path / str(len(list(tmp_path.iterdir()))), **keys))

    for kind in (None, "eagle3"):
        with pytest.raises(ValueError, match="model"):
            load(model_type=kind)
    assert not hasattr(load(draft_vocab_size=None), "draft_vocab_size")
    assert load(num_hidden_layers=None).num_hidden_layers == 32


def test_keys_that_may_be_missing(tmp_path: Path) -> None:
    only(look(NAME, write(tmp_path / "null", read_config() | {"draft_vocab_size": None})), "ok")
    only(look(NAME, damage(tmp_path / "act", hidden_act=None)), "ok")
    mla = {"architectures": ["Eagle3DeepseekV2ForCausalLM"], "model_type": "kimi_k2"}
    only(look(NAME, damage(tmp_path / "mla", **mla, draft_vocab_size=None)), "ok")
    found = only(look(NAME, damage(tmp_path / "no type", **(mla | {"model_type": None}))), "error", "deepseek_v3")
    assert "llama" not in found.remedy


def test_an_unfamiliar_type(tmp_path: Path) -> None:
    only(look(NAME, damage(tmp_path / "draft", model_type="eagle3")), "warning", "'eagle3'", "Write llama")
    mla = {"architectures": ["Eagle3DeepseekV2ForCausalLM"], "model_type": "eagle3"}
    only(look(NAME, damage(tmp_path / "mla", **mla)), "warning", "Write deepseek_v3")


def test_llama_4(tmp_path: Path) -> None:
    only(look(NAME, damage(tmp_path / "draft", model_type="llama4_text", intermediate_size_mlp=512)), "ok")


def test_a_width_of_null(tmp_path: Path) -> None:
    """The key is there, so that the Llama class takes its value; the MLA class looks at the value."""
    from transformers import AutoConfig

    null = {"target_hidden_size": None}
    draft = write(tmp_path / "draft", read_config() | null)
    with pytest.raises(TypeError):
        AutoConfig.from_pretrained(draft).target_hidden_size * 3
    only(look(NAME, draft), "error", "target_hidden_size null", "ends where it is null")
    mla = {"architectures": ["Eagle3DeepseekV2ForCausalLM"], "model_type": "deepseek_v3"}
    only(look(NAME, write(tmp_path / "mla", read_config() | null | mla)), "ok")
