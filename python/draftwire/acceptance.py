"""Acceptance of drafts, from what SGLang reports with each answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Acceptance:
    """Sums over requests.

    `tokens`: generated tokens. `verifies`: verify steps of the target. `histogram[i]`: verify steps in which
    exactly i draft tokens were accepted, the bonus token not counted.
    """

    tokens: int = 0
    verifies: int = 0
    histogram: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, answers: Iterable[Mapping[str, Any]]) -> Acceptance:
        """From the answers of /generate; `verifies` stays 0 where no draft was served."""
        total = cls()
        for answer in answers:
            meta = answer["meta_info"]
            total.tokens += meta["completion_tokens"]
            total.verifies += meta.get("spec_verify_ct") or 0
            counts = meta.get("spec_correct_drafts_histogram") or []
            total.histogram += [0] * (len(counts) - len(total.histogram))
            for i, count in enumerate(counts):
                total.histogram[i] += count
        return total

    @property
    def length(self) -> float:
        """Mean tokens a verify step, the bonus token included; 1 where no draft was served."""
        return self.tokens / self.verifies if self.verifies else 1.0

    @property
    def positions(self) -> list[float]:
        """Share of verify steps in which the draft token at each position was accepted (with all before it)."""
        steps = sum(self.histogram)
        return [sum(self.histogram[i:]) / steps for i in range(1, len(self.histogram))] if steps else []
