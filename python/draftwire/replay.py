"""A draft's own forward on training samples, for many wirings at once, at test-time steps 1 to K.

Row t of a sample of T tokens holds state t and token t + 1, and step k (from 0) predicts the token after t + 1 + k.
Each later step reads the true token and the state that the step before gave, and attends to the keys of step 1 up to
its own row and to its own row's of the steps between: EAGLE-3's test-time training.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import DynamicCache

from draftwire.convert.geometry import read_geometry
from draftwire.convert.tensors import rename
from draftwire.draft import Draft, DraftError
from draftwire.network import Network
from draftwire.settings import Settings, layer_config
from draftwire.target import EMBEDDING
from draftwire.weights import RowTable, TargetParts, to_tensor

VALUES = 2**24  # rows of all wirings that are computed together, times the inner size
HEAD_ROWS = 512
HEAD_VALUES = 2**25  # of the head at once: a 16-bit product keeps a copy of its weights, in an order of its own
MMAP_THRESHOLD = -3  # glibc's M_MMAP_THRESHOLD
SMALL = 2**28  # values up to which 16-bit weights are computed in float32


class MissingTensor(DraftError):
    """A tensor that the forward needs and nobody has."""


class Replay:
    """A draft with its weights mapped. `count`: states that feed fc; `width`: values of one state.

    Matrix products are in float32 for a small draft, else in the dtype of its weights. Raises DraftError on a draft
    whose tensors do not fit its config, MissingTensor on one that lacks an embedding or head.
    """

    def __init__(self, draft: Draft, parts: TargetParts | None = None):
        source = draft.directory / "config.json"
        self.draft = draft
        self.geometry = read_geometry(layer_config(draft), draft.config, draft.layout, source)
        self.geometry["target_hidden_size"] = draft.config.get("target_hidden_size") or self.geometry["hidden_size"]
        if draft.layout == "mla":
            rope = layer_config(draft).get("rope_parameters") or layer_config(draft).get("rope_scaling") or {}
            latent = {k: rope[k] for k in ("mscale", "mscale_all_dim") if k in rope} if isinstance(rope, dict) else {}
            self.geometry["latent_rope"] = latent
        self.tensors = {
            rename(name, speculators=draft.layout == "speculators"): to_tensor(stored, name)
            for name, stored in draft.tensors.items()
        }
        values = sum(t.numel() for n, t in self.tensors.items() if t.is_floating_point() and n != EMBEDDING)
        self.fc = self._need("fc.weight")
        self.width = self.geometry["target_hidden_size"]
        self.dtype = torch.float32 if values <= SMALL else self.fc.dtype
        if self.fc.ndim != 2 or self.fc.shape[1] % self.width:
            raise DraftError(f"fc.weight [{self.geometry['hidden_size']}, K x {self.width}]", list(self.fc.shape),
                             draft.directory, "correct target_hidden_size")  # fmt: skip
        self.count = self.fc.shape[1] // self.width
        if self.dtype != torch.float32:
            return_freed_blocks()
        self.blocks = [b.to(self.dtype) for b in self.fc.split(self.width, dim=1)]
        stored = next((RowTable(s, n) for n, s in draft.tensors.items() if rename(n) == EMBEDDING), None)
        self.embed: RowTable = self._shared(EMBEDDING, stored, parts.embed if parts else None)
        tied = self.embed.whole() if self.geometry["tie_word_embeddings"] else None
        own = self.tensors.get("lm_head.weight", tied)
        self.head = self._shared("lm_head.weight", own, parts.head if parts else None)
        if self.head.shape[1] != self.geometry["hidden_size"] or self.embed.shape[1] != self.geometry["hidden_size"]:
            raise DraftError(f"embedding and head of width {self.geometry['hidden_size']}",
                             f"{self.embed.shape[1]} and {self.head.shape[1]}", draft.directory,
                             "name the draft's own target")  # fmt: skip
        self.head = self.head.to(self.dtype)
        self.d2t = self.tensors.get("d2t")
        self._networks: dict[Settings, Network] = {}
        self._embedding: tuple[Any, Tensor] | None = None

    @property
    def reduced(self) -> bool:
        """Whether the draft's head knows only a part of the target's tokens."""
        return self.head.shape[0] != self.embed.shape[0]

    def tokens(self, reading: str) -> Tensor:
        """Target token of each draft token [draft vocabulary], -1 where it is none. `reading`: offsets or ids."""
        size, vocabulary = self.head.shape[0], self.embed.shape[0]
        own = torch.arange(size)
        if self.d2t is None or not self.reduced:
            return own
        if self.d2t.shape != (size,):
            raise DraftError(f"d2t [{size}]", list(self.d2t.shape), self.draft.directory, "export the draft again")
        mapped = self.d2t.long() + own if reading == "offsets" else self.d2t.long()
        return torch.where((mapped >= 0) & (mapped < vocabulary), mapped, -1)

    def _need(self, name: str) -> Tensor:
        if name not in self.tensors:
            raise MissingTensor(name, "no such tensor", self.draft.directory, "export the draft again")
        return self.tensors[name]

    def _shared(self, name: str, own: Any, of_target: Any) -> Any:
        found = own if own is not None else of_target
        if found is None:
            raise MissingTensor(f"{name} in the draft or its target", "neither", self.draft.directory,
                                "name with --target a directory that holds it")  # fmt: skip
        return found

    def network(self, settings: Settings) -> Network:
        """The layers under these settings, with the draft's weights. A norm that the settings ask for and the draft
        lacks is all ones; any other tensor that is missing raises MissingTensor."""
        key = settings._replace(window=(), d2t="")
        if key in self._networks:
            return self._networks[key]
        network = Network(self.geometry, settings, self.count)
        state = {}
        for name, weight in network.named_parameters():
            stored = _stored_name(name)
            if stored not in self.tensors and stored.startswith(("input_norm", "fc_norm")):
                state[name] = torch.ones(weight.shape, dtype=self.dtype)
                continue
            found = self._need(stored)
            found = found.reshape(-1) if found.ndim == 2 and stored.endswith("hidden_norm.weight") else found
            if found.shape != weight.shape:
                raise DraftError(f"{stored} {list(weight.shape)}", list(found.shape), self.draft.directory,
                                 "correct the config, or export the draft again")  # fmt: skip
            state[name] = found.to(self.dtype)
        network.load_state_dict(state, assign=True, strict=False)
        self._networks[key] = network.eval()
        return network

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
        return torch.cat([self._collect(*part) for part in self._parts(sample, choices, settings, steps)])

    @torch.inference_mode()
    def logits(self, sample: Any, choice: Sequence[int], settings: Settings, steps: int = 1) -> Tensor:
        """Logits [steps, T - 1, draft vocabulary] of one choice."""
        (part,) = self._parts(sample, [choice], settings, steps)
        return torch.stack([functional.linear(h[0], self.head) for h in self._run(*part)])

    def _parts(self, sample: Any, choices: Sequence[Sequence[int]], settings: Settings, steps: int) -> Iterator[tuple]:
        rows = sample.length - 1
        pairs = sorted({(s, j) for choice in choices for j, s in enumerate(choice)})
        products = self.products([s[:-1] for s in sample.states], pairs, settings)
        scales = self._scales(sample, settings)
        together = self.together(rows)
        for i in range(0, len(choices), together):
            yield sample, self._fed(choices[i : i + together], products, scales), settings, steps

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

    def _collect(self, sample, fed, settings, steps) -> Tensor:
        out = []
        for hidden in self._run(sample, fed, settings, steps):
            flat = hidden.flatten(0, 1)
            best = [self._best(part) for part in flat.split(HEAD_ROWS)]
            out.append(torch.cat(best).view(hidden.shape[:2]))
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
            yield normed
            hidden = normed if settings.norm_output else hidden


def return_freed_blocks() -> None:
    """Have glibc give back every freed block of 1 MiB and more at once: it keeps those of up to 32 MiB else, and a
    wide draft's activations are of that size (77 MB lower peak at 7168 wide). Nothing where libc is another."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, 2**20)


def _plain(output: Any) -> Tensor:
    return output[0] if isinstance(output, tuple) else output


def _mask(rows: int, step: int, window: int | None) -> Tensor:
    """True where a row attends, [1, 1, rows, (step + 1) x rows]: causal over step 1, then its own row of each step."""
    first = torch.ones(rows, rows, dtype=torch.bool).tril()
    if window is not None:
        first = first.triu(1 - window)
    own = torch.eye(rows, dtype=torch.bool)
    return torch.cat([first, *[own] * step], dim=1)[None, None]


def _stored_name(parameter: str) -> str:
    """The name in a checkpoint of a parameter of Network. SGLang calls the first norm of later layers hidden_norm."""
    name = parameter.replace("layers.0.layer.", "layers.0.")
    parts = name.split(".")
    if parts[0] == "layers" and parts[1] != "0" and parts[2] == "input_layernorm":
        parts[2] = "hidden_norm"
    return ".".join(parts)


def ordered_choices(states: int, count: int) -> list[tuple[int, ...]]:
    """Every ordered choice of `count` of `states` states."""
    return list(itertools.permutations(range(states), count))
