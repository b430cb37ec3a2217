"""The draft's heads have a size that attention backends are built for, and divide among the ranks.

What: `head_dim` of a Llama-type draft (else hidden size / heads), the number of heads, and `--tp-size`.

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


def check(case: Case) -> Finding:
    heads, hidden = case.size("num_attention_heads"), case.size("hidden_size")
    if heads is None or hidden is None:
        return skipped("the config says no usable num_attention_heads and hidden_size")
    ranks = (case.flags.number("tp-size") or 1) if case.flags else 1
    if ranks < 1 or heads % ranks:
        return error(
            f"{heads} heads do not divide among {ranks} ranks.", f"num_attention_heads {heads}", f"--tp-size {ranks}",
            remedy="Serve with a number of ranks that divides the heads.",
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
