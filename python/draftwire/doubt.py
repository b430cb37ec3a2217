"""When it is no chance that one of two paired predictions agrees more often than the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

# Standard deviations of a paired difference (predictions of a text are not independent, hence so many).
BEYOND = 5.0


def lead(one: Tensor, other: Tensor) -> Tensor:
    """McNemar's (b - c) / sqrt(b + c) over the last axis of two bool tensors [..., T], of the places where exactly one
    of them agrees; 0 where there are none. Float, without the last axis.
    """
    ahead, behind = (one & ~other).sum(-1), (~one & other).sum(-1)
    return (ahead - behind) / (ahead + behind).clamp_min(1).sqrt()
