"""Softmax attention in float32 over keys and values that were gathered head by head."""

from typing import NamedTuple

import torch

SCORES = 1 << 24  # float32 scores held at once (64 MiB): a long prompt is attended from in blocks of queries
NOTHING = torch.zeros(())  # what baddbmm adds to q k, at weight 0, so that it scales as it multiplies


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
    G and query head h reads key head h // (H / G). hidden: bool [B or 1, E or 1, N], True where a query
    does not see one of the last N keys, or None. Returns float32 [B, E, H, Dv]. A query that sees no key gets NaN.
    ValueError where the heads or D do not fit.
    """
    batch, new, heads, width = queries.shape
    groups = keys.shape[0] // batch
    if heads % groups or keys.shape[2] != width:
        raise ValueError(
            f"attention: expected query heads in multiples of {groups} key heads, of {keys.shape[2]} each, "
            f"found {heads} of {width}"
        )
    block = max(1, SCORES // (batch * heads * keys.shape[1]))
    if block >= new:
        return _attend(queries, keys, values, hidden, rule)
    blocks = (slice(first, first + block) for first in range(0, new, block))
    return torch.cat([_attend(queries[:, b], keys, values, _of_rows(hidden, b), rule) for b in blocks], 1)


def _of_rows(hidden: torch.Tensor | None, block: slice) -> torch.Tensor | None:
    return hidden if hidden is None or hidden.shape[1] == 1 else hidden[:, block]


def _attend(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, hidden: torch.Tensor | None, rule: Rule
) -> torch.Tensor:
    batch, new, heads, width = queries.shape
    groups = keys.shape[0] // batch
    by_head = new > 1 and groups > 1  # One key head, or one query, needs no other order of rows.
    q = queries.float()
    if by_head:
        q = q.view(batch, new, groups, heads // groups, width).permute(0, 2, 3, 1, 4)
    q = q.reshape(batch * groups, -1, width)
    scores = torch.baddbmm(NOTHING, q, keys.transpose(1, 2), beta=0, alpha=rule.scale)
    if rule.cap > 0:
        scores = scores.div_(rule.cap).tanh_().mul_(rule.cap)
    rows = (batch, heads, new, -1) if by_head else (batch, new, heads, -1)
    if hidden is not None:
        last = scores.view(rows)[..., -hidden.shape[-1] :]
        last.masked_fill_(hidden.unsqueeze(1 if by_head else 2), float("-inf"))
    out = torch.bmm(scores.softmax(-1), values).view(rows)
    return out.transpose(1, 2) if by_head else out
