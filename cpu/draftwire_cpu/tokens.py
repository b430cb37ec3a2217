"""Bookkeeping of token ids and slots between verifying a draft and extending it."""

import torch

from draftwire_cpu.refusals import expect_shape


def fill_bonus_tokens_cpu(
    accept_tokens: torch.Tensor, accept_lens: torch.Tensor, bonus_tokens: torch.Tensor, accept_stride: int
) -> None:
    """The last accepted token of each request: `bonus[i] = accept_tokens[i * accept_stride + accept_lens[i] - 1]`.

    accept_tokens: integer, batch * accept_stride elements. accept_lens: integer [batch], 1 or more (it counts the
    bonus token). bonus_tokens: integer [batch], written.
    Raises ValueError on other shapes or a length outside 1 to accept_stride.
    """
    name = "fill_bonus_tokens_cpu"
    batch = accept_lens.numel()
    expect_shape(name, "bonus_tokens", bonus_tokens, (batch,))
    if accept_tokens.numel() != batch * accept_stride:
        raise ValueError(
            f"{name}: accept_tokens must hold {batch} * {accept_stride} tokens, found {accept_tokens.numel()}"
        )
    lens = accept_lens.tolist()
    if lens and not 1 <= min(lens) <= max(lens) <= accept_stride:
        raise ValueError(f"{name}: accept_lens must lie in 1 to {accept_stride}, found {lens}")
    last = torch.arange(0, batch * accept_stride, accept_stride) + accept_lens - 1
    bonus_tokens.copy_(accept_tokens.reshape(-1)[last])


def fill_accept_out_cache_loc_cpu(
    accept_index: torch.Tensor, out_cache_loc: torch.Tensor, accept_out_cache_loc: torch.Tensor
) -> None:
    """Slots of the accepted draft tokens, packed to the front: those of `out_cache_loc[accept_index]` not at -1.

    accept_index: integer, any shape, -1 where nothing was accepted. out_cache_loc: integer [draft tokens].
    accept_out_cache_loc: integer, written; its end is left as it is. Raises ValueError when that is too short.
    """
    accepted = accept_index[accept_index > -1]
    if accept_out_cache_loc.numel() < accepted.numel():
        raise ValueError(
            f"fill_accept_out_cache_loc_cpu: accept_out_cache_loc must hold {accepted.numel()} slots, "
            f"found {accept_out_cache_loc.numel()}"
        )
    accept_out_cache_loc[: accepted.numel()] = out_cache_loc[accepted].to(accept_out_cache_loc.dtype)


def rotate_input_ids_cpu(
    input_ids: torch.Tensor,
    extend_start_loc: torch.Tensor,
    extend_seq_lens: torch.Tensor,
    topk_index: torch.Tensor,
    select_index: torch.Tensor | None = None,
) -> None:
    """Shift each request's tokens left by one, in place, and write its next token at the end.

    input_ids: integer [tokens]. extend_start_loc, extend_seq_lens: integer [batch], the segment of each request; an
    empty one is left alone. topk_index: integer, batch elements, the next tokens. select_index: integer [batch], the
    places to write them instead of the segments' ends.
    Raises ValueError on other shapes.
    """
    name = "rotate_input_ids_cpu"
    batch = extend_seq_lens.shape
    expect_shape(name, "extend_start_loc", extend_start_loc, batch)
    if topk_index.numel() != extend_seq_lens.numel():
        raise ValueError(f"{name}: topk_index must hold {batch[0]} tokens, found {topk_index.numel()}")
    if select_index is not None:
        expect_shape(name, "select_index", select_index, batch)
    counts = (extend_seq_lens - 1).clamp_(min=0).long()
    first = extend_start_loc - (counts.cumsum(0) - counts)
    kept = torch.repeat_interleave(first, counts)
    kept = kept + torch.arange(kept.numel())
    input_ids[kept] = input_ids[kept + 1]
    last = extend_start_loc + extend_seq_lens - 1 if select_index is None else select_index
    filled = extend_seq_lens > 0
    input_ids[last[filled].long()] = topk_index.reshape(-1)[filled].to(input_ids.dtype)
