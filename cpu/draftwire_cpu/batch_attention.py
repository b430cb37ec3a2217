"""Attention of a batch of requests, in runs of requests that fit together."""

import torch

from draftwire_cpu.batching import parts
from draftwire_cpu.kv_cache import KVCache, by_head
from draftwire_cpu.masks import hidden
from draftwire_cpu.refusals import expect_shape
from draftwire_cpu.softmax import Rule, attend


def attend_batch(
    function: str,
    q: torch.Tensor,
    new_rows: tuple[torch.Tensor, torch.Tensor] | None,
    o: torch.Tensor,
    cache: KVCache,
    requests: tuple[torch.Tensor, torch.Tensor, list[int], list[int]],
    rule: Rule,
    tree_mask: torch.Tensor | None,
) -> None:
    """Attend from each request's last tokens over its sequence, into o.

    q [tokens, H, D], o [tokens, H, Dv]. new_rows: keys and values of q's tokens, or None where the cache holds them.
    requests: rows of the cache's table and lengths, integer [B], and per request how many of its last tokens are
    queries and the first one's row in q. tree_mask: bool, an E * E block a request, or None. function: whose
    arguments the ValueErrors speak of.
    """
    indices, seq_lens, new_lens, starts = requests
    lens = seq_lens.tolist()
    _expect_requests(function, q, o, indices, lens, new_lens, starts, tree_mask)
    cell = 0
    for part, width in parts(lens, new_lens, starts, cache.row_elements(), rule.window):
        new, batch = new_lens[part.start], part.stop - part.start
        if new == 0:
            continue
        rows = slice(starts[part.start], starts[part.start] + batch * new)
        given = None if new_rows is None else _given(new_rows, cache, rows, batch, new)
        padding = None
        if given is not None and width == new:
            keys, values = given
        else:
            slots, padding = cache.slots(indices[part], seq_lens[part], width, min(lens[part]) < width)
            keys, values = cache.gather(slots, batch)
            if given is not None:
                _overwrite(function, keys, values, given, new, cache)
        tree = None
        if tree_mask is not None:
            tree = tree_mask[cell : cell + batch * new * new].view(batch, new, new)
            cell += batch * new * new
        unseen = hidden(padding, width, new, rule.causal, rule.window, tree)
        queries, out = (t[rows].view(batch, new, *t.shape[1:]) for t in (q, o))
        out.copy_(attend(queries, keys, values, unseen, rule))


def _given(
    new_rows: tuple[torch.Tensor, torch.Tensor], cache: KVCache, rows: slice, batch: int, new: int
) -> list[torch.Tensor]:
    """The new tokens' keys and values by head; flat rows have the cache's heads, others may have their own."""
    return [
        by_head(tensor[rows].reshape(batch, new, *(tensor.shape[1:] if tensor.dim() == 3 else buffer.shape[1:])))
        for tensor, buffer in zip(new_rows, (cache.keys, cache.values), strict=True)
    ]


def _overwrite(
    function: str, keys: torch.Tensor, values: torch.Tensor, given: list[torch.Tensor], new: int, cache: KVCache
) -> None:
    """Put the new tokens' given rows in place of what was gathered at the ends of the requests."""
    expect_shape(function, "k by head beside a cached prefix", given[0], (keys.shape[0], new, keys.shape[2]))
    keys[:, -new:] = given[0]
    if not cache.values_in_keys():
        values[:, -new:] = given[1]


def _expect_requests(
    function: str,
    q: torch.Tensor,
    o: torch.Tensor,
    indices: torch.Tensor,
    lens: list[int],
    new_lens: list[int],
    starts: list[int],
    tree_mask: torch.Tensor | None,
) -> None:
    if not len(lens) == len(new_lens) == len(starts) == indices.numel():
        raise ValueError(
            f"{function}: one length, query count and first row a request of req_pool_indices "
            f"({indices.numel()}) expected, found {len(lens)}, {len(new_lens)}, {len(starts)}"
        )
    if o.shape[:2] != q.shape[:2]:
        raise ValueError(f"{function}: o must begin with q's {list(q.shape[:2])}, found {list(o.shape)}")
    if any(length < new for length, new in zip(lens, new_lens, strict=True)):
        raise ValueError(f"{function}: seq_lens must hold the query counts {new_lens}, found {lens}")
    if tree_mask is not None:
        cells = sum(new * new for new in new_lens)
        expect_shape(function, "tree_mask", tree_mask, (cells,))
        if tree_mask.dtype != torch.bool:
            raise ValueError(f"{function}: tree_mask must be bool, found {tree_mask.dtype}")
