"""How each SGLang release turns nested layer ids into captured boundaries, by the target's class.

From `set_eagle3_layers_to_capture` in every release's `models/`; a class that is not here cannot capture.
"""

from __future__ import annotations

from collections.abc import Sequence

from packaging.version import Version

from draftwire.release import parse
from draftwire_overlay.srt.speculative.aux_boundaries import RULES

# Class -> (first release, rule), oldest first. The rules are those of `aux_boundaries`, and of gpt-oss one more:
# "index_if_last" reads ids as boundaries where the largest is the number of layers, and as outputs otherwise.
SETTERS: dict[str, tuple[tuple[str, str], ...]] = {
    **dict.fromkeys(
        ("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM", "MistralLarge3ForCausalLM",
         "Glm4MoeLiteForCausalLM"),
        (("0.5.8", "output"), ("0.5.13", "index_unless_1")),
    ),
    "GlmMoeDsaForCausalLM": (("0.5.9", "output"), ("0.5.13", "index_unless_1")),
    "KimiK25ForConditionalGeneration": (("0.5.10", "output"), ("0.5.13", "index_unless_1")),
    "GptOssForCausalLM": (("0.5.8", "output"), ("0.5.17", "index_if_last")),
    **dict.fromkeys(
        ("ApertusForCausalLM", "Glm4MoeForCausalLM", "IQuestCoderForCausalLM", "InternLM3ForCausalLM",
         "Llama4ForCausalLM", "Llama4ForConditionalGeneration", "LlamaForCausalLM", "LongcatFlashForCausalLM",
         "MiniMaxM2ForCausalLM", "Ministral3ForCausalLM", "MistralForCausalLM", "Phi3ForCausalLM", "Qwen2ForCausalLM",
         "Qwen2MoeForCausalLM", "Qwen2_5_VLForConditionalGeneration", "Qwen3ForCausalLM", "Qwen3MoeForCausalLM",
         "TeleFLMForCausalLM"),
        (("0.5.8", "output"),),
    ),
    **dict.fromkeys(
        ("BailingMoEForCausalLM", "BailingMoeForCausalLM", "BailingMoeV2ForCausalLM", "ExaoneMoEForCausalLM",
         "Qwen3NextForCausalLM"),
        (("0.5.9", "output"),),
    ),
    "SarvamMoEForCausalLM": (("0.5.10", "output"),),
    **dict.fromkeys(
        ("InternS1ProForConditionalGeneration", "Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration",
         "Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration"),
        (("0.5.11", "output"),),
    ),
    **dict.fromkeys(
        ("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration", "Gemma4ForCausalLM", "Gemma4ForConditionalGeneration",
         "InternS2PreviewForConditionalGeneration"),
        (("0.5.12", "output"),),
    ),
    "Gemma4UnifiedForConditionalGeneration": (("0.5.13", "output"),),
    **dict.fromkeys(("MellumForCausalLM", "MiniMaxM3SparseForCausalLM"), (("0.5.16", "output"),)),
    "MiniMaxM3SparseForConditionalGeneration": (("0.5.18", "output"),),
    "InternS2MobiusForConditionalGeneration": (("0.5.18", "output"),),
    **dict.fromkeys(
        ("Cosmos3ForConditionalGeneration", "Glm5NextForConditionalGeneration", "Qwen4ExpForConditionalGeneration"),
        (("0.5.20", "output"),),
    ),
    **dict.fromkeys(
        ("ExaoneMoeForCausalLM", "Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM"), (("0.5.22", "output"),)
    ),
}  # fmt: skip
# Targets whose loop captures the last layer's output too, and since when; elsewhere a layer's input is captured.
LAST_LAYER = {
    "GptOssForCausalLM": "0.5.17",
    "Gemma3ForCausalLM": "0.5.12",
    "Gemma3ForConditionalGeneration": "0.5.12",
    "Gemma4ForCausalLM": "0.5.12",
    "Gemma4ForConditionalGeneration": "0.5.12",
    "Gemma4UnifiedForConditionalGeneration": "0.5.13",
    "MiniMaxM3SparseForCausalLM": "0.5.23",
    "MiniMaxM3SparseForConditionalGeneration": "0.5.23",
}


def rule_of(architecture: str, release: str) -> str | None:
    """The rule by which a stock release reads nested ids for this target; None where it cannot capture."""
    past = [rule for first, rule in SETTERS.get(architecture, ()) if parse(release) >= Version(first)]
    return past[-1] if past else None


def apply_rule(rule: str, ids: Sequence[int], num_layers: int) -> list[int]:
    """Boundaries that a setter stores for `ids`, in their order, whether or not they are ever visited."""
    if rule == "index_if_last":
        return list(ids) if ids and max(ids) == num_layers else [i + 1 for i in ids]
    return RULES[rule](ids)


def default_boundaries(architecture: str, num_layers: int) -> list[int]:
    """What a stock release captures where it found no ids."""
    default = [2, num_layers // 2, num_layers - 3]
    return [b + 1 for b in default] if architecture == "MiniMaxM3SparseForConditionalGeneration" else default


def visits_last(architecture: str, release: str) -> bool:
    """Whether boundary `num_layers` is ever captured for this target."""
    first = LAST_LAYER.get(architecture)
    return first is not None and parse(release) >= Version(first)
