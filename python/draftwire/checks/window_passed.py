"""A draft that was trained with a sliding window is served with it.

What: `layer_types` and `sliding_window` in the draft's config against `--speculative-draft-window-size`.

Why: the newest speculators trainer uses a window of 2,048 in every layer by default. SGLang ignores these keys in
all releases; since 0.5.12 it has a flag, for Llama-type drafts only. Without it, what the draft does beyond its
window was never trained: fine at short prompts, worse past 2,048 tokens. A window of W counts the token's own, the
flag's the keys before it: W - 1.

Example: `"layer_types": ["sliding_attention"], "sliding_window": 2048` and no flag.

Remedy: `--speculative-draft-window-size 2047`, or draftwire's overlay, which reads the config.

Reports:
- https://github.com/vllm-project/speculators/pull/692
"""

from draftwire.case import Case
from draftwire.finding import Finding, error, ok, skipped, warning

FLAG = "speculative-draft-window-size"


def check(case: Case) -> Finding:
    types, window = case.layer.get("layer_types"), case.layer.get("sliding_window")
    kinds = {kind for kind in types if isinstance(kind, str)} if isinstance(types, list) else set()
    sliding = "sliding_attention" in kinds
    said = case.flags.number(FLAG) if case.flags else None
    if not sliding:
        if said is not None:
            return warning(
                "A window is served that the config does not speak of.", f"--{FLAG} {said}",
                remedy="Leave the flag out, unless the draft was trained with this window.",
            )  # fmt: skip
        return ok("The draft attends to everything.")
    seen = f"layer_types {types}, sliding_window {window!r}"[:160]
    if type(window) is not int or window <= 0:
        return error("Layers slide, but there is no window.", seen, remedy="Write the trained sliding_window.")
    if case.is_mla:
        return error("No release serves an MLA draft with a window.", seen, remedy="Train it with full attention.")
    if case.delivery == "overlay" and not case.is_nested:
        if said in (None, window - 1):
            return ok("The overlay reads the window from the config.", seen)
        return error(
            f"--{FLAG} {said} is not the trained window.", seen, remedy=f"Say {window - 1}, or leave the flag out.",
        )  # fmt: skip
    if not case.has("window_flag"):
        return error(f"SGLang {case.release} serves no window.", seen, remedy="Serve with 0.5.14 or later.")
    if len(kinds) > 1:
        return error("The flag gives every layer a window.", seen, remedy="Serve with draftwire's overlay.")
    if case.flags is None:
        return skipped("the draft has a window, and no launch flags were named")
    if said != window - 1:
        return error(
            f"The draft was trained to attend to {window} tokens.", seen, f"--{FLAG} {said}",
            remedy=f"Say --{FLAG} {window - 1}.",
        )  # fmt: skip
    return ok("The flag is the trained window.", seen, f"--{FLAG} {said}")
