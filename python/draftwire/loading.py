"""Which tensors a draft model must load, and a record of those that it was given. Names only: needs no torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from draftwire.features import MARKED
from draftwire.refusal import refuse
from draftwire.tensor_names import rename

FUSED = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
    "fused_qkv_a_proj_with_mqa": ("q_a_proj", "kv_a_proj_with_mqa"),
}
BESIDE = {"d2t", "t2d"}
AUX_NORMS = ("aux_norm_low.", "aux_norm_mid.", "aux_norm_high.")


def place(name: str, *, mla: bool) -> str | None:
    """The name, as `checkpoint_names` gives it, under which upstream's load_weights takes a checkpoint's tensor; None
    where it drops the tensor for its spelling.

    The Llama draft puts `model.` before a name or takes it as it is, so its head, which lies outside of the model, has
    one spelling. The MLA draft (mla) puts `model.` before every other name, and knows none of the older norms' names.
    """
    plain = rename(name)
    if plain in BESIDE:
        return plain
    if name.startswith("model.") and (mla or plain.startswith("lm_head.")):
        return None
    return None if mla and name.startswith(AUX_NORMS) else plain


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
    quantised draft has more tensors a module than its parameters tell, so there modules are compared. mla: see `place`.
    """

    def __init__(self, needed: set[str], known: set[str], source: str, *, by_module: bool = False, mla: bool = False):
        self.by_module, self.source, self.mla = by_module, source, mla
        self.needed, self.known = {self._key(n) for n in needed}, {self._key(n) for n in known | needed} | BESIDE
        self.seen: set[str] = set()

    def _key(self, name: str) -> str:
        return name.rpartition(".")[0] or name if self.by_module else name

    def watch(self, weights: Iterable[tuple[str, Any]], *, unmark: bool) -> Iterator[tuple[str, Any]]:
        """The same pairs. Refuses an unknown name at once. unmark: the first layer's marked norm is unfolded."""
        for name, tensor in weights:
            placed = place(name, mla=self.mla)
            key = self._key(placed) if placed else ""
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
