"""What a draft's prediction is compared with, at every position of a sample."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from draftwire.sample import Sample
from draftwire.weights import TargetParts

ARGMAX, LAST, NEXT = "target's argmax", "dumped last state", "next token"
ORDER = (ARGMAX, LAST, NEXT)  # the first that is there decides
ROWS = 512


class Reference(NamedTuple):
    """`tokens` [T]: the token said to follow position p. `reduced` [T]: the same within the draft's vocabulary, -1
    where that has no answer. `counts` [T] bool: inside the loss mask and known. All by position."""

    kind: str
    tokens: Tensor
    reduced: Tensor
    counts: Tensor


class Agreement(NamedTuple):
    """`hits` of `of` predictions; `error` is the binomial standard error of `rate`."""

    hits: int
    of: int

    @property
    def rate(self) -> float:
        return self.hits / self.of if self.of else 0.0

    @property
    def error(self) -> float:
        """sqrt(p (1 - p) / n), with one hit and one miss more so that it is never 0."""
        p, n = (self.hits + 1) / (self.of + 2), self.of + 2
        return float((p * (1 - p) / n) ** 0.5)

    def __str__(self) -> str:
        return f"{self.rate:.1%} +- {self.error:.1%} of {self.of}"


def references(sample: Sample, known: Tensor, parts: TargetParts | None) -> dict[str, Reference]:
    """Every reference that this sample allows. known: the target tokens of the draft's vocabulary, ascending."""
    found = {}
    counts = sample.loss_mask.bool()
    if sample.argmax is not None:
        found[ARGMAX] = Reference(ARGMAX, sample.argmax, _within(sample.argmax, known), counts)
    if _has_lens(sample, parts):
        found[LAST] = Reference(LAST, *_lens(sample, known, parts), counts)
    following = functional.pad(sample.input_ids[1:], (0, 1), value=-1)
    inner = counts.clone()
    inner[-1] = False
    found[NEXT] = Reference(NEXT, following, _within(following, known), inner)
    return found


def agreements(predicted: Tensor, reference: Reference, step: int) -> tuple[Tensor, Tensor]:
    """Whether predictions [.., T - 1] of a step (from 0) are the reference's, of the rows that count: [.., n] over the
    full vocabulary, and the same over the draft's."""
    rows = predicted.shape[-1] - step
    at = slice(1 + step, None)
    counts = reference.counts[at]
    found = predicted[..., :rows]
    inside = counts & (reference.reduced[at] >= 0)
    return (found == reference.tokens[at])[..., counts], (found == reference.reduced[at])[..., inside]


def _has_lens(sample: Sample, parts: TargetParts | None) -> bool:
    if parts is None or parts.head is None or not (parts.norm is not None or sample.last_is_normed):
        return False
    return sample.states[-1].shape[1] == parts.head.shape[1]


def _within(tokens: Tensor, known: Tensor) -> Tensor:
    return torch.where(torch.isin(tokens, known), tokens, -1)


@torch.inference_mode()
def _lens(sample: Sample, known: Tensor, parts: Any) -> tuple[Tensor, Tensor]:
    """argmax of head(norm(last)) over all tokens and over those of the draft."""
    last: Any = sample.states[-1]
    small = parts.head.numel() <= 2**26
    dtype = torch.float32 if small else parts.head.dtype
    last = last.to(dtype)
    if not sample.last_is_normed:
        norm = LlamaRMSNorm(last.shape[1], eps=parts.eps)
        norm.weight = torch.nn.Parameter(parts.norm.to(dtype), requires_grad=False)
        last = norm(last)
    head = parts.head.to(dtype)
    whole, reduced = [], []
    for rows in last.split(ROWS):
        logits = functional.linear(rows, head)
        whole.append(logits.argmax(-1))
        reduced.append(known[logits[:, known].argmax(-1)])
    return torch.cat(whole), torch.cat(reduced)
