"""Bookkeeping of KV-cache slots in `req_to_token`, the table of one row of slots a request.

`req_to_token` is int32 [max requests, pool_len], contiguous: entry [r, t] is the cache slot of token t of the request
in row r. Every function takes all requests of a batch at once and works on flat indices into that table.
"""

import torch

from draftwire_cpu.refusals import expect_shape, expect_table


def assign_req_to_token_pool_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offset: torch.Tensor,
    end_offset: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,
) -> None:
    """Write newly allocated slots into each request's row: `req_to_token[r, s:e] = next e - s slots`.

    req_pool_indices, start_offset, end_offset: integer [batch]. req_to_token: int32 [requests, pool_len], written.
    out_cache_loc: integer [sum(e - s)] or longer, slots of request 0 first.
    Raises ValueError on other shapes, an end beyond pool_len or too few slots.
    """
    name = "assign_req_to_token_pool_cpu"
    flat = _ranges(name, req_pool_indices, req_to_token, start_offset, end_offset, pool_len)
    _expect_room(name, out_cache_loc, flat.numel())
    req_to_token.view(-1)[flat] = out_cache_loc[: flat.numel()].to(req_to_token.dtype)


def assign_extend_cache_locs_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offset: torch.Tensor,
    end_offset: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,
) -> None:
    """Read each request's range of slots, one after another: `out = concat(req_to_token[r, s:e])`.

    req_pool_indices, start_offset, end_offset: integer [batch]. req_to_token: int32 [requests, pool_len].
    out_cache_loc: integer [sum(e - s)] or longer, written; what lies past the last range is left as it is.
    Raises ValueError on other shapes, an end beyond pool_len or too short an output.
    """
    name = "assign_extend_cache_locs_cpu"
    flat = _ranges(name, req_pool_indices, req_to_token, start_offset, end_offset, pool_len)
    _expect_room(name, out_cache_loc, flat.numel())
    out_cache_loc[: flat.numel()] = req_to_token.view(-1)[flat].to(out_cache_loc.dtype)


def assign_draft_cache_locs_contiguous_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,
    topk: int,
    num_steps: int,
) -> None:
    """Read the slots that drafting writes: `out[i] = req_to_token[r, L : L + topk * num_steps]`.

    req_pool_indices, seq_lens (L): integer [batch]. req_to_token: int32 [requests, pool_len].
    out_cache_loc: integer [batch * topk * num_steps], written.
    Raises ValueError on other shapes or a range beyond pool_len.
    """
    name = "assign_draft_cache_locs_contiguous_cpu"
    width = topk * num_steps
    _expect_batch(name, req_pool_indices, req_to_token, "seq_lens", seq_lens, pool_len)
    expect_shape(name, "out_cache_loc", out_cache_loc, (seq_lens.numel() * width,))
    _expect_inside(name, max(seq_lens.tolist(), default=0) + width, pool_len)
    columns = seq_lens[:, None] + torch.arange(width)
    flat = (req_pool_indices * pool_len)[:, None] + columns
    out_cache_loc.copy_(req_to_token.view(-1)[flat.view(-1)])


def build_draft_decode_metadata_cpu(
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,
    topk: int,
    num_steps: int,
    pool_len: int,
) -> torch.Tensor:
    """Slots that each of a request's topk draft branches attends to: the shared prefix, then the branch's own.

    req_to_token: int32 [requests, pool_len]. req_pool_indices, seq_lens (L): integer [batch].
    Returns [batch * topk, max(L) + num_steps] of req_to_token's dtype; row i * topk + t holds
    req_to_token[r, :L], then req_to_token[r, L + t * num_steps : L + (t + 1) * num_steps], then zeros.
    Raises ValueError on other shapes or branches beyond pool_len.
    """
    name = "build_draft_decode_metadata_cpu"
    _expect_batch(name, req_pool_indices, req_to_token, "seq_lens", seq_lens, pool_len)
    longest = max(seq_lens.tolist(), default=0)
    _expect_inside(name, longest + topk * num_steps, pool_len)
    column = torch.arange(longest + num_steps)
    length = seq_lens[:, None, None]
    branch = torch.arange(topk)[:, None] * num_steps
    source = column + branch * (column >= length)
    used = column < length + num_steps
    flat = (req_pool_indices * pool_len)[:, None, None] + source
    table = req_to_token.view(-1)[flat.where(used, flat.new_zeros(()))]
    return table.masked_fill_(~used, 0).view(-1, longest + num_steps)


def _ranges(
    function: str,
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start: torch.Tensor,
    end: torch.Tensor,
    pool_len: int,
) -> torch.Tensor:
    """Flat indices, int64 [sum(end - start)], of `req_to_token[r, start:end]` for all requests in turn."""
    _expect_batch(function, req_pool_indices, req_to_token, "start_offset", start, pool_len)
    expect_shape(function, "end_offset", end, start.shape)
    starts, ends = start.tolist(), end.tolist()
    if any(e < s for s, e in zip(starts, ends, strict=True)):
        raise ValueError(f"{function}: end_offset must not lie before start_offset, found {starts} to {ends}")
    _expect_inside(function, max(ends, default=0), pool_len)
    counts = end - start
    first = req_pool_indices * pool_len + start - (counts.cumsum(0) - counts)
    return torch.repeat_interleave(first, counts) + torch.arange(sum(ends) - sum(starts))


def _expect_batch(
    function: str,
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    name: str,
    lengths: torch.Tensor,
    pool_len: int,
) -> None:
    expect_table(function, req_to_token, pool_len)
    expect_shape(function, name, lengths, req_pool_indices.shape)


def _expect_inside(function: str, end: int, pool_len: int) -> None:
    if end > pool_len:
        raise ValueError(f"{function}: slots must end at pool_len {pool_len} or before, found {end}")


def _expect_room(function: str, out_cache_loc: torch.Tensor, wanted: int) -> None:
    if out_cache_loc.numel() < wanted:
        raise ValueError(f"{function}: out_cache_loc must hold {wanted} slots, found {out_cache_loc.numel()}")
