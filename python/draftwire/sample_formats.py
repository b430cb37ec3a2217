"""One file of samples in any of the known forms. A pickle is read as data only: code in it does not run."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from draftwire.draft import DraftError
from draftwire.headers import read_header

PICKLES = (".pt", ".ckpt", ".pth")
FORMATS = (*PICKLES, ".safetensors")
AGAIN = "dump the samples again"


class Raw(NamedTuple):
    """Tensors as stored, with their keys: ids [T], mask [T] or None, S states of [T, hidden]."""

    input_ids: Any
    ids_key: str
    loss_mask: Any
    states: list[Any]
    states_key: str
    last_is_normed: bool


def read_raw(file: Path) -> Raw:
    """Read one file. Raises DraftError where it is none of the known forms.

    speculators 0.9 and plain safetensors: `hidden_states` [T, S, hidden], `token_ids` or `input_ids`, maybe
    `loss_mask`. Lists: `hidden_states` S x [T, hidden]. SpecForge: `aux_hidden_state` [1, T, K x hidden] and
    `hidden_state` [1, T, hidden], which is its target's output after the final norm.
    """
    table = load_safetensors(file) if file.suffix == ".safetensors" else load_pickle(file)
    if not isinstance(table, Mapping):
        raise DraftError("a table of tensors", type(table).__name__, file, AGAIN)
    ids_key = next((key for key in ("input_ids", "token_ids") if key in table), None)
    if ids_key is None:
        raise DraftError("input_ids or token_ids", sorted(map(str, table))[:6], file, AGAIN)
    ids = _squeezed(_tensor(table, ids_key, file), 1)
    mask = _squeezed(_tensor(table, "loss_mask", file), 1) if table.get("loss_mask") is not None else None
    if "aux_hidden_state" in table:
        states, key = _specforge(table, file), "aux_hidden_state"
    else:
        states, key = _stacked(table, file), "hidden_states"
    return Raw(ids, ids_key, mask, states, key, key == "aux_hidden_state")


def load_pickle(file: Path) -> Any:
    """What `torch.load` makes of a file under `weights_only=True`. Raises DraftError on anything else."""
    import torch

    try:
        return torch.load(file, map_location="cpu", weights_only=True, mmap=file.stat().st_size > 2**24)
    except pickle.UnpicklingError:
        raise DraftError(
            "tensors, lists and tables only", "a pickle that needs code to run", file, "do not trust it: dump it again"
        ) from None
    except (RuntimeError, OSError, EOFError, ValueError, LookupError, TypeError, AttributeError) as failure:
        raise DraftError("a file of torch.save", type(failure).__name__, file, AGAIN) from None


def load_safetensors(file: Path) -> dict[str, Any]:
    """Every tensor of a file whose header was checked."""
    from draftwire.weights import to_tensor

    return {name: to_tensor(stored, name) for name, stored in read_header(file).items()}


def _stacked(table: Mapping[str, Any], file: Path) -> list[Any]:
    found = table.get("hidden_states")
    if isinstance(found, (list, tuple)):
        if not found or not all(hasattr(s, "ndim") for s in found):
            raise DraftError("hidden_states: a list of [T, hidden]", f"{len(found)} entries", file, AGAIN)
        return [_squeezed(state, 2) for state in found]
    tensor = _squeezed(_tensor(table, "hidden_states", file), 3)
    if tensor.ndim != 3 or 0 in tensor.shape:
        raise DraftError("hidden_states [T, states, hidden]", list(tensor.shape), file, AGAIN)
    return list(tensor.unbind(1))


def _specforge(table: Mapping[str, Any], file: Path) -> list[Any]:
    joined = _squeezed(_tensor(table, "aux_hidden_state", file), 2)
    last = _squeezed(_tensor(table, "hidden_state", file), 2)
    if joined.ndim != 2 or last.ndim != 2 or not last.shape[1] or joined.shape[1] % last.shape[1]:
        raise DraftError(
            "aux_hidden_state [T, K x hidden] and hidden_state [T, hidden]",
            f"{list(joined.shape)} and {list(last.shape)}", file, AGAIN,
        )  # fmt: skip
    return [*joined.split(last.shape[1], dim=1), last]


def _tensor(table: Mapping[str, Any], key: str, file: Path) -> Any:
    tensor = table.get(key)
    if not hasattr(tensor, "ndim") or not hasattr(tensor, "is_floating_point"):
        raise DraftError(f"{key}: a tensor", type(tensor).__name__, file, AGAIN)
    return tensor


def _squeezed(tensor: Any, rank: int) -> Any:
    """Without the batch dimension of one that some trainers keep."""
    return tensor[0] if tensor.ndim == rank + 1 and tensor.shape[0] == 1 else tensor
