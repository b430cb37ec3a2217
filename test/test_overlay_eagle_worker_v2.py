"""`speculative/eagle_worker_v2.py`: at start, what the target will capture and what the draft's fc takes."""

from __future__ import annotations

from types import SimpleNamespace

import engine_free
import pytest
import torch
import upstream
from engine_free import HIDDEN, bare_kimi, bare_target, capture_list
from refused import assert_says, refusal_of

from draftwire_overlay.srt.speculative.aux_boundaries import IDS


@pytest.fixture
def worker(monkeypatch):
    """`worker(ids, width=None, target=None)`: an EAGLEWorkerV2 of upstream's class; `started` counts its graphs."""
    from sglang.srt.speculative.eagle_worker_v2 import EAGLEWorkerV2

    def init_cuda_graphs(self):
        self.started.append(self)
        return "captured"

    monkeypatch.setattr(EAGLEWorkerV2, "init_cuda_graphs", init_cuda_graphs)
    with engine_free.joined("EAGLEWorkerV2", "DeepseekV2ForCausalLM"):
        yield build


def build(ids: list[int], width: int | None = None, target=None, *, set_ids: bool = True):
    from sglang.srt.speculative.eagle_worker_v2 import EAGLEWorkerV2
    from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

    asked = capture_list(ids)
    target = target or bare_target()
    if set_ids:
        target.set_eagle3_layers_to_capture(asked)
    fc = torch.nn.Linear(len(asked) * HIDDEN if width is None else width, HIDDEN)
    config = SimpleNamespace(model_path="drafts/small", hf_config=SimpleNamespace(eagle_config={IDS: asked}))
    draft = SimpleNamespace(model_config=config, model=SimpleNamespace(model=SimpleNamespace(fc=fc)))
    runner = SimpleNamespace(
        model=target,
        spec_algorithm=SpeculativeAlgorithm.EAGLE3,
        model_config=SimpleNamespace(hf_config=SimpleNamespace(), hidden_size=HIDDEN),
    )
    real = object.__new__(EAGLEWorkerV2)
    real._target_worker = SimpleNamespace(model_runner=runner)
    real._draft_worker = SimpleNamespace(draft_runner=draft)
    real.started = []
    return real


@pytest.mark.parametrize("ids", [[-1, 2], [-1, 2, 5], [-1, 2, 5, 8], [2, 5, 8], [1, 4, 7]])
def test_a_wired_pair_starts(worker, ids):
    real = worker(ids)
    assert real.init_cuda_graphs() == "captured"
    assert real.started == [real]


@pytest.mark.parametrize("ids", [[-1, 2], [-1, 2, 5], [-1, 2, 5, 8]])
@pytest.mark.parametrize("states", [1, 2, 3, 4, 5])
def test_an_fc_of_another_width_is_refused(worker, ids, states):
    real = worker(ids, width=states * HIDDEN)
    if states == len(ids):
        real.init_cuda_graphs()
        return
    line = refusal_of(real.init_cuda_graphs)
    assert_says(
        line, f"{len(ids)} x 192 = {len(ids) * 192}", f"{states * 192} in drafts/small", "trained on another number"
    )
    assert not real.started


def test_an_fc_of_a_narrower_target_is_refused(worker):
    assert_says(refusal_of(worker([-1, 2, 5], width=3 * 96).init_cuda_graphs), "3 x 192 = 576", "288", "boundaries")


def test_a_draft_without_fc_is_refused(worker):
    real = worker([-1, 2, 5])
    real._draft_worker.draft_runner.model.model.fc = None
    assert_says(refusal_of(real.init_cuda_graphs), "576", "None in drafts/small", "boundaries")


def test_a_parallel_fc_is_measured_by_what_it_takes(worker):
    """Upstream's tensor-parallel linear layers say `input_size`, and the MLA draft keeps fc one level up."""
    real = worker([-1, 2, 5])
    real._draft_worker.draft_runner.model = SimpleNamespace(fc=SimpleNamespace(input_size=576))
    real.init_cuda_graphs()
    real._draft_worker.draft_runner.model = SimpleNamespace(fc=SimpleNamespace(input_size=384))
    assert_says(refusal_of(real.init_cuda_graphs), "576", "384", "boundaries")


@pytest.mark.parametrize("captured", [[], [2, 5, 8], [0, 3], [0, 3, 6, 9]])
def test_a_target_that_captures_others_is_refused(worker, captured):
    real = worker([-1, 2, 5])
    real.target_worker.model_runner.model.model.layers_to_capture = captured
    line = refusal_of(real.init_cuda_graphs)
    assert_says(line, "boundaries [0, 3, 6]", f"found {captured} in DeepseekV3ForCausalLM", "report this release")
    assert not real.started


def test_a_target_whose_hook_did_not_run_is_refused(worker):
    """The same list, set by upstream alone: the states would never be compared."""
    real = worker([-1, 2, 5], set_ids=False)
    real.target_worker.model_runner.model.set_eagle3_layers_to_capture([0, 3, 6])
    assert_says(refusal_of(real.init_cuda_graphs), "[0, 3, 6]", "hook on this model did not run", "report")


def test_kimis_wrapper_is_looked_into(worker):
    real = worker([-1, 2, 5], target=bare_kimi())
    real.init_cuda_graphs()
    real.target_worker.model_runner.model.language_model.model.layers_to_capture = [2, 5, 8]
    assert_says(refusal_of(real.init_cuda_graphs), "[0, 3, 6]", "[2, 5, 8] in DeepseekV3ForCausalLM", "report")


def test_a_rank_without_a_draft_starts(worker):
    real = worker([-1, 2, 5], set_ids=False)
    real._draft_worker = None
    assert real.init_cuda_graphs() == "captured"


def test_another_algorithm_or_family_starts(worker):
    from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

    real = worker([-1, 2, 5], width=7, set_ids=False)
    real.target_worker.model_runner.spec_algorithm = SpeculativeAlgorithm.EAGLE
    assert real.init_cuda_graphs() == "captured"
    real = worker([2, 5, 8], width=7, set_ids=False)
    for eagle_config in (None, {}, {IDS: [2, 5, 8]}):
        real._draft_worker.draft_runner.model_config.hf_config.eagle_config = eagle_config
        assert real.init_cuda_graphs() == "captured"


def test_the_decode_steps_are_numbered_from_1(monkeypatch):
    """A draft whose window grows with its steps asks the backend which step it is."""
    from sglang.srt.speculative.eagle_worker_v2 import EagleDraftWorker

    backends = [SimpleNamespace() for _ in range(3)]

    def init_attention_backend(self):
        self.draft_attn_backend = SimpleNamespace(attn_backends=backends) if self.several else None

    monkeypatch.setattr(EagleDraftWorker, "init_attention_backend", init_attention_backend)
    with engine_free.joined("EagleDraftWorker"):
        for several in (True, False):
            real = object.__new__(EagleDraftWorker)
            real.several = several
            real.init_attention_backend()
    assert [backend.draft_step for backend in backends] == [1, 2, 3]


# SGLang 0.5.14 sizes the draft's extend buffers by the target's config.


def test_the_targets_config_is_told_where_the_release_reads_it(worker, monkeypatch):
    from sglang.srt.speculative import eagle_info

    real = worker([-1, 2, 5, 8])
    config = real.target_worker.model_runner.model_config.hf_config
    real.init_cuda_graphs()
    assert hasattr(config, "num_aux_hidden_states") == hasattr(eagle_info.EagleDraftExtendInput, "hidden_size_for")
    monkeypatch.setattr(eagle_info.EagleDraftExtendInput, "hidden_size_for", None, raising=False)
    real.init_cuda_graphs()
    assert config.num_aux_hidden_states == 4


@pytest.mark.slow
@pytest.mark.parametrize("ids", [[-1, 2], [-1, 2, 5], [-1, 2, 5, 8]])
def test_the_buffers_of_0_5_14_take_every_state(worker, ids, monkeypatch):
    """That release's own function, cut out, on the config that the start left."""
    tree = upstream.given("0.5.14") or upstream.download("0.5.14")
    hidden_size_for = upstream.cut(
        tree, "sglang.srt.speculative.eagle_info", "EagleDraftExtendInput", "hidden_size_for"
    )
    real = worker(ids)
    algorithm = SimpleNamespace(is_standalone=lambda: False, is_eagle3=lambda: True)
    asking = SimpleNamespace(
        speculative_algorithm=algorithm, eagle_use_aux_hidden_state=True, target_worker=real.target_worker
    )
    from sglang.srt.speculative import eagle_info

    monkeypatch.setattr(eagle_info.EagleDraftExtendInput, "hidden_size_for", hidden_size_for, raising=False)
    assert hidden_size_for(None, asking) == 3 * HIDDEN
    real.init_cuda_graphs()
    assert hidden_size_for(None, asking) == len(ids) * HIDDEN
