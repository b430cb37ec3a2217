"""Whether generated text goes round in circles, which any draft guesses and no user wants."""

from __future__ import annotations

from collections.abc import Sequence

# Windows of Python source as people wrote it, in the example's tokens: of 743 with 128 tokens none has fewer than 52%
# of its 4-grams distinct, of 192 with 512 tokens the lowest has 48% (median 94% and 86%). Greedy text that has fallen
# into a loop is far below: the example's target at 256 tokens has a median of 14%.
N, FLOOR = 4, 0.5
MOST = 0.1


def distinct_share(tokens: Sequence[int]) -> float:
    """Distinct 4-grams over all 4-grams of one output, 0 to 1; 1 for one that has none."""
    grams = [tuple(tokens[i : i + N]) for i in range(len(tokens) - N + 1)]
    return len(set(grams)) / len(grams) if grams else 1.0


def looping_share(outputs: Sequence[Sequence[int]]) -> float:
    """Share of outputs that loop: those with a distinct share under FLOOR. 0 for no outputs."""
    return sum(distinct_share(tokens) < FLOOR for tokens in outputs) / len(outputs) if outputs else 0.0
