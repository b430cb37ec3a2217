"""The release has a class for this draft, and its config is in the form that class reads.

What: the config's form and `architectures`, the number of its layers, and the release.

Why: no release reads speculators' nested form; MLA drafts came with 0.5.12, more than one layer too; a class that a
release does not know is built as another model or not at all.

Example: `kimi-k2.6-eagle3-mla` on SGLang 0.5.11; a directory that speculators saved.

Remedy: `draftwire convert` writes the flat form; for an MLA draft or several layers, SGLang 0.5.12 or later.

Reports:
- https://github.com/sgl-project/sglang/issues/25673
- https://github.com/sgl-project/sglang/pull/24663
"""

from draftwire.case import Case
from draftwire.draft import MLA_CLASS
from draftwire.finding import Finding, error, ok

LLAMA = "LlamaForCausalLMEagle3"


def check(case: Case) -> Finding:
    named = f"architectures {case.architectures} in config.json"
    if case.is_nested:
        return error(
            "No release of SGLang reads speculators' nested config.", "transformer_layer_config in config.json",
            remedy="Run `draftwire convert` and serve what it writes.",
        )  # fmt: skip
    if not {LLAMA, MLA_CLASS} & set(case.architectures):
        return error(
            "SGLang has no class of this name for an EAGLE-3 draft.", named,
            remedy=f"Write {MLA_CLASS if case.is_mla else LLAMA} into architectures, or run `draftwire convert`.",
        )  # fmt: skip
    if case.is_mla and not case.has("mla_draft"):
        return error(
            f"SGLang {case.release} has no MLA draft.", named, remedy="Serve with SGLang 0.5.12 or later.",
        )  # fmt: skip
    layers = case.layer.get("num_hidden_layers", 1)
    if layers != 1 and (case.is_mla or not case.has("any_layers")):
        limit = "an MLA draft" if case.is_mla else f"a draft on SGLang {case.release}"
        return error(
            f"{limit[0].upper()}{limit[1:]} has one layer.", f"num_hidden_layers {layers!r} in config.json",
            remedy="Serve a Llama-type draft with SGLang 0.5.12 or later, or train one layer.",
        )  # fmt: skip
    return ok("The release has a class for this draft.", named)
