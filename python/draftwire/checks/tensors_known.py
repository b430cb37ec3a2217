"""SGLang's draft class has a place for every tensor in the file.

What: the names of all tensors against those that the release's `load_weights` places, and names that mean the same.

Why: a name that it does not know is dropped without a word. Until 0.5.11 that was every `layers.0.*`, which left the
whole layer at random: acceptance length 1.00. So is a bias of q, k or v, which the draft class builds without,
whatever `attention_bias` says. The Llama draft's head lies outside of its model: `model.lm_head.weight` is dropped.
The MLA draft puts `model.` before every name but the head's, so that it drops whatever has it already, and does not
know `aux_norm_low` and its like. draftwire's overlay and patch refuse such a draft. Of two names for one tensor the
last in the file wins.

Example: `layers.0.self_attn.q_proj.weight` on SGLang 0.5.11; `midlayer.self_attn.qkv.weight` from a custom trainer; a
draft saved as a whole, all of it under `model.`.

Remedy: `draftwire convert`; SGLang 0.5.12 or later for `layers.0`.

Reports:
- https://github.com/wejoncy/sfllm/pull/32
- https://github.com/sgl-project/sglang/pull/24826
"""

import re

from draftwire.case import Case
from draftwire.checks.tensors_complete import LAYER_PARTS, OUTER, biases
from draftwire.finding import Finding, error, ok, warning

OPTIONAL = ("input_norm.weight", "d2t", "t2d", "rotary_emb.inv_freq")


def check(case: Case) -> Finding:
    if not case.is_mla and not case.has("any_layers"):
        numbered = sorted(n for n in case.draft.tensors if n.removeprefix("model.").startswith("layers."))
        if numbered:
            return error(
                f"SGLang {case.release} drops every tensor called layers.N: its layer is midlayer.", numbered[0],
                remedy="Serve with 0.5.12 or later, or rename layers.0 to midlayer.",
            )  # fmt: skip
    built, places = biases(case), case.places
    given: dict[str, str] = {}
    for name, place in places.items():
        if place is not None and (other := given.setdefault(place, name)) != name:
            return error(
                f"Two tensors are {place}, of which the last that is read is served.", f"{other} and {name}",
                remedy="Remove the one that was not trained, or export the draft again.",
            )  # fmt: skip
    unknown = sorted(name for name, place in places.items() if place is None)
    unknown += sorted(place for place in given if not (place in built or _is_known(place)))
    if not unknown:
        return ok(f"All {len(places)} tensors have a place.")
    more = f" and {len(unknown) - 1} more" if unknown[1:] else ""
    say, what = (warning, "would drop") if case.delivery == "stock" else (error, "refuses")
    return say(
        f"{case.server} {what} {unknown[0]}{more}.", *unknown[:4],
        remedy="Run `draftwire convert`, or set the config's flag that it belongs to, or remove it.",
    )  # fmt: skip


def _is_known(name: str) -> bool:
    if name in OUTER or name in OPTIONAL or re.fullmatch(r"fc_norm\.\d+\.weight", name):
        return True
    layer = re.fullmatch(r"layers\.\d+\.(.+)", name)
    if not layer:
        return False
    # A quantised module has several tensors (qweight, weight_scale); its name is what counts.
    module, _, kind = layer[1].rpartition(".")
    return kind != "bias" and module in (*LAYER_PARTS, "self_attn.q_norm", "self_attn.k_norm")
