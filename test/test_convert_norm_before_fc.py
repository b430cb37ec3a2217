"""The norm before fc where a release has none: upstream's own draft classes, cut out of each release's sources, with
the overlay's hook around them. The oracle is the first release that has the norm itself, and fc_norm over one state."""

from __future__ import annotations
import __future__

import ast
import builtins
import contextlib
import math
import sys
import typing
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import upstream

from draftwire.release import RELEASES, has
from draftwire_overlay.srt.models import kimi_k25_eagle3, llama_eagle3

torch = pytest.importorskip("torch")
SERVED = RELEASES[RELEASES.index("0.5.14") :]
BEFORE = [release for release in SERVED if not has(release, "norm_before_fc")]
HIDDEN, WIDE, STATES, TOKENS = 8, 12, 3, 5


class RMSNorm(torch.nn.Module):
    def __init__(self, width: int, eps: float):
        super().__init__()
        self.weight, self.eps = torch.nn.Parameter(torch.ones(width)), eps

    def forward(self, x, residual=None):
        x = x if residual is None else x + residual
        normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight
        return normed if residual is None else (normed, x)


class Layer(torch.nn.Module):
    """In place of the decoder layer: what fc gave comes out again, beside nothing."""

    def __init__(self, *args, **fields):
        super().__init__()

    def forward(self, positions, embeds, hidden_states, forward_batch, last):
        return hidden_states, torch.zeros_like(hidden_states)


class Linear(torch.nn.Linear):
    """As ColumnParallelLinear: the output and a bias."""

    def __init__(self, width, out, bias=False, **fields):
        super().__init__(width, out, bias=bias)
        self.input_size = width

    def forward(self, x):
        return super().forward(x), None


class Embedding(torch.nn.Embedding):
    def __init__(self, size, width, **fields):
        super().__init__(size, width)


def tree(release: str) -> Path:
    return upstream.given(release) or (upstream.installed() if release == "0.5.23" else upstream.download(release))


def draft_model(release: str, module: str, owner: str, beside: str = ""):
    """A class of a release, everything around it replaced by the above."""
    parsed = upstream.parse(tree(release), f"sglang.srt.models.{module}")
    wanted = [node for node in parsed.body if getattr(node, "name", None) in (owner, beside)]
    names = upstream.Names({name: getattr(typing, name) for name in typing.__all__})
    names |= {
        "torch": torch, "nn": torch.nn, "RMSNorm": RMSNorm, "LlamaDecoderLayer": Layer, "Eagle3MLADecoderLayer": Layer,
        "ColumnParallelLinear": Linear, "VocabParallelEmbedding": Embedding,
        "layer_stack": contextlib.nullcontext, "get_embedding_tp_kwargs": dict, "BumpAllocator": lambda **_: None,
        "__builtins__": builtins, "__name__": "cut",
    }  # fmt: skip
    gatherer = SimpleNamespace(MultimemAllGatherer=lambda **_: lambda x: x, recommended_max_tokens=lambda **_: 1)
    names["triton_symm_mem_ag"] = gatherer
    flags = __future__.annotations.compiler_flag
    exec(compile(ast.Module(wanted, []), f"{release}/{module}", "exec", flags=flags, dont_inherit=True), names)
    return names[owner]


def config(**changes):
    fields = {
        "vocab_size": 16, "hidden_size": HIDDEN, "target_hidden_size": WIDE, "num_hidden_layers": 1,
        "rms_norm_eps": 1e-5, "num_aux_hidden_states": STATES, "norm_before_fc": True, "tie_word_embeddings": False,
        "eagle_config": {"norm_before_fc": True, "eagle_aux_hidden_state_layer_ids": [1] * STATES}, **changes,
    }  # fmt: skip
    return SimpleNamespace(**fields)


def hooked(cls, overlay, settings, monkeypatch: pytest.MonkeyPatch):
    """An instance of `cls` as the overlay's hook builds it."""
    layers = ModuleType("sglang.srt.layers.layernorm")
    layers.RMSNorm = RMSNorm  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, layers.__name__, layers)
    model = cls.__new__(cls)
    overlay.__init__(cls.__init__, model, settings)
    return model


def answer(model, hidden):
    batch = SimpleNamespace(
        mm_input_embeds=None, spec_info=SimpleNamespace(hidden_states=hidden),
        forward_mode=SimpleNamespace(is_extend=lambda: False),
    )  # fmt: skip
    with torch.no_grad():
        tokens = torch.zeros(TOKENS, dtype=torch.long)
        return model(tokens, torch.arange(TOKENS), batch)[0]


def filled(model) -> dict:
    torch.manual_seed(3)
    return {name: torch.randn(tensor.shape) for name, tensor in sorted(model.state_dict().items())}


def captured(states: int = STATES):
    """States of very different sizes, as the layers of a target have them."""
    return torch.cat([torch.randn(TOKENS, WIDE) * 10.0**i for i in range(states)], dim=-1)


def test_four_releases_need_it() -> None:
    assert BEFORE == ["0.5.14", "0.5.15", "0.5.15.post1", "0.5.16"]
    for release in SERVED:
        text = (tree(release) / "srt" / "models" / "llama_eagle3.py").read_text()
        assert ("norm_before_fc" in text) == (release not in BEFORE)
        assert "norm_before_fc" not in (tree(release) / "srt" / "models" / "kimi_k25_eagle3.py").read_text()


@pytest.mark.parametrize("release", SERVED)
def test_it_is_the_norm_of_the_first_release_that_has_it(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    oracle = draft_model("0.5.17", "llama_eagle3", "LlamaModel")(config())
    mine = hooked(draft_model(release, "llama_eagle3", "LlamaModel"), llama_eagle3.LlamaModel, config(), monkeypatch)
    weights = filled(oracle)
    oracle.load_state_dict(weights)
    mine.load_state_dict(weights)
    hidden = captured()
    assert torch.allclose(answer(mine, hidden), answer(oracle, hidden), atol=1e-6)
    fed_back = torch.randn(TOKENS, HIDDEN)
    assert torch.allclose(answer(mine, fed_back), answer(oracle, fed_back), atol=1e-6)
    assert not torch.allclose(answer(mine, fed_back), answer(mine, 2 + fed_back))


@pytest.mark.parametrize("release", BEFORE)
def test_stock_computes_something_else_there(release: str) -> None:
    """Why such an output is marked for these releases: input_norm has no place, and the draft is fed other values."""
    oracle = draft_model("0.5.17", "llama_eagle3", "LlamaModel")(config())
    stock = draft_model(release, "llama_eagle3", "LlamaModel")(config())
    weights = filled(oracle)
    oracle.load_state_dict(weights)
    kept = stock.load_state_dict(weights, strict=False)
    assert kept.unexpected_keys == ["input_norm.weight"]
    assert (answer(stock, captured()) - answer(oracle, captured())).abs().max() > 0.1


@pytest.mark.parametrize("release", SERVED)
def test_in_the_mla_draft_it_is_fc_norm_over_one_state(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cls = draft_model(release, "kimi_k25_eagle3", "Eagle3MLAModel", "_get_eagle_aux_layer_count")
    one = {"eagle_aux_hidden_state_layer_ids": [3]}
    oracle = cls(config(norm_before_fc=False, fc_norm=True, eagle_config=one))
    mine = hooked(cls, kimi_k25_eagle3.Eagle3MLAModel, config(eagle_config=one), monkeypatch)
    weights = filled(oracle)
    oracle.load_state_dict(weights)
    mine.load_state_dict({name.replace("fc_norm.0.", "input_norm."): tensor for name, tensor in weights.items()})
    hidden = captured(1)
    assert torch.allclose(answer(mine, hidden), answer(oracle, hidden), atol=1e-6)
    assert math.isfinite(float(answer(mine, hidden).sum()))


@pytest.mark.parametrize("release", SERVED)
def test_a_marked_draft_stops_each_stock_release(release: str) -> None:
    """hidden_norm as [1, H]: the release's own loader raises, and says the shape."""
    load = upstream.cut(
        tree(release), "sglang.srt.model_loader.weight_utils", None, "default_weight_loader",
        torch=torch, logger=SimpleNamespace(error=lambda *a: None),
    )  # fmt: skip
    kept = torch.nn.Parameter(torch.zeros(HIDDEN))
    load(kept, torch.ones(HIDDEN))
    assert kept.sum() == HIDDEN
    with pytest.raises(AssertionError, match=r"Attempted to load weight \(torch.Size\(\[1, 8\]\)\)"):
        load(kept, torch.ones(1, HIDDEN))
