"""What the doctor says of 21 releases, against their own sources: setters are run, marks of features are looked for."""

from __future__ import annotations

import functools
import re
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest
from upstream import cut, download, find_method, given, installed

from draftwire.capture_rules import LAST_LAYER, SETTERS, apply_rule, default_boundaries, rule_of, visits_last
from draftwire.release import RELEASES, SINCE, has, is_known

LAYERS = 36
# Wrappers hand the list on; their rule is that of the class within.
WITHIN = {
    "KimiK25ForConditionalGeneration": "DeepseekV3ForCausalLM",
    "Gemma3ForConditionalGeneration": "Gemma3ForCausalLM",
    "Llama4ForConditionalGeneration": "Llama4ForCausalLM",
}
# Feature -> (file under srt, text that the file holds once a release has it).
MARKS = {
    "rope_parameters": ("models/llama.py", "rope_parameters"),
    "plugins": ("plugins/__init__.py", "SGLANG_PLUGINS"),
    "mla_draft": ("models/kimi_k25_eagle3.py", "class Eagle3DeepseekV2ForCausalLM"),
    "any_count": ("models/llama_eagle3.py", "self.hidden_size_in * self.num_aux_hidden_states"),
    "any_layers": ("models/llama_eagle3.py", "for i in range(config.num_hidden_layers)"),
    "fc_norm": ("models/llama_eagle3.py", "self.fc_norm"),
    "norm_output": ("models/llama_eagle3.py", "norm_output"),
    "window_flag": ("models/llama_eagle3.py", "speculative_draft_window_size"),
    "mla_norms": ("models/kimi_k25_eagle3.py", "self.fc_norm"),
    "count_checked": ("models/deepseek_v2.py", "AuxHiddenStatePacker"),
    "norm_before_fc": ("models/llama_eagle3.py", "norm_before_fc"),
    "yarn_mscale": ("layers/rotary_embedding/yarn.py", "mscale_all_dim"),
    "draft_width_sent": ("managers/scheduler.py", "get_draft_recurrent_hidden_state_spec"),
    "layer_captures": ("models/deepseek_v2.py", "captured_last_layer_outputs: Optional"),
}


def cases():
    here = version("sglang").split("+")[0]
    return [r if r == here else pytest.param(r, marks=pytest.mark.slow) for r in RELEASES]


@functools.cache
def tree(release: str) -> Path:
    return installed() if version("sglang") == release else given(release) or download(release)


@functools.cache
def classes(release: str) -> dict[str, tuple[str, list[str]]]:
    """Class -> (its module, its bases) of everything under models/, by the text of its first line."""
    found = {}
    for file in sorted((tree(release) / "srt" / "models").glob("*.py")):
        for name, bases in re.findall(r"^class (\w+)\(([^)]*)\):", file.read_text(encoding="utf-8-sig"), re.M):
            names = [base.strip().split(".")[-1] for base in bases.split(",") if base.strip()]
            found[name] = (f"sglang.srt.models.{file.stem}", names)
    return found


def find_setter(release: str, name: str):
    """The class that defines the setter for `name`, and its module; None where there is none."""
    module, bases = classes(release).get(name, ("", []))
    if not module:
        return None
    file = tree(release) / "srt" / "models" / f"{module.rpartition('.')[2]}.py"
    if "set_eagle3_layers_to_capture" in file.read_text(encoding="utf-8-sig") and find_method(
        tree(release), module, name, "set_eagle3_layers_to_capture"
    ):
        return module, name
    return next((found for base in bases if base != name and (found := find_setter(release, base))), None)


def run_setter(release: str, name: str, ids: list[int] | None) -> list[int] | None:
    """What the release's own setter stores, on a model that holds no weights."""
    found = find_setter(release, name)
    assert found, (release, name)
    last = SimpleNamespace(is_last_rank=True)
    stored: list = []
    inner = SimpleNamespace(
        layers_to_capture=None, layers=[SimpleNamespace() for _ in range(LAYERS)],
        set_eagle3_layers_to_capture=lambda given: stored.append(given),
    )  # fmt: skip
    config = SimpleNamespace(num_hidden_layers=LAYERS, text_config=SimpleNamespace(num_hidden_layers=LAYERS))
    target = SimpleNamespace(pp_group=last, config=config, model=inner, language_model=inner)
    setter = cut(
        tree(release), found[0], found[1], "set_eagle3_layers_to_capture", get_pp_group=lambda: last,
        get_parallel=lambda: SimpleNamespace(pp_group=last),
    )  # fmt: skip
    setter(target, ids)
    return stored[0] if stored else inner.layers_to_capture


@pytest.mark.parametrize("release", cases())
def test_setters(release: str) -> None:
    for name in SETTERS:
        rule = rule_of(name, release)
        if rule is None:
            assert find_setter(release, name) is None, (release, name)
            continue
        for ids in ([0, 3, 6], [1, 17, 32], [2, 18, 33], [-1, 2, 30], [24, 30, 36]):
            expected = ids if name in WITHIN else apply_rule(rule, ids, LAYERS)
            assert run_setter(release, name, ids) == expected, (release, name, ids)
        if name not in WITHIN:
            assert run_setter(release, name, None) == default_boundaries(name, LAYERS), (release, name)
        else:
            assert rule == rule_of(WITHIN[name], release)


@pytest.mark.parametrize("release", cases())
def test_no_target_is_left_out(release: str) -> None:
    """Every class that a release registers and that has a setter is in the table, but for drafts and encoders."""
    drafts = ("NextN", "MTP", "Eagle", "Eagle3", "AssistantForCausalLM", "EmbeddingGemmaModel", "MindSporeForCausalLM")
    registered = set()
    for file in sorted((tree(release) / "srt" / "models").glob("*.py")):
        for entry in re.findall(r"^EntryClass = (\[[^]]*\]|\w+)", file.read_text(encoding="utf-8-sig"), re.M):
            registered |= set(re.findall(r"\w+", re.sub("#.*", "", entry)))
    with_setter = {name for name in registered if find_setter(release, name) and not name.endswith(drafts)}
    assert with_setter == {name for name in SETTERS if rule_of(name, release)}


@pytest.mark.parametrize("release", cases())
@pytest.mark.parametrize("feature", MARKS)
def test_features(release: str, feature: str) -> None:
    name, text = MARKS[feature]
    file = tree(release) / "srt" / name
    assert (file.is_file() and text in file.read_text(encoding="utf-8")) == has(release, feature)


@pytest.mark.parametrize("release", cases())
def test_other_features(release: str) -> None:
    srt = tree(release) / "srt"
    arguments = [srt / "server_args.py", *(srt / "arg_groups").glob("speculative_hook.py")]
    text = "".join(file.read_text(encoding="utf-8") for file in arguments)
    assert ('("flashinfer", "fa3", "triton")' in text) == has(release, "page_tree_triton")
    assert ("Spec v2 currently only supports topk = 1" in text) != has(release, "spec_v2_trees")
    runner = srt / "model_executor" / "cuda_graph_runner.py"
    default_before_graphs = runner.is_file() and "set_eagle3_layers_to_capture()" in runner.read_text()
    assert default_before_graphs != has(release, "ids_before_graphs")
    assert "speculative_num_draft_tokens is adjusted to speculative_num_steps + 1" in text


@pytest.mark.parametrize("release", cases())
@pytest.mark.parametrize("name", ["GptOssForCausalLM", "Gemma3ForCausalLM", "Gemma4ForCausalLM",
                                  "MiniMaxM3SparseForCausalLM", "LlamaForCausalLM", "DeepseekV2ForCausalLM",
                                  "Qwen3ForCausalLM"])  # fmt: skip
def test_the_last_layer(release: str, name: str) -> None:
    if name not in classes(release):
        pytest.skip(f"{release} has no {name}")
    text = (tree(release) / "srt" / "models" / f"{classes(release)[name][0].rpartition('.')[2]}.py").read_text()
    signs = ("self.end_layer in self.layers_to_capture", "num_layers in self.layers_to_capture",
             "if i + 1 in self.layers_to_capture")  # fmt: skip
    assert any(sign in text for sign in signs) == visits_last(name, release)


def test_tables_name_releases() -> None:
    assert set(SINCE.values()) <= set(RELEASES)
    assert {first for rules in SETTERS.values() for first, _ in rules} | set(LAST_LAYER.values()) <= set(RELEASES)
    assert is_known("0.5.23+cu130") and not is_known("0.5.24")
    assert MARKS.keys() <= SINCE.keys()
