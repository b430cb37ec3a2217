"""`configs/model_config.py`: on upstream's real ModelConfig, every reader of layer ids sees the same list."""

from __future__ import annotations

import ast
import copy
import json
import logging
import pickle
from pathlib import Path
from types import SimpleNamespace

import engine_free
import pytest
import upstream
from engine_free import EXAMPLE, HIDDEN, LAYERS, published, server_args, write_config, write_draft, write_kimi
from refused import assert_says, refusal_of

from draftwire_overlay.srt.configs.model_config import DEEPSEEK_FAMILY, CaptureList
from draftwire_overlay.srt.speculative.aux_boundaries import BOUNDARIES, IDS


@pytest.fixture(scope="module", autouse=True)
def overlay():
    with engine_free.joined("ModelConfig"):
        yield


def draft_config(args):
    """What every process of the engine asks upstream for."""
    from sglang.srt.configs.model_config import ModelConfig

    return ModelConfig.from_server_args(args, model_path=args.speculative_draft_model_path, is_draft_model=True)


def read_by_everyone(args, draft) -> dict[str, object]:
    """Every upstream reader of a draft's ids, called on the config: the list, or how many states it expects."""
    from sglang.srt.configs.model_config import ModelConfig
    from sglang.srt.model_executor.model_runner_components import spec_aux_hidden_state
    from sglang.srt.models.kimi_k25_eagle3 import _get_eagle_aux_layer_count
    from sglang.srt.speculative import eagle_utils
    from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

    eagle3 = SpeculativeAlgorithm.EAGLE3
    with published(args):
        capture = spec_aux_hidden_state.resolve_spec_aux_hidden_state_config(
            server_args=args,
            model_config=ModelConfig.from_server_args(args),
            spec_algorithm=eagle3,
            is_draft_worker=False,
        )
    runner = SimpleNamespace(model_config=draft, spec_algorithm=eagle3)
    return {
        "use_aux": capture.eagle_use_aux_hidden_state,
        "captured": capture.eagle_aux_hidden_state_layer_ids,
        "width": eagle_utils.get_draft_input_from_target_hidden_dim(runner),
        "llama": fc_fan_in(upstream.installed(), draft.hf_config),
        "mla": _get_eagle_aux_layer_count(draft.hf_config),
    }


def fc_fan_in(tree: Path, config) -> int:
    """`fc`'s fan-in that a release's Llama draft builds: its constructor, cut out, on fakes for the layers."""
    built = SimpleNamespace(fc=None)

    def linear(fan_in, fan_out, **rest):
        return (fan_in, fan_out)

    build = upstream.cut(
        tree,
        "sglang.srt.models.llama_eagle3",
        "LlamaModel",
        "__init__",
        torch=SimpleNamespace(nn=SimpleNamespace(Linear=linear)),
        super=lambda: upstream.Nothing(),
    )
    build(built, config)
    return built.fc[0]


def assert_all_see(args, boundaries: list[int]) -> None:
    draft = draft_config(args)
    ids = draft.hf_config.eagle_config[IDS]
    assert isinstance(ids, CaptureList)
    assert ids == list(ids.wiring.boundaries) == boundaries
    assert ids.hidden_size == HIDDEN
    assert draft.hf_config.eagle_config["use_aux_hidden_state"] is True
    assert draft.hf_config.num_aux_hidden_states == len(boundaries)
    count = len(boundaries)
    seen = read_by_everyone(args, draft)
    assert seen["captured"] == boundaries
    assert seen["captured"].wiring == ids.wiring
    assert seen | {"captured": 0} == {
        "use_aux": True,
        "captured": 0,
        "width": count * HIDDEN,
        "llama": count * HIDDEN,
        "mla": count,
    }


def test_the_example_is_wired():
    assert_all_see(server_args(), [0, 3, 6])


FORMS = {
    "nested -1": ({IDS: [-1, 2, 5, 8]}, {}, lambda k: [0, 3, 6, 9][:k]),
    "nested, first id 1": ({IDS: [1, 4, 7, 9]}, {}, lambda k: [2, 5, 8, 10][:k]),
    "nested raw": ({IDS: [2, 5, 8, 9]}, {}, lambda k: [2, 5, 8, 9][:k]),
    "top level -1": (None, {IDS: [-1, 2, 5, 8]}, lambda k: [0, 3, 6, 9][:k]),
    "speculators": (None, {IDS: [1, 4, 7, 9], "speculators_model_type": "eagle3"}, lambda k: [1, 4, 7, 9][:k]),
    "as written": ({IDS: [-1, 2, 5, 8], BOUNDARIES: [1, 4, 7, 9]}, {}, lambda k: [1, 4, 7, 9][:k]),
}


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("form", FORMS)
def test_every_reader_sees_the_same_list(form, count, tmp_path):
    nested, top, boundaries = FORMS[form]

    def cut_to(table):
        return {key: value[:count] if isinstance(value, list) else value for key, value in table.items()}

    draft = write_draft(tmp_path / "draft", cut_to(nested) if nested else None, **cut_to(top))
    assert_all_see(server_args(draft), boundaries(count))


@pytest.mark.slow
@pytest.mark.parametrize("release", upstream.locked())
@pytest.mark.parametrize("form", FORMS)
def test_the_readers_of_every_release_size_the_same(release, form, tmp_path):
    """Width, Llama `fc` and MLA `fc`, each cut out of its release; 0.5.14 takes `use_aux_hidden_state` for False."""
    tree = upstream.given(release) or upstream.download(release)
    nested, top, boundaries = FORMS[form]
    draft = draft_config(server_args(write_draft(tmp_path / "draft", nested, **top)))
    name = "get_draft_hidden_dim" if release == "0.5.14" else "get_draft_input_from_target_hidden_dim"
    width = upstream.cut(tree, "sglang.srt.speculative.eagle_utils", None, name)
    count_mla = upstream.cut(tree, "sglang.srt.models.kimi_k25_eagle3", None, "_get_eagle_aux_layer_count")
    algorithm = SimpleNamespace(is_eagle3=lambda: True)
    assert width(SimpleNamespace(model_config=draft, spec_algorithm=algorithm)) == len(boundaries(4)) * HIDDEN
    assert fc_fan_in(tree, draft.hf_config) == len(boundaries(4)) * HIDDEN
    assert count_mla(draft.hf_config) == len(boundaries(4))


def test_without_the_overlay_the_readers_disagree(tmp_path):
    """The oracle's own check: a top-level list of four is captured as the default of three, and sized as four.

    FROZEN_KV_MTP reads a draft's config the same way and is none of the overlay's algorithms.
    """
    draft = write_draft(tmp_path / "draft", None, **{IDS: [1, 4, 7, 9], "speculators_model_type": "eagle3"})
    stock = server_args(draft, speculative_algorithm=None)
    config = draft_config(stock)
    assert getattr(config.hf_config, "eagle_config", None) is None
    seen = read_by_everyone(server_args(draft, speculative_algorithm="FROZEN_KV_MTP"), config)
    assert seen["captured"] is None
    assert (seen["width"], seen["llama"], seen["mla"]) == (4 * HIDDEN, 3 * HIDDEN, 4)


def test_no_ids_are_the_default_with_a_warning(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "draftwire"):
        assert_all_see(server_args(write_draft(tmp_path / "draft")), [2, 6, 9])
    assert any("no layer ids" in line and "guess" in line for line in caplog.messages)


def test_kimi_is_read_through_its_text_config(tmp_path):
    args = server_args(target=write_kimi(tmp_path / "kimi"))
    ids = draft_config(args).hf_config.eagle_config[IDS]
    assert (ids, ids.hidden_size, ids.wiring.num_layers) == ([0, 3, 6], HIDDEN, LAYERS)


def test_the_family_is_what_shares_the_setter():
    """What upstream registers from the setter's own file, and the wrapper that delegates to it."""
    module = upstream.parse(upstream.installed(), "sglang.srt.models.deepseek_v2")
    registered = [node for node in module.body if ast.unparse(node).startswith("EntryClass = ")]
    names = {element.id for element in registered[0].value.elts}
    assert names | {"KimiK25ForConditionalGeneration"} == DEEPSEEK_FAMILY


@pytest.mark.parametrize("architecture", sorted(DEEPSEEK_FAMILY - {"KimiK25ForConditionalGeneration"}))
def test_each_of_the_family_is_wired(architecture, tmp_path):
    target = write_config(tmp_path / "target", EXAMPLE / "target", architectures=[architecture])
    assert draft_config(server_args(target=target)).hf_config.eagle_config[IDS] == [0, 3, 6]


def test_a_second_reading_finds_the_same(tmp_path):
    """Upstream keeps parsed configs: what is written into one must not be read again as layer ids."""
    args = server_args(write_draft(tmp_path / "draft", None, **{IDS: [1, 4, 7], "speculators_model_type": "eagle3"}))
    for _ in range(3):
        assert draft_config(args).hf_config.eagle_config[IDS] == [1, 4, 7]


def test_the_list_survives_copies_and_processes():
    ids = draft_config(server_args()).hf_config.eagle_config[IDS]
    for other in (copy.copy(ids), copy.deepcopy(ids), pickle.loads(pickle.dumps(ids))):
        assert isinstance(other, CaptureList)
        assert (other, other.wiring, other.hidden_size) == (ids, ids.wiring, ids.hidden_size)
    assert json.loads(json.dumps(ids)) == [0, 3, 6]


def test_what_else_the_config_holds_is_kept(tmp_path):
    nested = {IDS: [-1, 2, 5], "norm_before_fc": True}
    assert draft_config(server_args(write_draft(tmp_path / "a", nested))).hf_config.eagle_config["norm_before_fc"]
    counted = draft_config(server_args(write_draft(tmp_path / "b", nested, num_aux_hidden_states=3)))
    assert counted.hf_config.num_aux_hidden_states == 3


def test_the_target_is_left_as_it_is():
    from sglang.srt.configs.model_config import ModelConfig

    target = ModelConfig.from_server_args(server_args())
    assert not target.is_draft_model
    assert not hasattr(target.hf_config, "eagle_config")


def test_a_draft_without_aux_states_is_left_as_it_is(tmp_path):
    nested = {"use_aux_hidden_state": False}
    draft = draft_config(server_args(write_draft(tmp_path / "draft", nested)))
    assert draft.hf_config.eagle_config == nested


@pytest.mark.parametrize(
    ("config", "parts"),
    [
        ({"use_aux_hidden_state": False, IDS: [-1, 2, 5]}, ["true beside the ids [-1, 2, 5]", "False"]),
        ({"use_aux_hidden_state": False, BOUNDARIES: [0, 3, 6]}, ["true beside the ids [0, 3, 6]", "False"]),
        ({"use_aux_hidden_state": 0}, ["true or false", "0"]),
        ({"use_aux_hidden_state": "false", IDS: [-1, 2, 5]}, ["true or false", "'false'"]),
        ([], ["a table", "[]"]),
        (False, ["a table", "False"]),
    ],
)
def test_keys_that_contradict_the_ids_are_refused(tmp_path, config, parts):
    draft = write_draft(tmp_path / "draft", None, eagle_config=config)
    assert_says(refusal_of(draft_config, server_args(draft)), *parts, str(draft))


def test_boundaries_outside_of_eagle_config_are_refused(tmp_path):
    draft = write_draft(tmp_path / "draft", {IDS: [-1, 2, 5]}, aux_boundaries=[1, 2, 3])
    assert_says(refusal_of(draft_config, server_args(draft)), "aux_boundaries in eagle_config", "top level", "move it")


def test_another_algorithm_is_left_as_it_is():
    args = server_args(speculative_algorithm="STANDALONE")
    assert draft_config(args).hf_config.eagle_config[IDS] == [-1, 2, 5]


@pytest.mark.parametrize("algorithm", ["EAGLE", "NEXTN"])
def test_an_eagle3_draft_served_as_eagle_is_refused(algorithm):
    line = refusal_of(draft_config, server_args(speculative_algorithm=algorithm))
    assert_says(line, "EAGLE3 for the draft LlamaForCausalLMEagle3", algorithm, "config.json", "fc would be skipped")


def test_an_eagle_draft_served_as_eagle_is_left_alone(tmp_path):
    draft = write_draft(tmp_path / "draft", None, architectures=["LlamaForCausalLMEagle"])
    assert not hasattr(draft_config(server_args(draft, speculative_algorithm="EAGLE")).hf_config, "eagle_config")


REFUSED = {
    "below -1": ({IDS: [-2, 2, 5]}, {}, {}, ["ids of -1 and above", "[-2, 2, 5]", "nothing lies below"]),
    "descending": ({IDS: [5, 2, -1]}, {}, {}, ["ascending", "[5, 2, -1]", "--fix"]),
    "last layer": ({IDS: [-1, 2, 11]}, {}, {}, ["boundaries below 12", "[0, 3, 12]", "earlier layer"]),
    "out of range": ({IDS: [2, 5, 13]}, {}, {}, ["boundaries of 0 to 12", "[2, 5, 13]", "this target"]),
    "top level, no convention": (None, {IDS: [2, 5, 8]}, {}, ["speculators_model_type", "[2, 5, 8]", BOUNDARIES]),
    "two lists": ({IDS: [2, 5, 8]}, {IDS: [-1, 2, 5]}, {}, ["[2, 5, 8]", "[-1, 2, 5]", "delete the list"]),
    "no table": ([2, 5, 8], {}, {}, ["a table", "[2, 5, 8]", "eagle_config"]),
    "count": (
        {IDS: [-1, 2, 5]},
        {"num_aux_hidden_states": 4},
        {},
        ["num_aux_hidden_states 3", "4", "count or the ids"],
    ),
    "width": ({IDS: [-1, 2, 5]}, {"target_hidden_size": 96}, {}, ["target_hidden_size 192", "96", "trained for"]),
    "one state": ({IDS: [-1]}, {}, {}, ["1 x 192", "hidden_size 192", "skip fc"]),
    "pipeline": ({IDS: [-1, 2, 5]}, {}, {"pp_size": 2}, ["pipeline parallelism of 1", "--pp-size 2", "tensor"]),
    "overlap": (
        {IDS: [-1, 2, 5]},
        {},
        {"enable_two_batch_overlap": True},
        ["boundaries below 1 with --enable-two-batch-overlap", "[0, 3, 6]", "leave the flag out"],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_served_as_written_is_refused(case, tmp_path):
    nested, top, flags, parts = REFUSED[case]
    line = refusal_of(draft_config, server_args(write_draft(tmp_path / "draft", nested, **top), **flags))
    assert_says(line, *parts)
    assert case == "pipeline" or str(tmp_path / "draft") in line or "wiring" in line


def test_one_state_of_another_width_is_wired(tmp_path):
    """K x hidden tells captured states from fed-back ones only where it differs from the draft's own width."""
    draft = write_draft(tmp_path / "draft", {IDS: [-1]}, hidden_size=96, num_attention_heads=4, num_key_value_heads=4)
    assert_all_see(server_args(draft), [0])


def llama_target(tmp_path: Path) -> Path:
    """A target of another family: its own release reads its ids, by another rule."""
    return write_draft(tmp_path / "llama", None, architectures=["LlamaForCausalLM"], num_hidden_layers=12)


def test_another_familys_plain_ids_are_left_alone_with_a_warning(tmp_path, caplog):
    draft = write_draft(tmp_path / "draft", {IDS: [2, 5, 8]})
    with caplog.at_level(logging.WARNING, "draftwire"):
        config = draft_config(server_args(draft, llama_target(tmp_path)))
    assert config.hf_config.eagle_config == {IDS: [2, 5, 8]}
    assert not isinstance(config.hf_config.eagle_config[IDS], CaptureList)
    assert any("[2, 5, 8]" in line and "LlamaForCausalLM" in line for line in caplog.messages)


@pytest.mark.parametrize(
    ("nested", "top"),
    [
        ({IDS: [-1, 2, 5]}, {}),
        ({BOUNDARIES: [0, 3, 6]}, {}),
        (None, {IDS: [2, 5, 8]}),
        (None, {IDS: [-1, 2, 5]}),
        ({IDS: 7}, {}),
        ({IDS: "2,5"}, {}),
    ],
)
def test_another_familys_other_ids_are_refused(nested, top, tmp_path):
    draft = write_draft(tmp_path / "draft", nested, **top)
    line = refusal_of(draft_config, server_args(draft, llama_target(tmp_path)))
    assert_says(line, "nested ids without -1 for a target of LlamaForCausalLM", str(draft), "DRAFTWIRE=off")
