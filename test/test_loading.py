"""Which spelling of a tensor's name each draft class takes: upstream's own load_weights is the oracle."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
import torch
import upstream
from refused import assert_says, refusal_of

from draftwire.loading import Ledger, checkpoint_names, place
from draftwire_overlay.srt.models import kimi_k25_eagle3, llama_eagle3

PARTS = ("self_attn.o_proj", "mlp.gate_up_proj", "mlp.down_proj", "input_layernorm", "hidden_norm")
OUTER = ("model.embed_tokens", "model.fc", "model.norm", "model.input_norm", "model.fc_norm.0", "lm_head")
CLASSES = {
    "llama": ("llama_eagle3", "LlamaForCausalLMEagle3", "model.layers.0", ("self_attn.qkv_proj",)),
    "mla": ("kimi_k25_eagle3", "Eagle3DeepseekV2ForCausalLM", "model.midlayer",
            ("self_attn.fused_qkv_a_proj_with_mqa", "self_attn.q_a_layernorm", "self_attn.kv_b_proj")),
}  # fmt: skip
SPELLINGS = ("{}", "model.{}", "model.model.{}")
BOTH = pytest.mark.parametrize("kind", CLASSES)


def parameters(kind: str) -> list[str]:
    _, _, layer, more = CLASSES[kind]
    return [f"{name}.weight" for name in (*OUTER, *(f"{layer}.{part}" for part in (*PARTS, *more)))]


def spellings(kind: str) -> list[str]:
    """Every tensor of a draft in every spelling that a trainer is known to write, and some that none does."""
    plain = sorted(checkpoint_names(parameters(kind)))
    plain += [name.replace("layers.0.", "midlayer.") for name in plain if "layers.0." in name]
    plain += ["aux_norm_low.weight", "d2t", "odd.weight"]
    return [spelling.format(name) for name in plain for spelling in SPELLINGS]


class Parameter:
    """Stands for one of a model: it knows whether something was loaded into it."""

    def __init__(self) -> None:
        self.loaded = False

    def weight_loader(self, *given: object) -> None:
        self.loaded = True


def takes(release: str, kind: str, name: str) -> bool:
    """Whether that release's own load_weights does anything with a tensor of this name."""
    file, owner, _, _ = CLASSES[kind]
    tree = upstream.given(release) or upstream.installed()
    load = upstream.cut(tree, f"sglang.srt.models.{file}", owner, "load_weights", torch=torch, re=re)
    model = {parameter: Parameter() for parameter in parameters(kind)}
    draft = SimpleNamespace(named_parameters=model.items, hot_token_id=None, post_load_weights=lambda: None)
    pair = {"q_a_proj": "kv_a_proj_with_mqa", "kv_a_proj_with_mqa": "q_a_proj"}
    other = next((name.replace(one, two) for one, two in pair.items() if one in name), None)
    load(draft, [(n, torch.zeros(2, 2)) for n in (name, other) if n])
    return draft.hot_token_id is not None or any(parameter.loaded for parameter in model.values())


@BOTH
@pytest.mark.parametrize("release", ["0.5.12", "0.5.14", "0.5.23"])
def test_upstream_takes_what_is_placed(kind: str, release: str) -> None:
    known = checkpoint_names(parameters(kind)) | {"d2t"}
    names = spellings(kind)
    found = {name for name in names if place(name, mla=kind == "mla") in known}
    # Upstream looks for the map's name anywhere in a name; no trainer writes this one.
    assert found | {"model.model.d2t"} == {name for name in names if takes(release, kind, name)}
    assert 0 < len(found) < len(names)


def load(kind: str, names: list[str]) -> list[str]:
    """Through the overlay's load_weights of that class."""
    config = SimpleNamespace(tie_word_embeddings=False, draft_vocab_size=4, vocab_size=16, hidden_size=8,
                             num_hidden_layers=1, eagle_config={})  # fmt: skip
    model = SimpleNamespace(
        config=config, quant_config=None, named_parameters=lambda: [(n, None) for n in parameters(kind)]
    )
    owner = {"llama": llama_eagle3.LlamaForCausalLMEagle3, "mla": kimi_k25_eagle3.Eagle3DeepseekV2ForCausalLM}[kind]
    seen: list[str] = []
    owner.load_weights(
        lambda self, pairs: seen.extend(name for name, _ in pairs), model, [(n, torch.zeros(1)) for n in names]
    )
    return seen


@BOTH
def test_the_overlay_refuses_a_name_that_upstream_drops(kind: str) -> None:
    whole = [*sorted(checkpoint_names(parameters(kind))), "d2t"]
    assert load(kind, whole) == whole
    spelled = [f"model.{name}" for name in whole]
    refused = "'model.lm_head.weight'" if kind == "llama" else "'model.embed_tokens.weight'"
    assert_says(refusal_of(load, kind, spelled), refused, "draftwire convert")
    if kind == "llama":
        spelled[spelled.index("model.lm_head.weight")] = "lm_head.weight"
        assert load(kind, spelled) == spelled


def test_a_dropped_name_is_no_part_of_a_known_module() -> None:
    """Of a quantised draft modules are compared: the head's still has one spelling."""
    ledger = Ledger(set(), {"lm_head.weight"}, "a draft", by_module=True)
    line = refusal_of(lambda: list(ledger.watch([("model.lm_head.qweight", None)], unmark=False)))
    assert_says(line, "'model.lm_head.qweight'")
