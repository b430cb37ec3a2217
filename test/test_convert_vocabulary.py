"""The vocabulary map: offsets are kept, target ids become offsets, anything else is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import small_drafts as small
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from draftwire.convert.vocabulary import little_endian, read_offsets
from draftwire.headers import DraftError, read_header

FUZZ = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SIZE = 40


def stored(folder: Path, d2t: list[int], kept: list[int] | None = None):
    tensors = {"d2t": small.integers(d2t)}
    if kept is not None:
        tensors["t2d"] = small.booleans([token in set(kept) for token in range(SIZE)])
    file = folder / "model.safetensors"
    file.write_bytes(small.pack(tensors))
    return read_header(file)


def hot_tokens(d2t, offsets) -> list[int]:
    """By the rule of SGLang (`hot_token_id = d2t + arange`) and of speculators."""
    values = d2t if offsets is None else list(offsets)
    return [value + i for i, value in enumerate(values)]


HOT = st.sets(st.integers(0, SIZE - 1), min_size=1, max_size=SIZE - 1).map(sorted)


@FUZZ
@given(HOT, st.booleans())
def test_any_map_in_either_form_with_t2d(tmp_path: Path, hot: list[int], as_ids: bool) -> None:
    d2t = hot if as_ids else [token - i for i, token in enumerate(hot)]
    offsets, notes = read_offsets(stored(tmp_path, d2t, hot), len(hot), SIZE)
    assert hot_tokens(d2t, offsets) == hot
    assert bool(notes) == (offsets is not None)


@FUZZ
@given(HOT, st.booleans())
def test_without_t2d_it_is_right_or_refused(tmp_path: Path, hot: list[int], as_ids: bool) -> None:
    d2t = hot if as_ids else [token - i for i, token in enumerate(hot)]
    try:
        offsets, _ = read_offsets(stored(tmp_path, d2t), len(hot), SIZE)
    except DraftError as error:
        assert "both possible" in str(error)
        return
    assert hot_tokens(d2t, offsets) == hot or len(hot) == 1


@FUZZ
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=12), HOT | st.none())
def test_any_numbers(tmp_path: Path, d2t: list[int], kept: list[int] | None) -> None:
    try:
        offsets, _ = read_offsets(stored(tmp_path, d2t, kept), len(d2t), SIZE)
    except DraftError:
        return
    hot = hot_tokens(d2t, offsets)
    assert hot == sorted(set(hot))
    assert hot[0] >= 0
    assert hot[-1] < SIZE
    assert kept is None or hot == kept


def test_int32_offsets_are_widened(tmp_path: Path) -> None:
    import struct

    file = tmp_path / "model.safetensors"
    file.write_bytes(small.pack({"d2t": ("I32", (3,), struct.pack("<3i", 0, 0, 5)), "t2d": small.booleans(
        [token in (0, 1, 7) for token in range(SIZE)])}))  # fmt: skip
    offsets, _ = read_offsets(read_header(file), 3, SIZE)
    assert little_endian(offsets) == struct.pack("<3q", 0, 0, 5)


def test_a_map_that_was_never_filled(tmp_path: Path) -> None:
    with pytest.raises(DraftError, match="t2d that keeps 10 tokens; found 0"):
        read_offsets(stored(tmp_path, [0] * 10, []), 10, SIZE)
