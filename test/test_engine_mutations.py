"""Break the wiring on purpose: what the engine tests rest on must then fail."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from states import load_sample, relative_errors, served_states

from draftwire.pair import Pair
from draftwire.server import ServerError

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def mutated(tmp_path: Path) -> Callable:
    """Environment of a server whose draftwire differs from ours in one place of one overlay file."""

    def mutate(file: str, old: str, new: str) -> dict[str, str]:
        shutil.copytree(ROOT / "python" / "draftwire", tmp_path / "draftwire")
        shutil.copytree(ROOT / "python" / "sglang", tmp_path / "draftwire_overlay")
        source = tmp_path / "draftwire_overlay" / "srt" / file
        text = source.read_text()
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {file}"
        source.write_text(text.replace(old, new))
        return {"PYTHONPATH": str(tmp_path)}

    return mutate


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "old", "new", "wrong"),
    [
        (
            "speculative/aux_boundaries.py",
            '"output": lambda ids: [i + 1 for i in ids]',
            '"output": lambda ids: [i + 2 for i in ids]',
            [0, 1, 2],
        ),
        (
            "speculative/aux_boundaries.py",
            '"output": lambda ids: [i + 1 for i in ids]',
            '"output": lambda ids: [0, 2, 6]',
            [1],
        ),
    ],
    ids=["every id shifted", "one id shifted"],
)
def test_a_shifted_id_is_seen_in_the_states(
    serve: Callable, pair: Pair, mutated: Callable, file: str, old: str, new: str, wrong: list[int]
) -> None:
    flags = [*pair.flags(dtype="bfloat16"), "--enable-return-hidden-states"]
    with serve(flags, env=mutated(file, old, new)) as server:
        sample = load_sample(pair.directory, 0)
        errors = relative_errors(served_states(server, sample["input_ids"], 3), sample["hidden_states"][:3])
    assert [number for number, error in enumerate(errors) if error > 2e-2] == wrong


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        (
            "models/deepseek_v2.py",
            "(original, self, layer_ids=None)",
            "(upstream, self, layer_ids=None)",
            "did not run",
        ),
        (
            "models/deepseek_v2.py",
            "self.model.layers_to_capture = list(wiring.boundaries)",
            "self.model.layers_to_capture = list(wiring.ids)",
            "found [-1, 2, 5]",
        ),
    ],
    ids=["setter not hooked", "ids in place of boundaries"],
)
def test_a_target_that_captures_other_states_does_not_come_up(
    serve: Callable, pair: Pair, mutated: Callable, file: str, old: str, new: str, words: str
) -> None:
    with (
        pytest.raises(ServerError, match="draftwire: expected") as stopped,
        serve(pair.flags(), env=mutated(file, old, new)),
    ):
        pass
    assert words in str(stopped.value)
