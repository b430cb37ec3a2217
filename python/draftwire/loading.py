"""Which tensors a draft model must load, and a record of those that it was given. Names only: needs no torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from draftwire.convert.tensors import rename
from draftwire.features import MARKED
from draftwire.refusal import refuse

FUSED = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
    "fused_qkv_a_proj_with_mqa": ("q_a_proj", "kv_a_proj_with_mqa"),
}
BESIDE = {"d2t", "t2d"}


def checkpoint_names(parameters: Iterable[str]) -> set[str]:
    """The names in a checkpoint of a draft model's parameters: unfused, without `model.`, in the layers.N layout."""
    names = set()
    for parameter in parameters:
        name = rename(parameter.replace("model.midlayer.", "model.layers.0."))
        parts = name.split(".")
        fused = next((part for part in parts if part in FUSED), None)
        names |= {name.replace(fused, part) for part in FUSED[fused]} if fused else {name}
    return names


class Ledger:
    """The tensors that pass into a draft model's `load_weights`.

    needed: names that must come. known: names that may. Names are compared as `checkpoint_names` gives them; a
    quantised draft has more tensors a module than its parameters tell, so there modules are compared.
    """

    def __init__(self, needed: set[str], known: set[str], source: str, *, by_module: bool = False):
        self.by_module, self.source = by_module, source
        self.needed, self.known = {self._key(n) for n in needed}, {self._key(n) for n in known | needed} | BESIDE
        self.seen: set[str] = set()

    def _key(self, name: str) -> str:
        return name.rpartition(".")[0] or name if self.by_module else name

    def watch(self, weights: Iterable[tuple[str, Any]], *, unmark: bool) -> Iterator[tuple[str, Any]]:
        """The same pairs. Refuses an unknown name at once. unmark: the first layer's marked norm is unfolded."""
        for name, tensor in weights:
            key = self._key(rename(name))
            if key not in self.known:
                refuse(
                    f"expected no tensor that this SGLang would drop, found {name!r} in {self.source}; "
                    "`draftwire convert` the draft, or set the flag in its config that this tensor belongs to"
                )
            self.seen.add(key)
            if name.endswith(MARKED) and tensor.ndim == 2 and unmark:
                tensor = tensor.reshape(-1)
            yield name, tensor

    def require_complete(self) -> None:
        """Refuse a draft that would be served with a parameter at random."""
        if missing := sorted(self.needed - self.seen):
            more = f" and {len(missing) - 1} more" if missing[1:] else ""
            refuse(
                f"expected the tensor {missing[0]!r}{more}, found none in {self.source}; "
                "export the draft again, or clear the flag in its config that this tensor belongs to"
            )
