"""The draft's heads have a size that attention backends are built for, and divide among the ranks.

What: `head_dim` of a Llama-type draft (else hidden size / heads), the numbers of heads and key-value heads, and
`--tp-size`, with DP attention divided by `--dp-size`.

Why: trainers copy the geometry of the target. A DeepSeek config gives a draft 64 by its RoPE part, a remote-code config
without head_dim gives 7168 / 64 = 112, for which FlashInfer has no kernel; public drafts use 128. Heads that do not
divide by the number of ranks end the start.

Example: a Llama-type draft of Kimi-K2 with head_dim 112.

Remedy: `--speculative-draft-attention-backend triton`, or train with 64 or 128.

Reports:
- https://github.com/lightseekorg/tokenspeed/pull/913
"""

from draftwire.case import Case
from draftwire.finding import Finding, error, ok, skipped, warning

BUILT = (64, 128, 256)
NARROW = ("flashinfer", "trtllm_mha", "cutlass")


def _ranks(case: Case) -> int:
    """Those among which attention is divided; with DP attention each group has its own."""
    if case.flags is None:
        return 1
    said = case.flags.number("tp-size")
    ranks = 1 if said is None else said
    groups = (case.flags.number("dp-size") or 1) if case.flags.said("enable-dp-attention") else 1
    return ranks // groups if groups > 0 else ranks


def check(case: Case) -> Finding:
    heads, hidden = case.size("num_attention_heads"), case.size("hidden_size")
    if heads is None or hidden is None:
        return skipped("the config says no usable num_attention_heads and hidden_size")
    ranks, groups = _ranks(case), case.size("num_key_value_heads") or heads
    if ranks < 1 or heads % ranks:
        return error(
            f"{heads} heads do not divide among {ranks} ranks.", f"num_attention_heads {heads}",
            remedy="Serve with a number of ranks that divides the heads.",
        )  # fmt: skip
    if not case.is_mla and max(groups, ranks) % min(groups, ranks):
        return error(
            f"{groups} key-value heads neither divide among {ranks} ranks nor the ranks among them.",
            f"num_key_value_heads {groups}", remedy="Serve with a number of ranks that fits the key-value heads too.",
        )  # fmt: skip
    dim = case.size("head_dim") or hidden // heads
    backend = "unsaid"
    if case.flags:
        names = ("speculative-draft-attention-backend", "decode-attention-backend", "attention-backend")
        backend = next((case.flags.text(name) for name in names if case.flags.said(name)), "unsaid")
    if not case.is_mla and dim > 64 and dim not in BUILT and backend in ("unsaid", *NARROW):
        return warning(
            f"head_dim {dim} is not built for every attention backend.", f"attention backend {backend}",
            remedy="Say --speculative-draft-attention-backend triton, and try one request.",
        )  # fmt: skip
    return ok(f"{heads} heads of {'MLA' if case.is_mla else dim}, over {ranks} rank(s).")
