"""`aux_boundaries`: every meaning of a list of layer ids, every refusal, and SGLang's own setters as the oracle."""

from __future__ import annotations

import ast
import itertools
import pickle
import re
import sys
from types import SimpleNamespace

import pytest
import upstream
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import assert_says

from draftwire_overlay.srt.speculative import aux_boundaries
from draftwire_overlay.srt.speculative.aux_boundaries import (
    BOUNDARIES,
    IDS,
    NESTED,
    RULES,
    Wiring,
    WiringError,
    require_reachable,
    resolve,
    wants_states,
)

UNHURRIED = settings(deadline=None)  # The machine may be busy.
SPECULATORS = {"speculators_model_type": "eagle3"}


def read(config: dict, layers: int = 61, rule: str = "index_unless_1") -> Wiring:
    return resolve(config, num_layers=layers, release_rule=rule, source="draft/config.json")


def config_of(nested=None, top=None, written=None, speculators=False, **more) -> dict:
    """A draft's config that holds what is not None."""
    eagle = {key: value for key, value in ((IDS, nested), (BOUNDARIES, written)) if value is not None}
    found = {"eagle_config": eagle} if eagle else {}
    found |= {IDS: top} if top is not None else {}
    return found | (SPECULATORS if speculators else {}) | more


def upstream_setter(name: str):
    """ids -> what the installed release's own setter makes of them, on a target of `layers` layers."""
    setter = upstream.cut(upstream.installed(), "sglang.srt.models.deepseek_v2", "DeepseekV2ForCausalLM", name)

    def capture(ids, layers: int = 61) -> list[int]:
        model = SimpleNamespace(layers_to_capture=[])
        target = SimpleNamespace(
            pp_group=SimpleNamespace(is_last_rank=True), config=SimpleNamespace(num_hidden_layers=layers), model=model
        )
        setter(target, ids)
        return model.layers_to_capture

    return capture


eagle3_setter = upstream_setter("set_eagle3_layers_to_capture")
dflash_setter = upstream_setter("set_dflash_layers_to_capture")


# What the ids mean.


@pytest.mark.parametrize(
    ("config", "boundaries", "rule", "where"),
    [
        (config_of([-1, 2, 30]), (0, 3, 31), "output", NESTED),
        (config_of(top=[-1, 2, 30]), (0, 3, 31), "output", IDS),
        (config_of(top=[-1, 2, 30], speculators=True), (0, 3, 31), "output", IDS),
        (config_of(top=[0, 3, 31], speculators=True), (0, 3, 31), "index", IDS),
        (config_of(top=[1, 29, 57], speculators=True), (1, 29, 57), "index", IDS),
        (config_of(top=[2, 30, 58], speculators=True), (2, 30, 58), "index", IDS),
        (config_of([2, 30, 58]), (2, 30, 58), "index_unless_1", NESTED),
        (config_of([1, 29, 57]), (2, 30, 58), "index_unless_1", NESTED),
        (config_of([0, 3, 31]), (0, 3, 31), "index_unless_1", NESTED),
        (config_of([2, 30, 58], speculators=True), (2, 30, 58), "index_unless_1", NESTED),
        (config_of([-1, 2, 30], [0, 3, 31], speculators=True), (0, 3, 31), "output", NESTED),
        (config_of([-1, 2, 30], [-1, 2, 30]), (0, 3, 31), "output", NESTED),
        (config_of([2, 30, 58], [2, 30, 58]), (2, 30, 58), "index_unless_1", NESTED),
        (config_of([1, 29, 57], [2, 30, 58], speculators=True), (2, 30, 58), "index_unless_1", NESTED),
        (config_of(), (2, 30, 58), "default", ""),
        (config_of(speculators=True), (2, 30, 58), "default", ""),
        ({"eagle_config": None, IDS: None}, (2, 30, 58), "default", ""),
        ({"eagle_config": {IDS: None}}, (2, 30, 58), "default", ""),
    ],
)
def test_meanings(config, boundaries, rule, where):
    wiring = read(config)
    assert (wiring.boundaries, wiring.rule, wiring.where) == (boundaries, rule, where)
    assert wiring.num_layers == 61


def test_the_founding_case():
    """[2, 30, 58] fed layers 3, 31, 59 by the old rule; [-1, 2, 30] feeds what the draft was trained on by any."""
    assert read(config_of([2, 30, 58]), rule="output").boundaries == (3, 31, 59)
    for rule in RULES:
        assert read(config_of([-1, 2, 30]), rule=rule).boundaries == (0, 3, 31)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_any_number_of_states(count):
    ids = [-1, 2, 5, 20, 58][:count]
    wiring = read(config_of(ids))
    assert wiring.boundaries == (0, 3, 6, 21, 59)[:count]
    assert wiring.ids == tuple(ids)
    assert read(config_of(top=[7, 9, 20, 30, 40][:count], speculators=True)).boundaries == (7, 9, 20, 30, 40)[:count]


@UNHURRIED
@given(st.sets(st.integers(0, 59), min_size=1, max_size=6).map(sorted))
def test_nested_ids_mean_what_the_release_makes_of_them(ids):
    assert list(read(config_of(ids)).boundaries) == eagle3_setter(ids)


@UNHURRIED
@given(st.sets(st.integers(0, 59), max_size=5).map(sorted))
def test_minus_one_means_what_output_ids_mean_to_the_release(ids):
    """The neighbouring setter, for DFlash, reads every id as a layer's output: the rule that -1 needs."""
    for config in (config_of([-1, *ids]), config_of(top=[-1, *ids]), config_of(top=[-1, *ids], speculators=True)):
        assert list(read(config).boundaries) == dflash_setter([-1, *ids])


@UNHURRIED
@given(st.integers(7, 200))
def test_the_default_is_the_releases_own(layers):
    assert list(read({}, layers).boundaries) == eagle3_setter(None, layers)


@UNHURRIED
@given(st.sets(st.integers(0, 60), min_size=1, max_size=6).map(sorted))
def test_top_level_ids_of_speculators_are_boundaries(ids):
    assert list(read(config_of(top=ids, speculators=True)).boundaries) == ids


def test_the_log_line_says_how_ids_were_read():
    line = str(read(config_of([-1, 2, 30])))
    assert "boundaries [0, 3, 31] of 61" in line
    assert "0 is the embedding output" in line
    assert f"{NESTED} [-1, 2, 30]" in line
    assert "rule: output" in line
    assert "-1 read as the embedding output" in line
    assert "embedding" not in str(read(config_of([2, 30, 58])))
    written = str(read(config_of([-1, 1, 2], written=[0, 3, 31])))
    assert "boundaries [0, 3, 31]" in written
    assert "rule: as written" in written
    assert "-1 read as" not in written
    assert "no ids" in str(read({}))
    assert "rule: default" in str(read({}))


# `aux_boundaries`, in every combination with the ids beside it.

WRITTEN = [2, 30, 58]
BESIDE_NESTED = [(None, True), ([2, 30, 58], True), ([1, 29, 57], True), ([-1, 4, 9], True), ([3, 31, 59], False)]
BESIDE_NESTED += [([2, 30], False), ([-1, 2], False), ([-1, 1, 29, 57], False)]
BESIDE_TOP = [(None, False, True), ([2, 30, 58], True, True), ([1, 29, 57], True, False), ([1, 29, 57], False, True)]
BESIDE_TOP += [([-1, 4, 9], False, True), ([-1, 4, 9], True, True), ([2, 30], False, False), ([2, 30], True, False)]


@pytest.mark.parametrize(("nested", "top"), list(itertools.product(BESIDE_NESTED, BESIDE_TOP)))
def test_written_boundaries_beside_ids(nested, top):
    config = config_of(nested[0], top[0], WRITTEN, speculators=top[1])
    if nested[1] and top[2]:
        wiring = read(config)
        assert wiring.boundaries == tuple(WRITTEN)
        assert (wiring.rule, wiring.where) == ("as written", f"eagle_config.{BOUNDARIES}")
        kept = nested[0] or top[0]
        assert wiring.ids == (tuple(kept) if kept else None)
        return
    key, wrong = (NESTED, nested[0]) if not nested[1] else (IDS, top[0])
    with pytest.raises(WiringError) as refused:
        read(config)
    assert_refusal(refused, f"3 ids that mean eagle_config.{BOUNDARIES} {WRITTEN}", str(wrong), f"{key} of draft", "")


@pytest.mark.parametrize("written", [[0], [0, 3], [0, 3, 31], [0, 3, 31, 60], [0, 3, 31, 60, 61], (0, 3, 31)])
def test_written_boundaries_are_kept_as_they_are(written):
    assert read(config_of(written=written)).boundaries == tuple(written)


# Both lists.

MEANT = {(0, 3, 31): [([-1, 2, 30], [0, 3, 31]), ([0, 3, 31], [-1, 2, 30])], (2, 30, 58): [([1, 29, 57], [2, 30, 58])]}


@pytest.mark.parametrize("nested", [[-1, 2, 30], [0, 3, 31], [1, 29, 57], [2, 30, 58]])
@pytest.mark.parametrize("top", [[-1, 2, 30], [0, 3, 31], [1, 29, 57], [2, 30, 58]])
@pytest.mark.parametrize("speculators", [True, False])
def test_two_lists_agree_or_are_refused(nested, top, speculators):
    """With a rule for both, by what they mean; where the top-level one has none, only the same list agrees."""
    config = config_of(nested, top, speculators=speculators)
    pair = (nested, top)
    known = speculators or -1 in top
    alike = {(str(a), str(b)) for pairs in MEANT.values() for a, b in pairs}
    same = nested == top and nested != [1, 29, 57]
    agree = (same or (str(nested), str(top)) in alike) if known else nested == top
    if agree:
        assert read(config).where == NESTED
        return
    with pytest.raises(WiringError) as refused:
        read(config)
    assert_refusal(refused, str(pair[0]), str(pair[1]), "draft/config.json", "delete the list")


# Refusals.


def assert_refusal(refused, expected: str, found: str, where: str, remedy: str) -> None:
    message = str(refused.value)
    assert len(message.splitlines()) == 1
    parts = re.fullmatch(r"expected (.+); found (.+?) in (.+); (.+)", message)
    assert parts, message
    for part, wanted in zip(parts.groups(), (expected, found, where, remedy), strict=True):
        assert wanted in part, message


LISTS = [
    ([], "a list of layer ids", "[]"),
    (7, "a list of layer ids", "7"),
    ("2,30", "a list of layer ids", "'2,30'"),
    ({"2": 30}, "a list of layer ids", "{'2': 30}"),
    ([2.0, 30, 58], "integer layer ids", "[2.0, 30, 58]"),
    ([True, 30, 58], "integer layer ids", "[True, 30, 58]"),
    (["2", 30], "integer layer ids", "['2', 30]"),
    ([[2], [30]], "integer layer ids", "[[2], [30]]"),
    ([None], "integer layer ids", "[None]"),
    ([-2, 2, 30], "ids of -1 and above", "[-2, 2, 30]"),
    ([2, 2, 30], "each id once", "[2, 2, 30]"),
    ([-1, -1], "each id once", "[-1, -1]"),
    ([2, 30, -1], "ascending ids", "[2, 30, -1]"),
    ([58, 30, 2], "ascending ids", "[58, 30, 2]"),
    ([2, 30, 62], "boundaries of 0 to 61", "[2, 30, 62]"),
    ([-1, 2, 61], "boundaries of 0 to 61", "[0, 3, 62]"),
]


@pytest.mark.parametrize(("ids", "expected", "found"), LISTS)
@pytest.mark.parametrize("nested", [True, False])
def test_lists_that_are_refused(ids, expected, found, nested):
    config = config_of(nested=ids) if nested else config_of(top=ids, speculators=True)
    with pytest.raises(WiringError) as refused:
        read(config)
    where = (NESTED if nested else IDS) + (f" {ids}" if expected.startswith("boundaries") else "")
    assert_refusal(refused, expected, found, f"{where} of draft/config.json", "")
    if "ascending" in expected:
        assert_refusal(refused, expected, found, where, "permute the column blocks of fc.weight")
        assert "--fix" in str(refused.value)
        assert f"the draft expects {ids}" in str(refused.value)
    if ids == [-2, 2, 30]:
        assert_refusal(refused, expected, found, where, "-1 is the embedding output")


@pytest.mark.parametrize(("written", "expected", "found"), LISTS)
def test_written_boundaries_that_are_refused(written, expected, found):
    with pytest.raises(WiringError) as refused:
        read(config_of(nested=[-1, 2, 30], written=written))
    where = f"eagle_config.{BOUNDARIES} of draft/config.json"
    if (isinstance(written, list) and written and -1 in written) or expected.startswith("ids of"):
        assert_refusal(refused, "ids of 0 and above", str(written), where, "write the ids")
    else:
        assert_refusal(refused, expected, found, where, "")


@pytest.mark.parametrize("top", [[2, 30, 58], [0, 3, 31], [1]])
def test_top_level_ids_without_a_convention_are_refused(top):
    with pytest.raises(WiringError) as refused:
        read(config_of(top=top))
    assert_refusal(refused, "speculators_model_type", f"{IDS} {top}", "draft/config.json", f"eagle_config.{BOUNDARIES}")


@pytest.mark.parametrize("eagle_config", ["text", 7, [1], True])
def test_an_eagle_config_that_is_no_table_is_refused(eagle_config):
    with pytest.raises(WiringError) as refused:
        read({"eagle_config": eagle_config})
    assert_refusal(refused, "a table", repr(eagle_config), "eagle_config of draft/config.json", IDS)


@pytest.mark.parametrize("layers", [1, 2, 3, 4, 5, 6])
def test_a_default_that_a_shallow_target_cannot_give_is_refused(layers):
    """[2, n // 2, n - 3] is no longer three ascending boundaries below 7 layers."""
    ids = eagle3_setter(None, layers)
    assert sorted(set(ids)) != ids or min(ids) < 0
    with pytest.raises(WiringError) as refused:
        read({}, layers)
    assert_refusal(refused, "", str(ids), "the release's default, as draft/config.json holds no ids", "")


# What the serving release never visits.


def test_reachable_wirings_pass():
    wiring = read(config_of([-1, 2, 30]))
    require_reachable(wiring)
    require_reachable(wiring, pipeline=1, two_batch_overlap_from=32)
    require_reachable(read(config_of([2, 30, 60])))
    require_reachable(read(config_of([-1, 2, 60])), last_is_visited=True)


@pytest.mark.parametrize(
    ("ids", "flags", "expected", "found", "where", "remedy"),
    [
        ([-1, 2, 30], {"pipeline": 2}, "pipeline parallelism of 1", "--pp-size 2", "launch flags", "tensor parallel"),
        ([-1, 2, 30], {"two_batch_overlap_from": 31}, "boundaries below 31", "[0, 3, 31]", "wiring", "leave the flag"),
        ([-1, 2, 30], {"two_batch_overlap_from": 1}, "--enable-two-batch-overlap", "[0, 3, 31]", "wiring", "leave"),
        ([-1], {"two_batch_overlap_from": 0}, "boundaries below 0", "[0]", "wiring", "leave"),
        ([-1, 2, 60], {}, "boundaries below 61", "[0, 3, 61]", "wiring [0, 3, 61]", "earlier layer"),
        ([2, 30, 61], {}, "boundaries below 61", "[2, 30, 61]", "wiring [2, 30, 61]", "earlier layer"),
    ],
)
def test_boundaries_that_are_never_visited_are_refused(ids, flags, expected, found, where, remedy):
    wiring = read(config_of(ids))
    with pytest.raises(WiringError) as refused:
        require_reachable(wiring, **flags)
    assert_refusal(refused, expected, found, where, remedy)


# Properties.

IDS_LIKE = st.one_of(
    st.none(),
    st.lists(st.integers(-3, 70), max_size=6),
    st.sets(st.integers(-1, 61), max_size=6).map(sorted),
    st.lists(st.one_of(st.integers(), st.booleans(), st.floats(), st.text(max_size=3), st.none()), max_size=4),
    st.text(max_size=4),
    st.integers(),
)


@UNHURRIED
@given(IDS_LIKE, IDS_LIKE, IDS_LIKE, st.booleans(), st.integers(1, 61), st.sampled_from(sorted(RULES)))
def test_any_config_is_wired_or_refused_in_one_line(nested, top, written, speculators, layers, rule):
    try:
        wiring = read(config_of(nested, top, written, speculators), layers, rule)
    except WiringError as error:
        assert len(str(error).splitlines()) == 1
        assert re.fullmatch(r"expected .+; found .+ in .*draft/config\.json.*; .+", str(error))
        return
    assert list(wiring.boundaries) == sorted(set(wiring.boundaries))
    assert 0 <= wiring.boundaries[0] <= wiring.boundaries[-1] <= layers
    assert all(type(boundary) is int for boundary in wiring.boundaries)
    if wiring.ids is not None and wiring.rule != "as written":
        assert len(wiring.ids) == len(wiring.boundaries)
        assert list(wiring.boundaries) == RULES[wiring.rule](wiring.ids)


@UNHURRIED
@given(st.sets(st.integers(0, 60), min_size=1, max_size=6).map(sorted), st.sampled_from(sorted(RULES)))
def test_boundaries_as_written_come_back(boundaries, rule):
    """What a tool writes, ids with -1 beside the boundaries, reads the same under every release's rule."""
    ids = [-1, *range(1, len(boundaries))]
    for config in (config_of(ids, written=boundaries), config_of(top=ids, written=boundaries)):
        assert list(read(config, rule=rule).boundaries) == boundaries


def test_a_wiring_passes_between_processes():
    wiring = read(config_of([-1, 2, 30]))
    assert pickle.loads(pickle.dumps(wiring)) == wiring
    assert hash(wiring) == hash(read(config_of([-1, 2, 30])))


def test_nothing_but_the_standard_library_is_imported():
    with open(aux_boundaries.__file__, encoding="utf-8") as file:
        nodes = list(ast.walk(ast.parse(file.read())))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    assert names
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


@pytest.mark.parametrize(
    ("config", "parts"),
    [
        ({"eagle_config": {"use_aux_hidden_state": False, IDS: [-1, 2]}}, ["true beside the ids [-1, 2]", "False"]),
        ({"eagle_config": {"use_aux_hidden_state": False}, IDS: [2, 5]}, ["true beside the ids [2, 5]", "False"]),
        ({"eagle_config": {"use_aux_hidden_state": None}}, ["true or false", "None"]),
        ({"eagle_config": {IDS: [-1, 2]}, BOUNDARIES: [1]}, ["aux_boundaries in eagle_config", "top level"]),
        ({"eagle_config": 0}, ["a table", "0"]),
    ],
)
def test_keys_around_the_ids_that_contradict_them(config, parts):
    with pytest.raises(WiringError) as refused:
        wants_states(config, "draft/config.json")
    assert_says(str(refused.value), *parts)


def test_whether_states_are_wanted():
    assert wants_states({}, "") and wants_states({"eagle_config": {IDS: [-1]}}, "")
    assert not wants_states({"eagle_config": {"use_aux_hidden_state": False}}, "")
