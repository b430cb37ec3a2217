"""What the overlay asks of a draft's tensors and config, without an engine. What it computes is compared with
speculators in test_convert_speculators.py."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import upstream
from refused import assert_says, refusal_of

from draftwire.features import read_features
from draftwire.loading import checkpoint_names
from draftwire_overlay.srt.models import llama_eagle3 as overlay

FUSED = [
    "model.embed_tokens.weight", "model.fc.weight", "model.layers.0.self_attn.qkv_proj.weight",
    "model.layers.0.self_attn.o_proj.weight", "model.layers.0.mlp.gate_up_proj.weight",
    "model.layers.0.mlp.down_proj.weight", "model.layers.0.input_layernorm.weight",
    "model.layers.0.hidden_norm.weight", "model.layers.1.input_layernorm.weight",
    "model.layers.1.hidden_norm.weight", "model.norm.weight", "lm_head.weight",
]  # fmt: skip


class Norm:
    """Stands for a tensor: load_weights sees its number of dimensions."""

    def __init__(self, ndim: int = 1):
        self.ndim = ndim

    def reshape(self, size: int) -> Norm:
        assert size == -1
        return Norm(1)


def model(**config):
    fields = {"tie_word_embeddings": False, "draft_vocab_size": 640, "vocab_size": 1024, "hidden_size": 192,
              "num_hidden_layers": 2, "eagle_config": {}, **config}  # fmt: skip
    return SimpleNamespace(
        config=SimpleNamespace(**fields), quant_config=None, load_lm_head_from_target=False,
        named_parameters=lambda: [(name, None) for name in FUSED],
    )  # fmt: skip


def names(*without: str) -> list[str]:
    unused = "layers.1.input_layernorm.weight"
    return [*sorted(checkpoint_names(FUSED) - {unused} - set(without)), "d2t", "t2d"]


def load(draft, given) -> list[tuple]:
    seen: list[tuple] = []
    overlay.load_checked(lambda self, weights: seen.extend(weights), draft, [(n, Norm()) for n in given])
    return seen


def test_all_tensors_pass_in_any_trainers_spelling() -> None:
    spelled = [n.replace("layers.0.", "midlayer.") for n in names()]
    assert [name for name, _ in load(model(), spelled)] == spelled


def test_the_targets_embedding_may_be_missing() -> None:
    load(model(), names("embed_tokens.weight"))
    load(model(target_hidden_size=192), names("embed_tokens.weight"))
    line = refusal_of(load, model(target_hidden_size=256), names("embed_tokens.weight"))
    assert_says(line, "'embed_tokens.weight'")
    assert_says(refusal_of(load, model(eagle_config={"requires": ["own_embedding"]}), names("embed_tokens.weight")))


@pytest.mark.parametrize("name", sorted(set(names()) - {"embed_tokens.weight", "t2d"}))
def test_each_other_tensor_is_needed(name: str) -> None:
    assert_says(refusal_of(load, model(), [n for n in names() if n != name]), repr(name))


@pytest.mark.parametrize("name", ["input_norm.weight", "layers.0.self_attn.q_norm.weight", "layers.2.norm.weight",
                                  "layers.1.input_layernorm.weight", "fc.bias"])  # fmt: skip
def test_a_tensor_without_a_place_is_refused(name: str) -> None:
    assert_says(refusal_of(load, model(), [*names(), name]), repr(name))


def test_the_head_of_the_target() -> None:
    draft = model(draft_vocab_size=1024)
    draft.load_lm_head_from_target = True
    load(draft, [n for n in names("lm_head.weight") if n != "d2t"])


def test_a_later_update_may_bring_a_part() -> None:
    draft = model()
    load(draft, names())
    load(draft, ["norm.weight"])
    assert_says(refusal_of(load, draft, ["extra.weight"]), "'extra.weight'")


def test_a_quantised_draft_is_compared_by_module() -> None:
    """Scales and zero points have names of their own: what belongs to a known module passes."""
    draft = model()
    draft.quant_config = object()
    load(draft, [*names(), "layers.0.self_attn.q_proj.weight_scale"])
    assert_says(refusal_of(load, draft, [*names(), "layers.0.self_attn.rotary.inv_freq"]), "rotary")


def test_only_a_marked_draft_is_unfolded() -> None:
    marked = [("layers.0.hidden_norm.weight", Norm(2))]
    rest = [(n, Norm()) for n in names("layers.0.hidden_norm.weight")]
    for requires, ndim in ((["norm_before_residual"], 1), ([], 2)):
        seen: dict = {}
        draft = model(eagle_config={"requires": requires})
        overlay.load_checked(lambda self, weights, seen=seen: seen.update(weights), draft, [*marked, *rest])
        assert seen["layers.0.hidden_norm.weight"].ndim == ndim


@pytest.mark.parametrize(
    "config",
    [
        {"eagle_config": {"requires": ["telepathy"]}},
        {"eagle_config": {"requires": 5}},
        {"eagle_config": {"norm_before_residual": "false"}},
        {"eagle_config": ["norm_before_residual"]},
        {"norm_before_fc": 1},
        {"layer_types": ["sliding_attention"], "sliding_window": 64},
        {"layer_types": ["sliding_attention"] * 2, "sliding_window": None},
    ],
)
def test_a_config_that_is_not_understood(config: dict) -> None:
    with pytest.raises(ValueError, match=r"expected .+; found "):
        read_features(model(**config).config)
    assert_says(refusal_of(overlay.features, model(**config).config))


def test_a_window_flag_that_contradicts_the_config() -> None:
    layers = [SimpleNamespace(self_attn=SimpleNamespace(attn=SimpleNamespace())) for _ in range(2)]
    draft = SimpleNamespace(_draft_window_size=2048, model=SimpleNamespace(layers=layers))
    assert_says(refusal_of(overlay._add_windows, draft, (2048, None)), "window-size 2047", "2048")
    draft._draft_window_size = 2047
    overlay._add_windows(draft, (2048, None))
    assert [layer.self_attn.attn.sliding_window_size for layer in layers] == [2047, -1]


@pytest.mark.parametrize("release", ["0.5.14", "0.5.16", "0.5.17", "0.5.20", "0.5.21", "0.5.22", "0.5.23"])
def test_each_release_has_what_is_wrapped(release: str) -> None:
    """The functions, their parameters and the attributes that the overlay reads are there in every release."""
    import ast

    tree = upstream.given(release) or (upstream.installed() if release == "0.5.23" else upstream.download(release))
    module = "sglang.srt.models.llama_eagle3"
    forward = upstream.find_method(tree, module, "LlamaDecoderLayer", "forward")
    assert [a.arg for a in forward.args.args] == [
        "self", "positions", "embeds", "hidden_states", "forward_batch", "residual"
    ]  # fmt: skip
    init = upstream.find_method(tree, module, "LlamaDecoderLayer", "__init__")
    assert [a.arg for a in init.args.args][:3] == ["self", "config", "layer_id"]
    source = ast.unparse(upstream.parse(tree, module))
    assert "self._draft_window_size" in source
    assert "self.load_lm_head_from_target" in source
    assert "norm_before_residual" not in source
    # Where there is a norm before fc it is input_norm: the overlay then adds none.
    assert ("self.input_norm" in source) == (tuple(map(int, release.split("."))) >= (0, 5, 17))
