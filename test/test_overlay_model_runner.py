"""`model_executor/model_runner.py`: what a replayed graph hands on, on upstream's own output types."""

from __future__ import annotations

from types import SimpleNamespace

import engine_free
import pytest
import torch
from engine_free import HIDDEN, bare_kimi, bare_target, capture_list
from refused import assert_says, refusal_of

TOKENS = 4


@pytest.fixture
def runner(monkeypatch):
    """A ModelRunner of upstream's class whose forward gives what the test put into `runner.states`."""
    from sglang.srt.layers.logits_processor import LogitsProcessorOutput
    from sglang.srt.model_executor import model_runner

    def forward(self, forward_batch, *args, **kwargs):
        output = LogitsProcessorOutput(next_token_logits=None, hidden_states=self.states)
        self.calls.append((args, kwargs))
        return model_runner.ModelRunnerOutput(logits_output=output, can_run_graph=self.replays)

    monkeypatch.setattr(model_runner.ModelRunner, "forward", forward)
    with engine_free.joined("ModelRunner", "DeepseekV2ForCausalLM"):
        real = object.__new__(model_runner.ModelRunner)
        real.model, real.replays, real.calls = bare_target(), True, []
        real.model.set_eagle3_layers_to_capture(capture_list([-1, 2, 5]))
        real.states = states(3)
        yield real


def states(count: int) -> torch.Tensor:
    return torch.zeros(TOKENS, count * HIDDEN)


def batch(mode: str = "TARGET_VERIFY"):
    from sglang.srt.model_executor.forward_batch_info import ForwardMode

    return SimpleNamespace(forward_mode=ForwardMode[mode])


@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_replay_that_hands_on_all_states_passes(runner, count):
    runner.model.set_eagle3_layers_to_capture(capture_list([-1, 2, 5, 8][:count]))
    runner.states = states(count)
    output = runner.forward(batch(), "positional", reinit_attn_backend=True)
    assert output.logits_output.hidden_states is runner.states
    assert runner.calls == [(("positional",), {"reinit_attn_backend": True})]
    assert [mode.name for mode in runner.aux_replays_seen] == ["TARGET_VERIFY"]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_replay_of_other_states_is_refused(runner, count):
    """A graph that was captured before the ids were set."""
    runner.states = states(count)
    line = refusal_of(runner.forward, batch())
    assert_says(line, "width 3 x 192", f"[4, {count * HIDDEN}]", "replayed TARGET_VERIFY", "not handed on")
    assert not runner.aux_replays_seen


def test_a_replay_without_states_is_refused(runner):
    runner.states = None
    line = refusal_of(runner.forward, batch())
    assert "[0, 3, 6] of 12" in line
    assert "graph replay (TARGET_VERIFY), found no states" in line


def test_kimis_wrapper_is_looked_into(runner):
    runner.model = bare_kimi()
    runner.model.set_eagle3_layers_to_capture(capture_list([-1, 2, 5]))
    runner.forward(batch())
    runner.states = states(2)
    assert_says(refusal_of(runner.forward, batch("DECODE")), "3 x 192", "[4, 384]", "replayed DECODE", "not handed")


def test_each_mode_is_checked_the_first_time(runner):
    runner.forward(batch())
    runner.states = states(2)
    runner.forward(batch())
    refusal_of(runner.forward, batch("DECODE"))


def test_an_idle_replay_proves_nothing(runner):
    runner.states = None
    runner.forward(batch("IDLE"))
    runner.states = states(2)
    refusal_of(runner.forward, batch())


def test_an_eager_forward_is_the_logits_processors_business(runner):
    runner.replays, runner.states = False, states(2)
    runner.forward(batch())
    assert "aux_replays_seen" not in vars(runner)


def test_a_model_that_the_overlay_did_not_wire_is_left_alone(runner):
    runner.model, runner.states = bare_target(), None
    runner.forward(batch())
