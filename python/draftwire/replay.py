"""A draft's own forward on training samples, for many wirings at once, at test-time steps 1 to K.

Row t of a sample of T tokens holds state t and token t + 1, and step k (from 0) predicts the token after t + 1 + k.
Each later step reads the true token and the state that the step before gave, and attends to the keys of step 1 up to
its own row and to its own row's of the steps between: EAGLE-3's test-time training.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import DynamicCache

from draftwire.loaded_draft import LoadedDraft
from draftwire.settings import Settings

VALUES = 2**24  # rows of all wirings that are computed together, times the inner size
HEAD_ROWS = 512
HEAD_VALUES = 2**25  # of the head at once: a 16-bit product keeps a copy of its weights, in an order of its own


class Replay(LoadedDraft):
    """A loaded draft that runs on samples."""

    @torch.inference_mode()
    def products(self, states: Sequence[Tensor], pairs: Iterable[tuple[int, int]], settings: Settings) -> dict:
        """fc in pieces: for each pair (s, j), block j of fc times state s, [rows, hidden]. Any ordered choice is a sum
        of K of them, as fc is linear, with either norm before it (the joint one divides by a number a row)."""
        network, out = self.network(settings), {}
        for s, j in pairs:
            fed = states[s].to(self.dtype)
            if settings.fc_norm:
                fed = network.fc_norm[j](fed)
            if network.input_norm is not None:
                fed = fed * network.input_norm.weight.split(self.width)[j]
            out[s, j] = functional.linear(fed, self.blocks[j])
        return out

    @torch.inference_mode()
    def draft_ids(self, sample: Any, choices: Sequence[Sequence[int]], settings: Settings, steps: int = 1) -> Tensor:
        """The draft's token, in its own vocabulary, [wirings, steps, T - 1], for each ordered choice of states.

        Row t of step k is a prediction for position t + 2 + k; rows t > T - 2 - k read past the end and mean nothing.
        """
        return torch.cat([self._collect(part) for part in self._parts(sample, choices, settings, steps)])

    @torch.inference_mode()
    def logits(self, sample: Any, choice: Sequence[int], settings: Settings, steps: int = 1) -> Tensor:
        """Logits [steps, T - 1, draft vocabulary] of one choice."""
        (part,) = self._parts(sample, [choice], settings, steps)
        return torch.stack([functional.linear(h[0], self.head) for h in self._run(*part)])

    def _parts(self, sample: Any, choices: Sequence[Sequence[int]], settings: Settings, steps: int) -> Iterator[list]:
        rows = sample.length - 1
        pairs = sorted({(s, j) for choice in choices for j, s in enumerate(choice)})
        products = self.products([s[:-1] for s in sample.states], pairs, settings)
        scales = self._scales(sample, settings)
        together = self.together(rows)
        for i in range(0, len(choices), together):
            yield [sample, self._fed(choices[i : i + together], products, scales), settings, steps]

    def together(self, rows: int) -> int:
        """Wirings of so many rows that are computed at once, for memory's sake."""
        return max(1, VALUES // (rows * self.geometry["intermediate_size"]))

    def _scales(self, sample: Any, settings: Settings) -> list[Tensor] | None:
        if not settings.norm_before_fc:
            return None
        return [s[:-1].float().pow(2).mean(-1, keepdim=True) for s in sample.states]

    def _fed(self, choices, products, scales) -> Tensor:
        fed = []
        for choice in choices:
            joined = sum(products[s, j] for j, s in enumerate(choice))
            if scales is not None:
                power = sum(scales[s] for s in choice) / len(choice)
                joined = joined * torch.rsqrt(power + self.geometry["rms_norm_eps"]).to(joined.dtype)
            fed.append(joined)
        return torch.stack(fed)

    def _collect(self, part: list) -> Tensor:
        """Takes what the part holds: it and each step's state are 7 MB at 7168 wide and 512 tokens."""
        steps, out = self._run(*part), []
        part.clear()
        for hidden in steps:
            flat = hidden.flatten(0, 1)
            best = [self._best(part) for part in flat.split(HEAD_ROWS)]
            out.append(torch.cat(best).view(hidden.shape[:2]))
            del hidden, flat
        return torch.stack(out, dim=1)

    def _best(self, normed: Tensor) -> Tensor:
        """The draft token of the highest logit [rows], the first of equals; normed [rows, hidden]."""
        size = max(1, HEAD_VALUES // self.head.shape[1])
        tops = [functional.linear(normed, part).max(-1) for part in self.head.split(size)]
        part = torch.stack([top.values for top in tops]).argmax(0)
        within = torch.stack([top.indices for top in tops]).gather(0, part[None])[0]
        return part * size + within

    def _run(self, sample: Any, hidden: Tensor, settings: Settings, steps: int) -> Iterator[Tensor]:
        """The normed state [wirings, rows, hidden] that the head reads, step by step."""
        network, rows = self.network(settings), sample.length - 1
        cache = DynamicCache()
        for step in range(steps):
            ids = functional.pad(sample.input_ids[1 + step :], (0, step))
            embeds = self.embed.rows(ids).to(self.dtype).expand(len(hidden), -1, -1)
            positions = torch.arange(1, rows + 1)[None] + step
            common = {"position_embeddings": network.rotary(hidden, positions), "past_key_values": cache}
            for i, (layer, window) in enumerate(zip(network.layers, settings.window, strict=True)):
                common["attention_mask"] = _mask(rows, step, window)
                hidden = layer(embeds, hidden, **common) if i == 0 else _plain(layer(hidden, **common))
            normed = network.norm(hidden)
            hidden = normed if settings.norm_output else hidden
            yield normed
            del normed


def _plain(output: Any) -> Tensor:
    return output[0] if isinstance(output, tuple) else output


def _mask(rows: int, step: int, window: int | None) -> Tensor:
    """True where a row attends, [1, 1, rows, (step + 1) x rows]: causal over step 1, then its own row of each step."""
    first = torch.ones(rows, rows, dtype=torch.bool).tril()
    if window is not None:
        first = first.triu(1 - window)
    own = torch.eye(rows, dtype=torch.bool)
    return torch.cat([first, *[own] * step], dim=1)[None, None]


def ordered_choices(states: int, count: int) -> list[tuple[int, ...]]:
    """Every ordered choice of `count` of `states` states."""
    return list(itertools.permutations(range(states), count))
