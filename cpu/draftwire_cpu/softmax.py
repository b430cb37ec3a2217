"""Softmax attention in float32 over keys and values that were gathered head by head."""

from typing import NamedTuple

import torch


class Rule(NamedTuple):
    """What a layer asks for: scale of q k, cap on the scores (0: none), window in tokens (0: none), causal or not."""

    scale: float
    cap: float
    window: int
    causal: bool


def attend(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    hidden: torch.Tensor | None,
    rule: Rule,
) -> torch.Tensor:
    """softmax(cap * tanh(scale * q k / cap)) v, or softmax(scale * q k) v where the cap is 0.

    queries [B, E, H, D]. keys [B * G, M, D], values [B * G, M, Dv], float32, request by request; H is a multiple of
    G and query head h reads key head h // (H / G). hidden: bool, True where a query does not see a key,
    broadcastable to [B, E, M], or None. Returns float32 [B, E, H, Dv]. A query that sees no key gets NaN.
    """
    batch, new, heads, width = queries.shape
    groups = keys.shape[0] // batch
    shared = heads // groups
    scaled = queries.float() * rule.scale
    if new > 1:
        scaled = scaled.view(batch, new, groups, shared, width).permute(0, 2, 3, 1, 4)
    scores = torch.bmm(scaled.reshape(batch * groups, shared * new, width), keys.transpose(1, 2))
    if rule.cap > 0:
        scores = scores.div_(rule.cap).tanh_().mul_(rule.cap)
    if hidden is not None:
        scores.view(batch, groups * shared, new, -1).masked_fill_(hidden.unsqueeze(1), float("-inf"))
    out = torch.bmm(scores.softmax(-1), values)
    if new == 1:
        return out.view(batch, 1, heads, -1)
    return out.view(batch, heads, new, -1).transpose(1, 2)
