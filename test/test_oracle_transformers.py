"""Hugging Face's DeepSeek-V3 gives the same states as the training samples hold: an oracle of neither project."""

import pytest
import torch
from states import load_sample, relative_errors
from transformers import DeepseekV3ForCausalLM

from draftwire.pair import Pair

BOUNDARIES = [0, 3, 6, 9]


@pytest.fixture(scope="module")
def model(pair: Pair) -> DeepseekV3ForCausalLM:
    return DeepseekV3ForCausalLM.from_pretrained(pair.target, dtype=torch.float32).eval()


@pytest.mark.parametrize("number", range(6))
def test_hidden_states(model: DeepseekV3ForCausalLM, pair: Pair, number: int) -> None:
    sample = load_sample(pair.directory, number)
    with torch.no_grad():
        states = model(sample["input_ids"][None], output_hidden_states=True).hidden_states
    found = torch.stack([states[b][0] for b in BOUNDARIES])
    errors = relative_errors(found, sample["hidden_states"])
    assert errors[0] == 0.0
    assert max(errors) < 2e-2
    shifted = torch.stack([states[b + 1][0] for b in BOUNDARIES])
    assert min(relative_errors(shifted, sample["hidden_states"])) > 0.1


def test_argmax(model: DeepseekV3ForCausalLM, pair: Pair) -> None:
    expected = torch.load(pair.directory / "samples" / "target_argmax.pt", weights_only=True)["argmax"]
    ids = torch.stack([load_sample(pair.directory, number)["input_ids"] for number in range(6)])
    with torch.no_grad():
        found = model(ids).logits.argmax(-1)
    assert (found == expected).float().mean() > 0.98
