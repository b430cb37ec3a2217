"""The release has a class for this draft, and its config is in the form that class reads.

What: the config's form, `architectures` and `model_type`, the keys for which the class knows no default
(`draft_vocab_size`, `num_hidden_layers`), `hidden_act`, and the release.

Why: no release reads speculators' nested form; MLA drafts came with 0.5.12, more than one layer too; a class that a
release does not know is built as another model or not at all. Without `draft_vocab_size` the Llama class ends with an
AttributeError, and a `target_hidden_size` of null ends it with a TypeError; without `num_hidden_layers` transformers
fills in 32, of which 31 stay at random in silence.

Example: `kimi-k2.6-eagle3-mla` on SGLang 0.5.11; a directory that speculators saved.

Remedy: `draftwire convert` writes the flat form; for an MLA draft or several layers, SGLang 0.5.12 or later.

Reports:
- https://github.com/sgl-project/sglang/issues/25673
- https://github.com/sgl-project/sglang/pull/24663
"""

from draftwire.case import Case
from draftwire.draft import MLA_CLASS
from draftwire.finding import Finding, error, ok, warning

LLAMA = "LlamaForCausalLMEagle3"
MODEL_TYPES = (
    "llama", "mistral", "phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gpt_oss", "llama4_text", "deepseek_v2",
    "deepseek_v3", "kimi_k2",
)  # fmt: skip


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
    if finding := _find_unreadable(case):
        return finding
    layers = case.size("num_hidden_layers")
    if layers != 1 and (case.is_mla or not case.has("any_layers")):
        limit = "an MLA draft" if case.is_mla else f"a draft on SGLang {case.release}"
        return error(
            f"{limit[0].upper()}{limit[1:]} has one layer.", f"num_hidden_layers {layers!r} in config.json",
            remedy="Serve a Llama-type draft with SGLang 0.5.12 or later, or train one layer.",
        )  # fmt: skip
    kind = case.layer.get("model_type")
    if kind not in MODEL_TYPES:
        return warning(
            "model_type is none that EAGLE-3 drafts are known to have.", f"model_type {kind!r} in config.json",
            remedy=f"Write {'deepseek_v3' if case.is_mla else 'llama'}, unless SGLang has loaded this draft.",
        )  # fmt: skip
    return ok("The release has a class for this draft.", named)


def _find_unreadable(case: Case) -> Finding | None:
    """A key that the class reads and that is missing, or has a value for which it ends."""
    keys = case.layer
    if not isinstance(keys.get("model_type"), str):
        return error(
            "transformers cannot load a config without a model_type.", f"model_type {keys.get('model_type')!r}",
            remedy=f"Write {'deepseek_v3' if case.is_mla else 'llama'}, or what the draft was trained as.",
        )  # fmt: skip
    if case.size("num_hidden_layers") is None:
        return error(
            "The config does not say how many layers the draft has.",
            f"num_hidden_layers {keys.get('num_hidden_layers')!r}, for which transformers has its own default",
            remedy="Write num_hidden_layers, 1 for most drafts.",
        )  # fmt: skip
    if not case.is_mla and "draft_vocab_size" not in keys:
        return error(
            "SGLang's Llama draft reads draft_vocab_size and ends without it.", "no such key in config.json",
            remedy="Write the number of rows of lm_head.weight, or null where the target's head is to be used.",
        )  # fmt: skip
    if not case.is_mla and case.draft.config.get("target_hidden_size", 0) is None:
        return error(
            "SGLang's Llama draft multiplies target_hidden_size by the number of states and ends where it is null.",
            "target_hidden_size null in config.json",
            remedy="Write the target's hidden_size, or delete the key where the draft is as wide.",
        )  # fmt: skip
    if keys.get("hidden_act", "silu") != "silu":
        return error(
            "SGLang's draft has silu only.", f"hidden_act {keys['hidden_act']!r}",
            remedy="Train the draft with silu, or correct the config.",
        )  # fmt: skip
    return None
