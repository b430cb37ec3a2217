"""Softmax attention in float32 over keys and values that were gathered head by head."""

import torch


def attend(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    hidden: torch.Tensor | None,
    scale: float,
    cap: float,
) -> torch.Tensor:
    """softmax(c * tanh(scale * q k / c)) v with c the cap, or softmax(scale * q k) v where the cap is 0.

    queries [B, E, H, D]. keys [B * G, M, D], values [B * G, M, Dv], float32, request by request; H is a multiple of
    G and query head h reads key head h // (H / G). hidden: bool, True where a query does not see a key,
    broadcastable to [B, E, M], or None. Returns float32 [B, E, H, Dv]. A query that sees no key gets NaN.
    """
    batch, new, heads, width = queries.shape
    groups = keys.shape[0] // batch
    shared = heads // groups
    scaled = queries.float() * scale
    if new > 1:
        scaled = scaled.view(batch, new, groups, shared, width).permute(0, 2, 3, 1, 4)
    scores = torch.bmm(scaled.reshape(batch * groups, shared * new, width), keys.transpose(1, 2))
    if cap > 0:
        scores = scores.div_(cap).tanh_().mul_(cap)
    if hidden is not None:
        scores.view(batch, groups * shared, new, -1).masked_fill_(hidden.unsqueeze(1), float("-inf"))
    out = torch.bmm(scores.softmax(-1), values)
    if new == 1:
        return out.view(batch, 1, heads, -1)
    return out.view(batch, heads, new, -1).transpose(1, 2)
