"""The two attention operators of SGLang's `intel_amx` backend: `decode_attention_cpu` and `extend_attention_cpu`.

Importing this module registers them as `torch.ops.sgl_kernel.*` for CPU tensors. They share these arguments, for B
requests of H query heads and G key heads (H a multiple of G; MLA has G = 1):

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

from draftwire_cpu.refusals import expect_shape, refuse
from draftwire_cpu.sequences import Sequences

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
