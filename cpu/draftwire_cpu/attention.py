"""The two attention operators of SGLang's `intel_amx` backend: `decode_attention_cpu` and `extend_attention_cpu`.

`register` makes them `torch.ops.sgl_kernel.*` for CPU tensors. They share these arguments, for B requests of H query
heads and G key heads (H a multiple of G; MLA has G = 1):

- q [tokens, H, D], o [tokens, H, Dv] (written), k_buffer [slots, G, D], v_buffer [slots, G, Dv]: floating point. All
  sums are in float32. Where v_buffer starts at k_buffer's address it is its first Dv columns (MLA).
- req_to_token integer [requests, pool_len]; req_pool_indices, seq_lens integer [B]: request i attends to the slots
  `req_to_token[req_pool_indices[i], :seq_lens[i]]`.
- sm_scale multiplies q k; logit_cap c, where above 0, then turns a score s into c * tanh(s / c).
- sliding_window, where above 0, is how many of the newest tokens a query sees, itself included.
- attn_logits and max_len_extend are scratch space and sizes of other builds, unused.

NotImplementedError for is_cross_attn, encoder_lens, sinks, and for k_scale or v_scale other than 1.
"""

import torch

from draftwire_cpu.batch_attention import attend_batch
from draftwire_cpu.kv_cache import KVCache
from draftwire_cpu.refusals import expect_shape, refuse
from draftwire_cpu.softmax import Rule

LIBRARY = torch.library.Library("sgl_kernel", "FRAGMENT")
DECODE = (
    "decode_attention_cpu(Tensor q, Tensor(a!) k_buffer, Tensor(b!) v_buffer, float k_scale, float v_scale, "
    "Tensor(c!) o, Tensor? k, Tensor? v, Tensor loc, Tensor attn_logits, Tensor req_to_token, "
    "Tensor req_pool_indices, Tensor seq_lens, float sm_scale, float logit_cap, bool is_cross_attn, "
    "int sliding_window, Tensor? encoder_lens, Tensor? sinks) -> ()"
)
EXTEND = (
    "extend_attention_cpu(Tensor q, Tensor? k, Tensor? v, Tensor(a!) o, Tensor k_buffer, Tensor v_buffer, "
    "float k_scale, float v_scale, Tensor req_to_token, Tensor req_pool_indices, Tensor seq_lens, "
    "Tensor extend_seq_lens, Tensor extend_start_loc, int max_len_extend, float sm_scale, float logit_cap, "
    "bool is_cross_attn, int sliding_window, Tensor? encoder_lens, Tensor? sinks, Tensor? tree_mask, "
    "bool is_causal) -> ()"
)


def register() -> None:
    """Define both operators, for the life of the process. RuntimeError where another build has defined them."""
    LIBRARY.define(DECODE)
    LIBRARY.define(EXTEND)
    LIBRARY.impl("decode_attention_cpu", decode_attention_cpu, "CPU")
    LIBRARY.impl("extend_attention_cpu", extend_attention_cpu, "CPU")


def decode_attention_cpu(
    q: torch.Tensor,
    k_buffer: torch.Tensor,
    v_buffer: torch.Tensor,
    k_scale: float,
    v_scale: float,
    o: torch.Tensor,
    k: torch.Tensor | None,
    v: torch.Tensor | None,
    loc: torch.Tensor,
    attn_logits: torch.Tensor,
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,
    sm_scale: float,
    logit_cap: float,
    is_cross_attn: bool,
    sliding_window: int,
    encoder_lens: torch.Tensor | None,
    sinks: torch.Tensor | None,
) -> None:
    """Store the newest token of each request, then attend from it over the whole sequence, itself included.

    One token a request: q [B, H, D]. k, v: B * G * D and B * G * Dv elements, written to the buffers at slots loc
    (integer [B]), v only where it has memory of its own; both None where they are stored already. See the module for
    the rest. Raises ValueError on other shapes or an empty sequence.
    """
    name = "decode_attention_cpu"
    _refuse_unsupported(name, k_scale, v_scale, is_cross_attn, encoder_lens, sinks)
    batch = seq_lens.numel()
    expect_shape(name, "q", q, (batch, *q.shape[1:]))
    cache = KVCache(k_buffer, v_buffer, req_to_token)
    if k is not None:
        expect_shape(name, "loc", loc, (batch,))
        cache.store(loc, k, v)
    rule = Rule(sm_scale, logit_cap, sliding_window, True)
    attend_batch(name, q, None, o, cache, (req_pool_indices, seq_lens, [1] * batch, list(range(batch))), rule, None)


def extend_attention_cpu(
    q: torch.Tensor,
    k: torch.Tensor | None,
    v: torch.Tensor | None,
    o: torch.Tensor,
    k_buffer: torch.Tensor,
    v_buffer: torch.Tensor,
    k_scale: float,
    v_scale: float,
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,
    extend_seq_lens: torch.Tensor,
    extend_start_loc: torch.Tensor,
    max_len_extend: int,
    sm_scale: float,
    logit_cap: float,
    is_cross_attn: bool,
    sliding_window: int,
    encoder_lens: torch.Tensor | None,
    sinks: torch.Tensor | None,
    tree_mask: torch.Tensor | None,
    is_causal: bool,
) -> None:
    """Attend from several new tokens a request over its cached prefix and the new tokens; stores nothing.

    extend_seq_lens, extend_start_loc: integer [B]; the new tokens of request i, its last, are those rows of q.
    k, v: the new tokens' keys and values, [tokens, G, D] and [tokens, G, Dv] or flat in a row; None where they are
    read from the buffers as the prefix is. Where no request has a prefix they may have other heads and widths than
    the buffers (an MLA prefill that was not absorbed). tree_mask: bool, a flat E * E block for each request of E new
    tokens, which of them each of them sees; without it they see what precedes them if is_causal, else all. See the
    module for the rest. Raises ValueError on other shapes.
    """
    name = "extend_attention_cpu"
    _refuse_unsupported(name, k_scale, v_scale, is_cross_attn, encoder_lens, sinks)
    cache = KVCache(k_buffer, v_buffer, req_to_token)
    requests = (req_pool_indices, seq_lens, extend_seq_lens.tolist(), extend_start_loc.tolist())
    rule = Rule(sm_scale, logit_cap, sliding_window, is_causal)
    attend_batch(name, q, None if k is None else (k, v), o, cache, requests, rule, tree_mask)


def _refuse_unsupported(
    function: str,
    k_scale: float,
    v_scale: float,
    is_cross_attn: bool,
    encoder_lens: torch.Tensor | None,
    sinks: torch.Tensor | None,
) -> None:
    if is_cross_attn:
        refuse(function, "is_cross_attn", True, "self-attention")
    if encoder_lens is not None:
        refuse(function, "encoder_lens", list(encoder_lens.shape), "models without an encoder")
    if sinks is not None:
        refuse(function, "sinks", list(sinks.shape), "attention without sinks")
    if k_scale != 1.0 or v_scale != 1.0:
        refuse(function, "k_scale, v_scale", (k_scale, v_scale), "a cache stored at scale 1")
