"""What is combined: models, their drafts, eight GPUs of a kind, and how they serve."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from draftwire.deployment.geometry import Draft, Target
from draftwire.deployment.memory import MIB, Layout, Sum, add_up, image_factor

ALL_FP8 = dict.fromkeys(("attention", "dense", "shared", "experts"), "fp8")


class Model(NamedTuple):
    """`stored`: the storage in words. `keys`: launch flags of its own. `note`: a paragraph for the head comment."""

    name: str
    slug: str
    path: str
    target: Target
    storage: dict[str, str]
    stored: str
    keys: dict[str, Any]
    note: str = ""
    images: float = 1.0


class Choice(NamedTuple):
    """A draft to serve a model with. `path`: None where none is published. `note`: a paragraph for the head comment."""

    kind: str
    path: str | None
    draft: Draft
    note: str = ""


class Device(NamedTuple):
    """`mib`: memory as nvidia-smi shows it.

    `backend`: for the target and an MLA draft; `heads_backend`: for a Llama-type draft where that is another.
    """

    name: str
    slug: str
    mib: int
    backend: str
    heads_backend: str | None
    keys: dict[str, Any]
    note: str


class Combination(NamedTuple):
    model: Model
    device: Device
    choice: Choice
    purpose: str
    layout: Layout

    @property
    def sum(self) -> Sum:
        model = self.model
        return add_up(model.target, model.storage, self.choice.draft, self.layout, self.device.mib * MIB, model.images)

    @property
    def fits(self) -> bool:
        return self.choice.path is not None and self.sum.tokens >= self.layout.least

    @property
    def file(self) -> str:
        return f"{self.model.slug}-{self.device.slug}-{self.choice.kind}-{self.purpose}.yaml"


def vision_parameters(
    layers: int = 27, hidden: int = 1152, width: int = 4304, patch: int = 14, grid: int = 64, text: int = 7168
) -> int:
    """MoonViT and its projector; the sizes are the defaults of SGLang 0.5.23's KimiK25VisionConfig."""
    attention = hidden * 3 * hidden + 3 * hidden + hidden * hidden + hidden
    layer = attention + 2 * hidden * width + width + hidden + 4 * hidden
    ends = 3 * patch * patch * hidden + hidden + grid * grid * hidden + 2 * hidden
    merged = 4 * hidden
    return layers * layer + ends + 2 * hidden + merged * merged + merged + merged * text + text


DEEPSEEK = Target(61, 3, 7168, 129280, 128, 1536, 512, 128, 64, 128, 18432, 256, 2048, 1, mtp=True)
KIMI = Target(61, 1, 7168, 163840, 64, 1536, 512, 128, 64, 128, 18432, 384, 2048, 1)


def largest_llama(target: Target) -> Draft:
    """The largest Llama-type draft in use: 64 heads of 128 without grouping, a dense target layer's width, all tokens.

    A checkpoint with fewer tokens in its head, or with grouped heads, takes less.
    """
    return Draft(target.hidden, 3, target.dense_width, target.vocab, 64, 64, 128, target_vocab=target.vocab)


def largest_mla(target: Target) -> Draft:
    """An MLA draft with the target's own attention sizes, and the rest as `largest_llama`."""
    return largest_llama(target)._replace(kv_heads=0, head_dim=0, mla=target)


MODELS = (
    Model(
        "Kimi-K2.5",
        "kimi-k2.5",
        "moonshotai/Kimi-K2.5",
        KIMI._replace(vision=vision_parameters()),
        {"experts": "int4"},
        "INT4 experts in groups of 32, the rest bfloat16",
        {"trust-remote-code": True, "tool-call-parser": "kimi_k2", "reasoning-parser": "kimi_k2"},
        images=image_factor(27, 1152),
    ),
    Model(
        "Kimi-K2",
        "kimi-k2",
        "moonshotai/Kimi-K2-Instruct",
        KIMI,
        ALL_FP8,
        "FP8 in blocks of 128 by 128",
        {"trust-remote-code": True, "tool-call-parser": "kimi_k2"},
    ),
    Model(
        "DeepSeek-V3/R1",
        "deepseek-v3",
        "deepseek-ai/DeepSeek-V3",
        DEEPSEEK,
        ALL_FP8,
        "FP8 in blocks of 128 by 128",
        {},
        "DeepSeek-R1 has the same sizes: add --model-path deepseek-ai/DeepSeek-R1. The built-in MTP layer, this "
        "draft's rival, is not loaded.",
    ),
)

CHOICES = {
    "kimi-k2.5": (
        Choice(
            "llama",
            "AQ-MedAI/Kimi-K25-eagle3",
            largest_llama(KIMI),
            "The draft's ids are [2, 30, 58]: no -1, so stock SGLang serves it. 0.5.13 and later read them as "
            "boundaries 2, 30, 58; 0.5.10 to 0.5.12, the first of which it was published for, as 3, 31, 59. Which it "
            "was trained on is for `draftwire doctor --samples` to say. A draft trained on the embedding, with ids "
            "such as [-1, 2, 30], needs draftwire.",
        ),
        Choice(
            "mla",
            "lightseekorg/kimi-k2.5-eagle3-mla",
            largest_mla(KIMI),
            "The draft was trained on raw ids, as 0.5.13 and later read them: stock SGLang serves it.",
        ),
    ),
    "kimi-k2": (
        Choice(
            "llama",
            "AQ-MedAI/Kimi-K2-Instruct-eagle3",
            largest_llama(KIMI),
            "The draft's ids were not looked at: the doctor says whether they need draftwire, as a -1 does.",
        ),
        Choice("mla", None, largest_mla(KIMI)),
    ),
    "deepseek-v3": (
        Choice(
            "llama",
            "DRAFT",
            largest_llama(DEEPSEEK),
            "Put your own draft's directory for DRAFT; this project knows of no published one. With a -1 in its ids it "
            "needs draftwire, else stock SGLang serves it.",
        ),
        Choice("mla", None, largest_mla(DEEPSEEK)),
    ),
}

DEVICES = (
    Device(
        "H200", "h200", 143771, "fa3", None, {}, "fa3 is SGLang's choice for MLA on Hopper, and serves either draft."
    ),
    Device(
        "B200",
        "b200",
        183359,
        "trtllm_mla",
        "flashinfer",
        {},
        "trtllm_mla is SGLang's choice for this model on Blackwell, with pages of 64 tokens and topk 1 only. It knows "
        "no heads, so a Llama-type draft gets flashinfer.",
    ),
    Device(
        "RTX PRO 6000",
        "rtx-pro-6000",
        97887,
        "triton",
        None,
        {"disable-custom-all-reduce": True},
        "triton is SGLang's choice for MLA on SM120, and serves either draft. SGLang's own all-reduce wants NVLink "
        "among more than two GPUs; on PCIe NCCL does it.",
    ),
)

LAYOUTS = {
    "latency": Layout(1, 4, (1, 2, 3, 4), 4096, 32768),
    "throughput": Layout(8, 128, (1, 2, 4, 8, 12, 16), 16384, 16 * 4096),
}


def combinations() -> Iterator[Combination]:
    for model in MODELS:
        for device in DEVICES:
            for choice in CHOICES[model.slug]:
                for purpose, layout in LAYOUTS.items():
                    yield Combination(model, device, choice, purpose, layout)
