"""Moving rows of the KV cache from slot to slot, in all layers at once."""

import ctypes

import torch

from draftwire_cpu.refusals import expect_shape


def copy_all_layer_kv_cache_cpu(
    data_ptrs: torch.Tensor, strides: torch.Tensor, tgt_loc: torch.Tensor, src_loc: torch.Tensor
) -> None:
    """Copy rows `src_loc` to rows `tgt_loc` in every K and V buffer; all rows are read before any is written.

    data_ptrs: uint64 [buffers], the address of each buffer's row 0. strides: int64 [buffers], bytes from row to row,
    which is also what is copied. tgt_loc, src_loc: integer [rows], slots.
    Raises ValueError on other shapes or a negative slot. The end of a buffer is not known here and not checked.
    """
    name = "copy_all_layer_kv_cache_cpu"
    expect_shape(name, "strides", strides, data_ptrs.shape)
    expect_shape(name, "src_loc", src_loc, tgt_loc.shape)
    if not tgt_loc.numel():
        return
    low = min(int(tgt_loc.min()), int(src_loc.min()))
    if low < 0:
        raise ValueError(f"{name}: slots must be 0 or more, found {low}")
    rows = max(int(tgt_loc.max()), int(src_loc.max())) + 1
    for address, stride in zip(data_ptrs.tolist(), strides.tolist(), strict=True):
        memory = (ctypes.c_uint8 * (rows * stride)).from_address(address)
        buffer = torch.frombuffer(memory, dtype=torch.uint8).view(rows, stride)
        buffer.index_copy_(0, tgt_loc.long(), buffer.index_select(0, src_loc))
