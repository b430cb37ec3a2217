"""A draft's tensors as its forward needs them, with the embedding and head that it borrows of its target."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any

import torch
from torch import Tensor

from draftwire.convert.geometry import read_geometry
from draftwire.draft import Draft, DraftError
from draftwire.network import Network
from draftwire.settings import Settings
from draftwire.switches import layer_config
from draftwire.target import EMBEDDING
from draftwire.tensor_names import rename
from draftwire.weights import RowTable, TargetParts, to_tensor

MMAP_THRESHOLD = -3  # glibc's M_MMAP_THRESHOLD
SMALL = 2**28  # values up to which 16-bit weights are computed in float32


class MissingTensor(DraftError):
    """A tensor that the forward needs and nobody has."""


class LoadedDraft:
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


def return_freed_blocks() -> None:
    """Have glibc give back every freed block of 1 MiB and more at once: it keeps those of up to 32 MiB else, and a
    wide draft's activations are of that size (77 MB lower peak at 7168 wide). Nothing where libc is another."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, 2**20)


def _stored_name(parameter: str) -> str:
    """The name in a checkpoint of a parameter of Network. SGLang calls the first norm of later layers hidden_norm."""
    name = parameter.replace("layers.0.layer.", "layers.0.")
    parts = name.split(".")
    if parts[0] == "layers" and parts[1] != "0" and parts[2] == "input_layernorm":
        parts[2] = "hidden_norm"
    return ".".join(parts)
