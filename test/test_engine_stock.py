"""What SGLang does without the overlay: the control for every claim about it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from states import load_sample, relative_errors, served_states

from draftwire.acceptance import Acceptance
from draftwire.pair import Pair

OFF = {"DRAFTWIRE": "off"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ids", "same_states", "low", "high"),
    [([0, 3, 6], True, 2.4, 4.0), ([3, 6, 9], False, 1.0, 2.0)],
    ids=["raw ids of the same boundaries", "mis-wired"],
)
def test_stock(
    serve: Callable, pair: Pair, tmp_path: Path, ids: list[int], same_states: bool, low: float, high: float
) -> None:
    """Since 0.5.14 stock SGLang serves boundaries 0, 3, 6 by raw ids; it serves any others as readily."""
    flags = [*pair.flags(pair.rewire(tmp_path / "draft", ids), dtype="bfloat16"), "--enable-return-hidden-states"]
    with serve(flags, env=OFF) as server:
        sample = load_sample(pair.directory, 0)
        errors = relative_errors(served_states(server, sample["input_ids"], 3), sample["hidden_states"][:3])
        acceptance = Acceptance.of(server.generate(prompt, 48) for prompt in pair.prompts[:8])
    assert (max(errors) < 2e-2) == same_states
    assert low < acceptance.length < high


@pytest.mark.slow
def test_top_level_ids_are_ignored_in_silence(serve: Callable, pair: Pair, tmp_path: Path) -> None:
    """speculators' key: stock feeds the default [2, 6, 9] in its place, the overlay what was written."""
    draft = pair.rewire(
        tmp_path / "draft", None, eagle_aux_hidden_state_layer_ids=[0, 3, 6], speculators_model_type="eagle3"
    )
    lengths = []
    for env in (OFF, {}):
        with serve(pair.flags(draft), env=env) as server:
            answers = [server.generate(prompt, 48) for prompt in pair.prompts[:8]]
            lengths.append(Acceptance.of(answers).length)
    assert lengths[0] < 2.0 < 2.4 < lengths[1]
