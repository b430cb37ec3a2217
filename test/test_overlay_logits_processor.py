"""`layers/logits_processor.py`: upstream's real LogitsProcessor, handed what a target would hand it."""

from __future__ import annotations

from types import SimpleNamespace

import engine_free
import pytest
import torch
from engine_free import EXAMPLE, capture_list, published, server_args
from refused import assert_says, refusal_of

from draftwire_overlay.srt.layers.logits_processor import LogitsProcessor

TOKENS, HIDDEN = 4, 8
HEAD = SimpleNamespace(weight=torch.ones(16, HIDDEN))
LISTS = {2: [-1, 2], 3: [-1, 2, 5], 4: [-1, 2, 5, 8]}


@pytest.fixture(scope="module", autouse=True)
def overlay():
    with engine_free.joined("LogitsProcessor"), published(server_args()):
        yield


def processor(count: int | None):
    """A real processor of a target that captures `count` states; None for one that the overlay did not wire."""
    from sglang.srt.layers.logits_processor import LogitsProcessor as Real
    from transformers import AutoConfig

    real = Real(AutoConfig.from_pretrained(EXAMPLE / "target"))
    if count is not None:
        real.aux_wiring, real.aux_hidden_size = capture_list(LISTS[count]).wiring, HIDDEN
    return real


def metadata(mode: str = "TARGET_VERIFY", full: bool = True, rows: int = TOKENS):
    from sglang.srt.layers.logits_processor import LogitsMetadata
    from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardMode

    lengths = torch.tensor([rows]) if mode == "EXTEND" else None
    return LogitsMetadata(
        forward_mode=ForwardMode[mode],
        capture_hidden_mode=CaptureHiddenMode.FULL if full else CaptureHiddenMode.NULL,
        extend_seq_lens=lengths,
        extend_seq_lens_cpu=None if lengths is None else lengths.tolist(),
    )


def captured(count: int, packed: bool, rows: int = TOKENS, hidden: int = HIDDEN):
    """Distinct states, as one packed tensor from upstream's own packer or as a list."""
    from sglang.srt.layers.aux_hidden_states import AuxHiddenStatePacker

    states = [torch.full((rows, hidden), float(i)) for i in range(count)]
    if not packed:
        return states
    packer = AuxHiddenStatePacker(count)
    packer.extend(states)
    return packer.finalize()


def run(real, states, mode: str = "TARGET_VERIFY", rows: int = TOKENS, full: bool = True):
    hidden = torch.zeros(rows, HIDDEN)
    return real(torch.zeros(rows, dtype=torch.long), hidden, HEAD, metadata(mode, full, rows), states)


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("mode", ["TARGET_VERIFY", "EXTEND", "DECODE"])
def test_states_that_were_asked_for_pass_in_their_order(count, packed, mode):
    real = processor(count)
    output = run(real, captured(count, packed), mode)
    assert output.hidden_states.shape == (TOKENS, count * HIDDEN)
    assert output.hidden_states[0].view(count, HIDDEN)[:, 0].tolist() == list(range(count))
    assert [seen.name for seen in real.aux_modes_seen] == [mode]


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(("count", "found"), [(3, 2), (3, 4), (2, 3), (4, 3)])
def test_another_number_of_states_is_refused(count, found, packed):
    states = captured(found, packed)
    line = refusal_of(run, processor(count), states)
    shape = f"[4, {found * HIDDEN}]" if packed else " + ".join(["[4, 8]"] * found)
    assert_says(line, f"4 tokens of {count} x 8", f"found {shape} in the first TARGET_VERIFY", "boundaries", "report")


@pytest.mark.parametrize(
    ("states", "found"),
    [
        (None, "none"),
        ([], "none"),
        (torch.zeros(TOKENS, 24, 1), "[4, 24, 1]"),
        (torch.zeros(TOKENS - 1, 24), "[3, 24]"),
        ([torch.zeros(TOKENS, 8)] * 2 + [torch.zeros(TOKENS, 7)], "[4, 8] + [4, 8] + [4, 7]"),
        ([torch.zeros(TOKENS, 8)] * 2 + [torch.zeros(TOKENS - 1, 8)], "[4, 8] + [4, 8] + [3, 8]"),
    ],
)
def test_states_of_another_shape_are_refused(states, found):
    """What upstream itself stumbles over first is put behind it here: a body that hands on what it is given."""
    real = processor(3)
    output = SimpleNamespace(hidden_states=None)
    arguments = (torch.zeros(TOKENS), torch.zeros(TOKENS, HIDDEN), HEAD, metadata(), states)
    line = refusal_of(LogitsProcessor.forward, lambda *rest, **more: output, real, *arguments)
    assert_says(line, "4 tokens of 3 x 8", f"found {found} in the first", "TARGET_VERIFY", "report this release")
    assert not real.aux_modes_seen


def test_states_that_are_not_handed_on_are_refused():
    """The target captured them, and the draft would get others."""
    arguments = (torch.zeros(TOKENS), torch.zeros(TOKENS, HIDDEN), HEAD, metadata(), captured(3, True))
    output = SimpleNamespace(hidden_states=torch.zeros(TOKENS, HIDDEN))
    line = refusal_of(LogitsProcessor.forward, lambda *rest, **more: output, processor(3), *arguments)
    assert_says(line, "width 3 x 8", "[4, 8]", "after the first TARGET_VERIFY", "not handed on")


def test_nothing_handed_on_is_fine_where_nothing_was_asked_for():
    assert run(processor(3), captured(3, True), "DECODE", full=False).hidden_states is None


def test_each_mode_is_checked_once_and_only_the_first_time():
    real = processor(3)
    run(real, captured(3, True), "DECODE")
    run(real, captured(2, True), "DECODE")
    refusal_of(run, real, captured(2, True), "TARGET_VERIFY")
    run(real, captured(3, True), "TARGET_VERIFY")
    assert {mode.name for mode in real.aux_modes_seen} == {"DECODE", "TARGET_VERIFY"}


def test_an_idle_or_empty_batch_proves_nothing():
    real = processor(3)
    nothing = SimpleNamespace(hidden_states=None)
    for mode, rows in (("IDLE", TOKENS), ("DECODE", 0)):
        arguments = (torch.zeros(rows), torch.zeros(rows, HIDDEN), HEAD, metadata(mode), None)
        assert LogitsProcessor.forward(lambda *rest, **more: nothing, real, *arguments) is nothing
    assert not real.aux_modes_seen
    refusal_of(run, real, captured(2, True), "DECODE")


def test_a_processor_of_another_model_is_left_alone():
    """The draft's own, or a target that upstream wired: no wiring on it, nothing to compare."""
    real = processor(None)
    assert run(real, captured(2, True)).hidden_states.shape == (TOKENS, 2 * HIDDEN)
    assert "aux_modes_seen" not in vars(real)


@pytest.mark.parametrize("named", [0, 1, 2, 3])
def test_arguments_may_be_passed_by_name(named):
    """Upstream's order after hidden_states: lm_head, logits_metadata, aux_hidden_states."""
    names = ["lm_head", "logits_metadata", "aux_hidden_states"]
    values = [HEAD, metadata(), captured(2, True)]
    at = len(names) - named
    keywords = dict(zip(names[at:], values[at:], strict=True))
    arguments = (torch.zeros(TOKENS, dtype=torch.long), torch.zeros(TOKENS, HIDDEN), *values[:at])
    assert_says(refusal_of(processor(3), *arguments, **keywords), "3 x 8", "[4, 16]", "report")
    assert processor(2)(*arguments, **keywords).hidden_states.shape == (TOKENS, 2 * HIDDEN)
