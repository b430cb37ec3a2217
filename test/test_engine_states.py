"""The states that reach the draft are its training samples', read back from the serving engine."""

from collections.abc import Callable, Iterator

import pytest
from states import load_sample, relative_errors, served_states

from draftwire.acceptance import Acceptance
from draftwire.pair import Pair
from draftwire.server import Server

SAMPLES = range(6)


@pytest.fixture(scope="module")
def server(serve: Callable, pair: Pair) -> Iterator[Server]:
    with serve([*pair.flags(dtype="bfloat16"), "--enable-return-hidden-states"]) as server:
        yield server


@pytest.mark.parametrize("number", SAMPLES)
def test_states_equal_the_training_sample(server: Server, pair: Pair, number: int) -> None:
    sample = load_sample(pair.directory, number)
    found = served_states(server, sample["input_ids"], 3)
    errors = relative_errors(found, sample["hidden_states"][:3])
    assert errors[0] == 0.0, "the embedding output is a table look-up, equal to the bit"
    assert max(errors) < 2e-2


def test_another_state_would_be_seen(pair: Pair) -> None:
    states = load_sample(pair.directory, 0)["hidden_states"]
    assert min(relative_errors(states[1:], states[:3])) > 0.2


def test_acceptance_length_on_the_prompts(server: Server, pair: Pair) -> None:
    server.flush_cache()
    acceptance = Acceptance.of(server.generate(prompt, 64) for prompt in pair.prompts)
    assert acceptance.length >= 2.7
    assert sum(acceptance.histogram) == acceptance.verifies


def test_the_log_says_the_wiring_once(server: Server) -> None:
    lines = [line for line in server.log.read_text().splitlines() if "draftwire:" in line]
    assert len(lines) == 1
    assert "boundaries [0, 3, 6] of 12" in lines[0]
    assert "[-1, 2, 5]" in lines[0] and "-1 read as the embedding output" in lines[0]
