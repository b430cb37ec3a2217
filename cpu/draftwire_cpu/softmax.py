"""Softmax attention in float32."""

import torch


def attend(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
    cap: float,
) -> torch.Tensor:
    """softmax(cap * tanh(scale * q k / cap)) v, the cap left out where it is 0.

    queries [B, E, H, D], keys [B, M, G, D], values [B, M, G, Dv], H a multiple of G (head h reads head h // (H / G)).
    mask: bool, broadcast to [B, E, M], or None. Returns float32 [B, E, H, Dv].
    """
    batch, new, heads, width = queries.shape
    groups = keys.shape[2]
    q = queries.float().view(batch, new, groups, heads // groups, width).permute(0, 2, 3, 1, 4)
    q = q.reshape(batch, groups, -1, width)
    scores = q @ keys.float().permute(0, 2, 3, 1) * scale
    if cap > 0:
        scores = cap * torch.tanh(scores / cap)
    if mask is not None:
        shaped = scores.view(batch, groups, heads // groups, new, -1)
        shaped.masked_fill_(~mask.view(-1, 1, 1, *mask.shape[-2:]), float("-inf"))
    out = scores.softmax(-1) @ values.float().transpose(1, 2)
    return out.view(batch, groups, heads // groups, new, -1).permute(0, 3, 1, 2, 4).reshape(batch, new, heads, -1)
