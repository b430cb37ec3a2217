"""`patching/draft_wiring.py`, the file a patch adds: a draft's ids are read once, and what cannot be served ends."""

from __future__ import annotations

import importlib.util
import logging
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from draftwire_overlay.srt.speculative import aux_boundaries
from draftwire_overlay.srt.speculative.aux_boundaries import BOUNDARIES, IDS

SOURCE = Path(__file__).parent.parent / "python" / "draftwire" / "patching" / "draft_wiring.py"
LAYERS, HIDDEN = 12, 192


@pytest.fixture
def wiring(monkeypatch):
    """The module as a patched tree imports it, beside the overlay's rule and nothing else of SGLang."""
    for name in ("sglang", "sglang.srt", "sglang.srt.speculative"):
        package = ModuleType(name)
        package.__path__ = []
        monkeypatch.setitem(sys.modules, name, package)
    monkeypatch.setitem(sys.modules, "sglang.srt.speculative.aux_boundaries", aux_boundaries)
    spec = importlib.util.spec_from_file_location("sglang.srt.speculative.draft_wiring", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def flags(**changes) -> SimpleNamespace:
    known = {"speculative_algorithm": "EAGLE3", "pp_size": 1, "enable_two_batch_overlap": False}
    known |= {"enable_attn_tp_input_scattered": False, "speculative_draft_model_path": "draft"}
    return SimpleNamespace(**{**known, "speculative_draft_model_revision": None, **changes})


def loader(draft: dict, target: str = "DeepseekV3ForCausalLM"):
    """A ModelConfig.from_server_args of fakes; `load.draft` is the draft's hf_config, one object for every load."""
    text = SimpleNamespace(num_hidden_layers=LAYERS, hidden_size=HIDDEN, first_k_dense_replace=1)
    hf = SimpleNamespace(**{"hidden_size": HIDDEN // 2, "architectures": ["LlamaForCausalLMEagle3"], **draft})

    def load(server_args, is_draft_model=False, **_):
        config = SimpleNamespace(architectures=[target])
        return SimpleNamespace(
            is_draft_model=is_draft_model,
            model_path="draft" if is_draft_model else "target",
            hf_config=hf if is_draft_model else config,
            hf_text_config=hf if is_draft_model else text,
        )

    load.draft = hf
    return load


def resolved(wiring, draft: dict, rule="index_unless_1", server=None, target="DeepseekV3ForCausalLM", **release):
    load = loader(draft, target)
    wiring.resolves_draft_ids(rule, **release)(load)(server or flags(), is_draft_model=True)
    return load.draft


def refusal(wiring, draft: dict, **options) -> str:
    with pytest.raises(SystemExit) as ended:
        resolved(wiring, draft, **options)
    line = str(ended.value)
    assert "\n" not in line
    assert "expected " in line and "; found " in line
    return line


def nested(*ids: int) -> dict:
    return {"eagle_config": {IDS: list(ids)}}


@pytest.mark.parametrize(
    ("draft", "rule", "boundaries"),
    [
        (nested(-1, 2, 5), "output", [0, 3, 6]),
        (nested(-1, 2, 5), "index_unless_1", [0, 3, 6]),
        (nested(2, 5, 8), "output", [3, 6, 9]),
        (nested(2, 5, 8), "index_unless_1", [2, 5, 8]),
        (nested(1, 4, 7), "index_unless_1", [2, 5, 8]),
        (nested(-1, 2), "output", [0, 3]),
        (nested(-1, 2, 5, 8), "output", [0, 3, 6, 9]),
        ({IDS: [-1, 2, 5]}, "output", [0, 3, 6]),
        ({IDS: [0, 3, 6], "speculators_model_type": "eagle3"}, "output", [0, 3, 6]),
        ({"eagle_config": {IDS: [-1, 4, 7], BOUNDARIES: [1, 4, 7]}}, "output", [1, 4, 7]),
        ({}, "output", [2, 6, 9]),
    ],
)
def test_every_later_reader_sees_boundaries(wiring, draft, rule, boundaries):
    hf = resolved(wiring, draft, rule)
    assert hf.eagle_config[IDS] == boundaries
    assert isinstance(hf.eagle_config[IDS], wiring.CaptureList)
    assert hf.eagle_config["use_aux_hidden_state"] is True
    assert hf.num_aux_hidden_states == len(boundaries)


def test_a_config_that_is_loaded_again_is_not_shifted_again(wiring):
    load = loader(nested(2, 5, 8))
    read = wiring.resolves_draft_ids("output")(load)
    for _ in range(3):
        read(flags(), is_draft_model=True)
        assert load.draft.eagle_config[IDS] == [3, 6, 9]


def test_targets_and_drafts_without_states_are_left_alone(wiring):
    load = loader(nested(-1, 2, 5))
    wiring.resolves_draft_ids("output")(load)(flags())
    assert load.draft.eagle_config == {IDS: [-1, 2, 5]}
    without = {"eagle_config": {"use_aux_hidden_state": False}}
    assert resolved(wiring, without).eagle_config == without["eagle_config"]
    assert "true beside the ids" in refusal(wiring, {"eagle_config": {"use_aux_hidden_state": False, IDS: [0, 3]}})
    assert resolved(wiring, nested(5, 2), server=flags(speculative_algorithm=None)).eagle_config == {IDS: [5, 2]}


def test_another_familys_target_keeps_its_own_rule(wiring):
    assert resolved(wiring, nested(2, 5, 8), target="LlamaForCausalLM").eagle_config == {IDS: [2, 5, 8]}
    for draft in (nested(-1, 2, 5), {IDS: [2, 5, 8]}, {"eagle_config": {BOUNDARIES: [0, 3]}}):
        assert "LlamaForCausalLM" in refusal(wiring, draft, target="LlamaForCausalLM")


@pytest.mark.parametrize("ids", [[-2, 2, 5], [5, 2, -1], [2, 2, 5], [-1, 2, 12], ["a"]])
def test_ids_that_cannot_be_captured_are_refused(wiring, ids):
    assert "draft/config.json" in refusal(wiring, {"eagle_config": {IDS: ids}}, rule="output")


def test_the_last_layers_output_is_refused(wiring):
    assert "boundaries below 12" in refusal(wiring, nested(-1, 11), rule="output")


def test_top_level_ids_of_an_unknown_trainer_are_refused(wiring):
    assert "speculators_model_type" in refusal(wiring, {IDS: [2, 5, 8]})


@pytest.mark.parametrize(
    ("change", "release", "said"),
    [
        ({"pp_size": 2}, {}, "--pp-size 2"),
        ({"enable_two_batch_overlap": True}, {}, "--enable-two-batch-overlap"),
        ({"enable_attn_tp_input_scattered": True}, {"embedding_ahead_of_loop": True}, "input-scattered"),
        ({"speculative_algorithm": "EAGLE"}, {}, "EAGLE3 for the draft"),
        ({"speculative_algorithm": "NEXTN"}, {}, "EAGLE3 for the draft"),
    ],
)
def test_flags_under_which_a_boundary_is_lost_are_refused(wiring, change, release, said):
    assert said in refusal(wiring, nested(-1, 2, 5), server=flags(**change), **release)


def test_flags_that_lose_nothing_are_taken(wiring):
    scattered = flags(enable_attn_tp_input_scattered=True)
    assert resolved(wiring, nested(-1, 2, 5), server=scattered).num_aux_hidden_states == 3
    plain = resolved(wiring, nested(2, 5, 8), server=scattered, embedding_ahead_of_loop=True)
    assert plain.num_aux_hidden_states == 3
    assert resolved(wiring, nested(-1), server=flags(enable_two_batch_overlap=True), rule="output")


@pytest.mark.parametrize("ids", [[-1, 2], [-1, 2, 5, 8]])
def test_a_release_for_three_states_refuses_others(wiring, ids):
    assert "3 states" in refusal(wiring, nested(*ids), rule="output", states=3)


def test_counts_and_widths_that_contradict_are_refused(wiring):
    assert "num_aux_hidden_states 3" in refusal(wiring, nested(-1, 2, 5) | {"num_aux_hidden_states": 4})
    assert "fc would be skipped" in refusal(wiring, nested(-1, 2, 5) | {"hidden_size": 3 * HIDDEN})


def test_a_refusal_passes_upstreams_except_exception():
    assert not issubclass(SystemExit, Exception)


def test_the_launching_process_says_the_wiring(wiring, monkeypatch, caplog):
    module = ModuleType("sglang.srt.configs.model_config")
    load = loader(nested(-1, 2, 5))
    read = wiring.resolves_draft_ids("output")(load)
    module.ModelConfig = SimpleNamespace(
        from_server_args=lambda args, model_path, model_revision, is_draft_model: read(
            args, is_draft_model=is_draft_model
        )
    )
    monkeypatch.setitem(sys.modules, "sglang.srt.configs", ModuleType("sglang.srt.configs"))
    monkeypatch.setitem(sys.modules, "sglang.srt.configs.model_config", module)
    with caplog.at_level(logging.INFO):
        check = wiring.requires_wirable_draft(lambda server_args: "checked")
        assert check(flags()) == check(flags(speculative_draft_model_path=None)) == "checked"
    assert [line for line in caplog.messages if "boundaries [0, 3, 6] of 12" in line and "-1 read as" in line]
    assert len(caplog.messages) == 1


def test_norm_before_residual_is_read_from_either_place(wiring):
    for draft in ({"norm_before_residual": True}, {"eagle_config": {"norm_before_residual": True}}):
        assert resolved(wiring, draft).norm_before_residual is True
    assert not getattr(resolved(wiring, nested(-1, 2, 5)), "norm_before_residual", False)
    assert resolved(wiring, {"norm_before_residual": True}, target="LlamaForCausalLM").norm_before_residual is True
    mla = {"norm_before_residual": True, "architectures": ["Eagle3DeepseekV2ForCausalLM"]}
    assert "Eagle3DeepseekV2ForCausalLM" in refusal(wiring, mla)


@pytest.mark.parametrize("name", ["qk_norm", "sliding_window", "own_embedding", "norm_before_fc", "a_new_one"])
def test_what_a_converted_draft_requires_beyond_the_patch_is_refused(wiring, name):
    draft = {"eagle_config": {"requires": ["norm_before_residual", name], IDS: [-1, 2, 5]}}
    assert f"requires {name}" in refusal(wiring, draft)
    draft["eagle_config"]["requires"].pop()
    assert resolved(wiring, draft).num_aux_hidden_states == 3


@pytest.mark.parametrize("value", ["false", "true", 0, 1, []])
def test_a_flag_that_is_neither_true_nor_false_is_refused(wiring, value):
    for draft in ({"norm_before_residual": value}, {"eagle_config": {"norm_before_residual": value}}):
        assert "expected true or false; found" in refusal(wiring, draft)
    for value in (False, None):
        assert not getattr(resolved(wiring, {"norm_before_residual": value}), "norm_before_residual", False)


@pytest.mark.parametrize("requires", [5, "qk_norm", {"qk_norm": True}, [["qk_norm"]], [5], [None]])
def test_what_is_no_list_of_known_names_is_refused(wiring, requires):
    assert "requires" in refusal(wiring, {"eagle_config": {"requires": requires}})


@pytest.mark.parametrize("algorithm", ["EAGLE3", "EAGLE"])
@pytest.mark.parametrize("value", ["abc", 5, [1], True], ids=str)
def test_an_eagle_config_that_is_no_table_is_refused(wiring, value, algorithm):
    server = flags(speculative_algorithm=algorithm)
    assert "expected a table" in refusal(wiring, {"eagle_config": value}, server=server)


@pytest.mark.parametrize("target", ["DeepseekV3ForCausalLM", "LlamaForCausalLM", "Qwen3MoeForCausalLM"])
@pytest.mark.parametrize("ids", ["abc", 5, ["a"], [[1, 2]], [None, 2], {"a": 1}, [True, 2], [1.5], [-2, 3]], ids=str)
def test_odd_ids_are_refused_whatever_the_target(wiring, ids, target):
    assert "draft/config.json" in refusal(wiring, {"eagle_config": {IDS: ids}}, target=target)
    assert "draft/config.json" in refusal(wiring, {IDS: ids}, target=target)


@pytest.mark.parametrize("algorithm", ["EAGLE", "NEXTN"])
def test_a_draft_with_ids_is_refused_where_no_states_are_captured(wiring, algorithm):
    draft = {"architectures": ["LlamaForCausalLMEagle"]}
    server = flags(speculative_algorithm=algorithm)
    assert resolved(wiring, draft, server=server)
    for ids in (nested(2, 5, 8), {IDS: [2, 5, 8]}):
        assert "EAGLE captures no states" in refusal(wiring, draft | ids, server=server)


@pytest.mark.parametrize("algorithm", ["STANDALONE", "DFLASH", "NGRAM", "standalone", "", None])
def test_drafts_of_other_algorithms_are_not_loaded_at_launch(wiring, monkeypatch, algorithm):
    module = ModuleType("sglang.srt.configs.model_config")
    monkeypatch.setitem(sys.modules, "sglang.srt.configs", ModuleType("sglang.srt.configs"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    module.ModelConfig = SimpleNamespace(from_server_args=lambda *_, **__: pytest.fail("the draft was loaded"))
    check = wiring.requires_wirable_draft(lambda server_args: server_args.speculative_algorithm)
    assert check(flags(speculative_algorithm=algorithm)) == algorithm
    assert resolved(wiring, nested(5, 2), server=flags(speculative_algorithm=algorithm)).eagle_config == {IDS: [5, 2]}


def test_a_refused_draft_ends_the_launch_ahead_of_upstreams_checks(wiring, monkeypatch):
    module = ModuleType("sglang.srt.configs.model_config")
    monkeypatch.setitem(sys.modules, "sglang.srt.configs", ModuleType("sglang.srt.configs"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    read = wiring.resolves_draft_ids("output")(loader(nested(5, 2)))
    module.ModelConfig = SimpleNamespace(from_server_args=lambda args, **_: read(args, is_draft_model=True))
    check = wiring.requires_wirable_draft(lambda server_args: pytest.fail("upstream's checks ran"))
    with pytest.raises(SystemExit, match="ascending"):
        check(flags())
