"""`models/deepseek_v2.py`: upstream's setter and loop capture the boundaries that the draft asked for."""

from __future__ import annotations

import ast
import contextlib
import logging
from types import SimpleNamespace

import engine_free
import pytest
import torch
import upstream
from engine_free import HIDDEN, LAYERS, bare_kimi, bare_target, capture_list
from refused import assert_says, refusal_of

from draftwire_overlay.srt.configs.model_config import CaptureList
from draftwire_overlay.srt.models.deepseek_v2 import DeepseekV2ForCausalLM
from draftwire_overlay.srt.speculative.aux_boundaries import BOUNDARIES, Wiring

MODULE = "sglang.srt.models.deepseek_v2"
IDS_AND_BOUNDARIES = [
    ([-1, 2], [0, 3]),
    ([-1, 2, 5], [0, 3, 6]),
    ([-1, 2, 5, 8], [0, 3, 6, 9]),
    ([2, 5, 8], [2, 5, 8]),
    ([1, 4, 7], [2, 5, 8]),
    ([0, 3, 6, 9], [0, 3, 6, 9]),
]


@pytest.fixture(scope="module", autouse=True)
def overlay():
    with engine_free.joined("DeepseekV2ForCausalLM"):
        yield


def index_list(boundaries: list[int]) -> CaptureList:
    """A list that top-level ids of speculators were resolved to."""
    captured = CaptureList(boundaries)
    captured.wiring = Wiring(tuple(boundaries), tuple(boundaries), "ids", "index", LAYERS)
    captured.hidden_size = HIDDEN
    return captured


@pytest.mark.parametrize(("ids", "boundaries"), IDS_AND_BOUNDARIES)
def test_the_target_captures_what_the_draft_asked_for(ids, boundaries):
    target, asked = bare_target(), capture_list(ids)
    target.set_eagle3_layers_to_capture(asked)
    assert target.model.layers_to_capture == boundaries
    assert type(target.model.layers_to_capture) is list
    assert target.capture_aux_hidden_states
    assert target.aux_wiring is target.logits_processor.aux_wiring is asked.wiring
    assert target.logits_processor.aux_hidden_size == HIDDEN


@pytest.mark.parametrize("boundaries", [[1, 4], [1, 4, 7], [1, 4, 7, 9]])
def test_a_first_boundary_of_1_is_not_shifted(boundaries):
    """Upstream's setter would make [2, 5, 8] of it: no list of its own expresses boundary 1 first."""
    stock, target = bare_target(), bare_target()
    stock.set_eagle3_layers_to_capture(boundaries)
    assert stock.model.layers_to_capture == [b + 1 for b in boundaries]
    for asked in (index_list(boundaries), capture_list([-1, *boundaries[1:]], **{BOUNDARIES: boundaries})):
        target.set_eagle3_layers_to_capture(asked)
        assert target.model.layers_to_capture == boundaries


@pytest.mark.parametrize("name", ["DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM"])
def test_subclasses_inherit_the_seam(name):
    target = bare_target(name)
    target.set_eagle3_layers_to_capture(capture_list([-1, 2, 5]))
    assert target.model.layers_to_capture == [0, 3, 6]


def test_kimis_wrapper_reaches_the_seam():
    wrapper = bare_kimi()
    wrapper.set_eagle3_layers_to_capture(capture_list([-1, 2, 5]))
    assert wrapper.language_model.model.layers_to_capture == [0, 3, 6]
    assert wrapper.language_model.aux_wiring.boundaries == (0, 3, 6)
    assert not hasattr(wrapper, "aux_wiring")


@pytest.mark.parametrize("ids", [None, [2, 5, 8], [1, 4, 7]])
def test_a_list_that_came_from_elsewhere_is_upstreams_own(ids):
    target = bare_target()
    target.set_eagle3_layers_to_capture(ids)
    assert target.model.layers_to_capture == {None: [2, 6, 9]}.get(ids and tuple(ids), [2, 5, 8])
    assert not hasattr(target, "aux_wiring")
    assert not hasattr(target.logits_processor, "aux_wiring")


def test_a_rank_that_captures_nothing_is_left_alone():
    target = bare_target(last_rank=False)
    target.set_eagle3_layers_to_capture(capture_list([-1, 2, 5]))
    assert target.model.layers_to_capture == []
    assert not hasattr(target, "aux_wiring")


def test_a_release_that_reads_plain_ids_otherwise_is_refused():
    """To 0.5.12.post1 every id was a layer's output: [2, 5, 8] would be captured as [3, 6, 9]."""

    def old_rule(self, ids):
        self.capture_aux_hidden_states = True
        self.model.layers_to_capture = [i + 1 for i in ids]

    body = DeepseekV2ForCausalLM.set_eagle3_layers_to_capture
    line = refusal_of(body, old_rule, bare_target(), capture_list([2, 5, 8]))
    assert_says(line, "[2, 5, 8]", "boundaries [2, 5, 8]", "[3, 6, 9]", "DeepseekV3ForCausalLM", BOUNDARIES)
    target = bare_target()
    body(old_rule, target, capture_list([-1, 4, 7], **{BOUNDARIES: [2, 5, 8]}))
    assert target.model.layers_to_capture == [2, 5, 8]


def test_the_release_is_asked_with_the_ids_as_found():
    """Only so can its own reading of them be compared with ours."""
    asked = []

    def note(self, ids):
        asked.append(ids)
        self.capture_aux_hidden_states = False

    for ids in ([1, 4, 7], [-1, 2, 5]):
        DeepseekV2ForCausalLM.set_eagle3_layers_to_capture(note, bare_target(), capture_list(ids))
    assert asked == [[1, 4, 7], [0, 3, 6]]
    assert [type(ids) for ids in asked] == [list, list]


@pytest.mark.parametrize(("rank", "lines"), [(None, 1), (0, 1), (1, 0)])
def test_the_first_rank_says_what_is_captured(rank, lines, caplog, monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: rank is not None)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: rank)
    with caplog.at_level(logging.INFO, "draftwire"):
        bare_target().set_eagle3_layers_to_capture(capture_list([-1, 2, 5]))
    said = [line for line in caplog.messages if "boundaries [0, 3, 6] of 12" in line]
    assert len(said) == lines


# The loop itself, cut out of a release and run over small layers that add and normalise in place, as the real ones do.


def run_loop(tree, asked: CaptureList, tokens: int = 5, hidden: int = 8) -> tuple[list[torch.Tensor], dict]:
    """(states that reach the logits processor, the true residual stream at every boundary)."""
    names = {"torch": torch, "nullcontext": contextlib.nullcontext} | packers(tree)
    forward = upstream.cut(tree, MODULE, "DeepseekV2Model", "forward", **names)
    setter = upstream.cut(tree, MODULE, "DeepseekV2ForCausalLM", "set_eagle3_layers_to_capture")
    carried = {"residual": None}
    truth: dict[int, torch.Tensor] = {}

    def layer(index):
        def run(positions, hidden_states, batch, *more, captured_last_layer_outputs=None, **rest):
            states = [hidden_states]
            residual = next((m for m in more if isinstance(m, torch.Tensor)), carried["residual"])
            if residual is None:
                residual, states[0] = states[0], states[0] * 0.5
            else:
                residual.add_(states[0])
                states[0] = residual * 0.5
            truth[index] = residual.clone()
            captures = captured_last_layer_outputs
            if type(captures) is list:  # Releases without a packer take a snapshot before they append.
                captures.append(residual.clone())
            elif captures is not None:
                getattr(captures, "capture", captures.append)(residual)
            residual.add_(states[0] + 1)
            carried["residual"] = residual
            output = {"hidden_states": residual * 0.25 + index, "residual": residual}
            return tuple(output.get(name) for name in results)

        return run

    results = layer_results(tree)
    ranks = SimpleNamespace(is_first_rank=True, is_last_rank=True)
    embedding = torch.arange(tokens * hidden, dtype=torch.float32).view(tokens, hidden)
    known = {"embed_tokens": lambda ids: embedding.clone(), "layers": [layer(i) for i in range(LAYERS)]}
    known |= {"pp_group": ranks, "start_layer": 0, "end_layer": LAYERS, "first_k_dense_replace": 1}
    known |= {"layers_to_capture": [], "llama_4_scaling_config": None, "gemm_output_zero_allocator_size": 0}
    known |= {"norm": lambda states, residual=None: states if residual is None else (states, residual)}
    known |= {"config": SimpleNamespace(num_hidden_layers=LAYERS), "next_full_attention_layer_id": {}}
    model = Loose(known)
    target = SimpleNamespace(
        model=model, pp_group=ranks, config=model.config, capture_aux_hidden_states=False,
        logits_processor=SimpleNamespace(),
    )  # fmt: skip
    DeepseekV2ForCausalLM.set_eagle3_layers_to_capture(setter, target, asked)
    batch = Loose({"can_run_tbo": False, "aux_hidden_states_buffer": None, "forward_mode": Loose({})})
    batch.forward_mode.is_idle = lambda: False
    _, states = forward(model, torch.arange(tokens), torch.arange(tokens), batch)
    states = list(states.split(hidden, dim=-1)) if isinstance(states, torch.Tensor) else states
    torch.testing.assert_close(truth[0], embedding)
    return states, truth


class Loose(SimpleNamespace):
    """Known attributes, and Nothing for every other."""

    def __init__(self, known):
        super().__init__(**known)

    def __getattr__(self, name):
        return getattr(upstream.Nothing(), name)


def layer_results(tree) -> list[str]:
    """What the loop unpacks a layer's result into, by name."""
    forward = upstream.find_method(tree, MODULE, "DeepseekV2Model", "forward")
    calls = [n for n in ast.walk(forward) if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call)]
    call = next(n for n in calls if isinstance(n.value.func, ast.Name) and n.value.func.id == "layer")
    return [element.id for element in call.targets[0].elts]


def packers(tree) -> dict:
    """The release's own collectors of captured states; before 0.5.17 that is a list."""
    try:
        module = upstream.parse(tree, "sglang.srt.layers.aux_hidden_states")
    except OSError:
        return {}
    future = ast.parse("from __future__ import annotations").body
    names: dict = {"torch": torch}
    classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
    exec(compile(ast.Module([*future, *classes], []), "aux_hidden_states", "exec"), names)
    return {name: value for name, value in names.items() if isinstance(value, type)}


def assert_loop_captures(tree, ids, boundaries):
    states, truth = run_loop(tree, capture_list(ids))
    assert len(states) == len(boundaries)
    for state, boundary in zip(states, boundaries, strict=True):
        assert torch.equal(state, truth[boundary]), f"boundary {boundary}"
        assert not any(torch.equal(state, truth[other]) for other in truth if other != boundary)


@pytest.mark.parametrize(("ids", "boundaries"), IDS_AND_BOUNDARIES)
def test_the_loop_hands_on_the_residual_stream_at_each_boundary(ids, boundaries):
    assert_loop_captures(upstream.installed(), ids, boundaries)


@pytest.mark.slow
@pytest.mark.parametrize("release", upstream.locked())
@pytest.mark.parametrize(("ids", "boundaries"), IDS_AND_BOUNDARIES)
def test_the_loop_of_every_release(release, ids, boundaries):
    assert_loop_captures(upstream.given(release) or upstream.download(release), ids, boundaries)
