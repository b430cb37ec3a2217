"""Random caches and batches for the attention operators, and what they must give, by scaled_dot_product_attention."""

from dataclasses import dataclass, field

import torch
from torch.nn.functional import scaled_dot_product_attention

SCALE = 0.3


@dataclass
class Batch:
    """B requests in a cache whose unused rows are NaN and whose unused table entries point outside it.

    lens: tokens of each request; new: how many of its last are queries. mla: values are the first Dv columns of keys.
    """

    lens: list[int]
    new: list[int]
    heads: int = 4
    groups: int = 2
    width: int = 8
    value_width: int = 8
    mla: bool = False
    dtype: torch.dtype = torch.float32
    seed: int = 0
    rows: list[torch.Tensor] = field(init=False)

    def __post_init__(self):
        generator = torch.Generator().manual_seed(self.seed)
        batch, total = len(self.lens), sum(self.lens)
        self.keys = torch.full((total + 5, self.groups, self.width), float("nan"), dtype=self.dtype)
        shape = (total + 5, self.groups, self.value_width)
        self.values = (
            self.keys[..., : self.value_width] if self.mla else torch.full(shape, float("nan"), dtype=self.dtype)
        )
        order = (torch.randperm(total + 5, generator=generator)[:total]).split(self.lens)
        self.rows = [slots.long() for slots in order]
        for buffer in (self.values, self.keys):
            used = torch.cat(self.rows)
            buffer[used] = torch.randn((total, *buffer.shape[1:]), generator=generator).to(self.dtype)
        self.requests = torch.randperm(batch + 3, generator=generator)[:batch]
        self.table = torch.full((batch + 3, max(self.lens) + 4), 10**6, dtype=torch.int32)
        for request, slots in zip(self.requests.tolist(), self.rows, strict=True):
            self.table[request, : len(slots)] = slots.int()
        self.q = torch.randn((sum(self.new), self.heads, self.width), generator=generator).to(self.dtype)

    @property
    def starts(self) -> list[int]:
        return [sum(self.new[:i]) for i in range(len(self.new))]

    def empty_output(self) -> torch.Tensor:
        return torch.full((len(self.q), self.heads, self.value_width), float("nan"), dtype=self.dtype)

    def newest(self) -> torch.Tensor:
        """Slots of the new tokens, in the order of q's rows."""
        return torch.cat([slots[len(slots) - n :] for slots, n in zip(self.rows, self.new, strict=True)])

    def expected(self, window: int = 0, causal: bool = True, trees: list | None = None) -> torch.Tensor:
        """What each query must get, from torch's own attention, one request at a time and one cell at a time."""
        outputs = []
        for i, slots in enumerate(self.rows):
            n, new = self.lens[i], self.new[i]
            seen = torch.zeros((new, n), dtype=torch.bool)
            for query in range(new):
                for key in range(n):
                    at = n - new + query
                    before = key <= at or not causal
                    if trees is not None:
                        before = key < n - new or bool(trees[i][query, key - (n - new)])
                    seen[query, key] = before and (window <= 0 or at - key < window)
            q = self.q[self.starts[i] : self.starts[i] + new]
            q, k, v = (t.float().transpose(0, 1) for t in (q, self.keys[slots], self.values[slots]))
            out = scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=SCALE, enable_gqa=True)
            outputs.append(out.transpose(0, 1))
        return torch.cat(outputs)


def decode_arguments(batch: Batch, k=None, v=None, window=0, cap=0.0) -> dict:
    """Arguments of torch.ops.sgl_kernel.decode_attention_cpu, in its order."""
    return {
        "q": batch.q, "k_buffer": batch.keys, "v_buffer": batch.values, "k_scale": 1.0, "v_scale": 1.0,
        "o": batch.empty_output(), "k": k, "v": v, "loc": batch.newest(), "attn_logits": torch.zeros(()),
        "req_to_token": batch.table, "req_pool_indices": batch.requests, "seq_lens": torch.tensor(batch.lens),
        "sm_scale": SCALE, "logit_cap": cap, "is_cross_attn": False, "sliding_window": window,
        "encoder_lens": None, "sinks": None,
    }  # fmt: skip


def extend_arguments(batch: Batch, k=None, v=None, window=0, cap=0.0, causal=True, trees=None) -> dict:
    """Arguments of torch.ops.sgl_kernel.extend_attention_cpu, in its order."""
    return {
        "q": batch.q, "k": k, "v": v, "o": batch.empty_output(), "k_buffer": batch.keys, "v_buffer": batch.values,
        "k_scale": 1.0, "v_scale": 1.0, "req_to_token": batch.table, "req_pool_indices": batch.requests,
        "seq_lens": torch.tensor(batch.lens), "extend_seq_lens": torch.tensor(batch.new, dtype=torch.int32),
        "extend_start_loc": torch.tensor(batch.starts, dtype=torch.int32), "max_len_extend": max(batch.new),
        "sm_scale": SCALE, "logit_cap": cap, "is_cross_attn": False, "sliding_window": window, "encoder_lens": None,
        "sinks": None, "tree_mask": None if trees is None else torch.cat([t.reshape(-1) for t in trees]),
        "is_causal": causal,
    }  # fmt: skip


def decode(batch: Batch, *given, changed: dict | None = None, **options) -> torch.Tensor:
    """Call the operator, with arguments changed by name, and return o."""
    arguments = decode_arguments(batch, *given, **options) | (changed or {})
    torch.ops.sgl_kernel.decode_attention_cpu(*arguments.values())
    return arguments["o"]


def extend(batch: Batch, *given, changed: dict | None = None, **options) -> torch.Tensor:
    """Call the operator, with arguments changed by name, and return o."""
    arguments = extend_arguments(batch, *given, **options) | (changed or {})
    torch.ops.sgl_kernel.extend_attention_cpu(*arguments.values())
    return arguments["o"]
