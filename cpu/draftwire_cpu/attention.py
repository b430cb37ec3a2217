"""The two attention operators of SGLang's `intel_amx` backend: `decode_attention_cpu` and `extend_attention_cpu`.

Importing this module registers them as `torch.ops.sgl_kernel.*` for CPU tensors.
"""

import torch

from draftwire_cpu.refusals import expect_shape, refuse
from draftwire_cpu.softmax import attend

LIBRARY = torch.library.Library("sgl_kernel", "FRAGMENT")
LIBRARY.define(
    "decode_attention_cpu(Tensor q, Tensor(a!) k_buffer, Tensor(b!) v_buffer, float k_scale, float v_scale, "
    "Tensor(c!) o, Tensor? k, Tensor? v, Tensor loc, Tensor attn_logits, Tensor req_to_token, "
    "Tensor req_pool_indices, Tensor seq_lens, float sm_scale, float logit_cap, bool is_cross_attn, "
    "int sliding_window, Tensor? encoder_lens, Tensor? sinks) -> ()"
)
LIBRARY.define(
    "extend_attention_cpu(Tensor q, Tensor? k, Tensor? v, Tensor(a!) o, Tensor k_buffer, Tensor v_buffer, "
    "float k_scale, float v_scale, Tensor req_to_token, Tensor req_pool_indices, Tensor seq_lens, "
    "Tensor extend_seq_lens, Tensor extend_start_loc, int max_len_extend, float sm_scale, float logit_cap, "
    "bool is_cross_attn, int sliding_window, Tensor? encoder_lens, Tensor? sinks, Tensor? tree_mask, "
    "bool is_causal) -> ()"
)


def decode_attention_cpu(
    q, k_buffer, v_buffer, k_scale, v_scale, o, k, v, loc, attn_logits, req_to_token, req_pool_indices, seq_lens,
    sm_scale, logit_cap, is_cross_attn, sliding_window, encoder_lens, sinks,
):  # fmt: skip
    """Store the newest token's key and value of each request, then attend over its whole sequence."""
    name = "decode_attention_cpu"
    _refuse_unsupported(name, k_scale, v_scale, k_buffer, is_cross_attn, encoder_lens, sinks)
    if k is not None:
        k_buffer.index_copy_(0, loc, k.view(-1, *k_buffer.shape[1:]).to(k_buffer.dtype))
        if not _shares_memory(k_buffer, v_buffer):
            v_buffer.index_copy_(0, loc, v.view(-1, *v_buffer.shape[1:]).to(v_buffer.dtype))
    for i, (r, n) in enumerate(zip(req_pool_indices.tolist(), seq_lens.tolist(), strict=True)):
        first = max(0, n - sliding_window) if sliding_window > 0 else 0
        slots = req_to_token[r, first:n]
        keys, values = _rows(k_buffer, v_buffer, slots)
        o[i] = attend(q[i : i + 1, None], keys[None], values[None], None, sm_scale, logit_cap)[0, 0]


def extend_attention_cpu(
    q, k, v, o, k_buffer, v_buffer, k_scale, v_scale, req_to_token, req_pool_indices, seq_lens, extend_seq_lens,
    extend_start_loc, max_len_extend, sm_scale, logit_cap, is_cross_attn, sliding_window, encoder_lens, sinks,
    tree_mask, is_causal,
):  # fmt: skip
    """Attend from several new tokens a request over the cached prefix and the new tokens."""
    name = "extend_attention_cpu"
    _refuse_unsupported(name, k_scale, v_scale, k_buffer, is_cross_attn, encoder_lens, sinks)
    cell = 0
    for r, n, new, at in zip(
        req_pool_indices.tolist(), seq_lens.tolist(), extend_seq_lens.tolist(), extend_start_loc.tolist(), strict=True
    ):
        if new == 0:
            continue
        prefix = n - new
        if k is None:
            keys, values = _rows(k_buffer, v_buffer, req_to_token[r, :n])
        else:
            keys, values = k[at : at + new], v[at : at + new]
            if prefix or keys.dim() == 2:
                keys = keys.reshape(new, *k_buffer.shape[1:])
                values = values.reshape(new, *v_buffer.shape[1:])
            if prefix:
                old_keys, old_values = _rows(k_buffer, v_buffer, req_to_token[r, :prefix])
                keys = torch.cat([old_keys.to(keys.dtype), keys])
                values = torch.cat([old_values.to(values.dtype), values])
        mask = torch.ones((new, n), dtype=torch.bool)
        if tree_mask is not None:
            mask[:, prefix:] = tree_mask.view(-1)[cell : cell + new * new].view(new, new)
            cell += new * new
        elif is_causal:
            mask = mask.tril(prefix)
        if sliding_window > 0:
            mask = mask.triu(prefix - sliding_window + 1)
        o[at : at + new] = attend(q[None, at : at + new], keys[None], values[None], mask, sm_scale, logit_cap)[0]


def _rows(k_buffer, v_buffer, slots):
    keys = k_buffer.index_select(0, slots)
    if _shares_memory(k_buffer, v_buffer):
        return keys, keys[..., : v_buffer.shape[-1]]
    return keys, v_buffer.index_select(0, slots)


def _shares_memory(k_buffer, v_buffer):
    return k_buffer.data_ptr() == v_buffer.data_ptr()


def _refuse_unsupported(function, k_scale, v_scale, k_buffer, is_cross_attn, encoder_lens, sinks):
    if is_cross_attn:
        refuse(function, "is_cross_attn", True, "self-attention")
    if encoder_lens is not None:
        refuse(function, "encoder_lens", list(encoder_lens.shape), "decoders")
    if sinks is not None:
        refuse(function, "sinks", list(sinks.shape), "attention without sinks")
    if k_scale != 1.0 or v_scale != 1.0:
        refuse(function, "k_scale, v_scale", (k_scale, v_scale), "an unscaled cache")


LIBRARY.impl("decode_attention_cpu", decode_attention_cpu, "CPU")
LIBRARY.impl("extend_attention_cpu", extend_attention_cpu, "CPU")
