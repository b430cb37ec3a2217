"""The attention backend can verify the tree of drafts that is asked for.

What: `--speculative-eagle-topk` above 1 against the attention backend, `--page-size`, and SGLANG_ENABLE_SPEC_V2.

Why: a tree with pages of more than one token needs a backend that tells branches apart: flashinfer and fa3, from
0.5.13 on triton too. trtllm_mha takes topk 1 only, as does SGLANG_ENABLE_SPEC_V2 until 0.5.10.post1; flashmla,
trtllm_mla and cutlass_mla bring pages of their own.

Example: `--attention-backend flashmla --speculative-eagle-topk 4`.

Remedy: topk 1, or page size 1, or one of the backends named.

Reports:
- https://github.com/sgl-project/sglang/issues/11948
- https://github.com/lightseekorg/tokenspeed/pull/913
"""

from draftwire.case import Case
from draftwire.finding import Finding, error, ok, skipped

PAGED = {"flashmla": 64, "trtllm_mla": 64, "cutlass_mla": 128, "tokenspeed_mla": 64}


def check(case: Case) -> Finding:
    if case.flags is None:
        return skipped("no launch flags were named")
    topk = case.flags.number("speculative-eagle-topk") or 1
    if topk == 1:
        return ok("No tree.", f"--speculative-eagle-topk {topk}")
    backends = [case.flags.text(f"{p}attention-backend") for p in ("", "decode-", "prefill-")]
    if "trtllm_mha" in backends:
        return error("trtllm_mha takes topk 1 only.", f"topk {topk}", remedy="Say topk 1 or another backend.")
    asks_v2 = case.environment.get("SGLANG_ENABLE_SPEC_V2", "").lower() in ("1", "true")
    if asks_v2 and not case.has("spec_v2_trees"):
        return error(
            f"SGLang {case.release} with SGLANG_ENABLE_SPEC_V2 takes topk 1 only.", f"topk {topk}",
            remedy="Say topk 1, or unset SGLANG_ENABLE_SPEC_V2.",
        )  # fmt: skip
    able = ("flashinfer", "fa3", "triton") if case.has("page_tree_triton") else ("flashinfer", "fa3")
    page = case.flags.number("page-size") or max(PAGED.get(backend, 1) for backend in backends)
    unable = [backend for backend in backends if backend and backend not in able]
    if page > 1 and not any(backends):
        return skipped(f"topk {topk} with pages of {page}: no --attention-backend is said, the GPU decides")
    if page > 1 and unable:
        return error(
            f"{unable[0]} cannot verify a tree over pages.", f"topk {topk}, pages of {page}",
            remedy=f"Say topk 1, --page-size 1, or --attention-backend {' or '.join(able)}.",
        )  # fmt: skip
    named = " ".join(filter(None, backends)) or "unsaid"
    return ok(f"A tree of topk {topk} over pages of {page}.", f"attention backend {named}")
