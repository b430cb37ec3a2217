"""One file of samples in any of the known forms. A pickle is read as data only: code in it does not run."""

from __future__ import annotations

import gzip
import io
import pickle
import warnings
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from draftwire.draft import DraftError
from draftwire.headers import read_header

ZIPPED = ".ckpt.gz"
PICKLES = (".pt", ".ckpt", ".pth", ZIPPED)
FORMATS = (*PICKLES, ".safetensors")
LARGEST_ZIPPED = 2**33
AGAIN = "dump the samples again"
MOVE = "dump it again, or move it elsewhere if it is no sample"
PLAIN = ("bool", "uint8", "uint16", "uint32", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
         "float64")  # fmt: skip
KEYS = ("input_ids", "token_ids", "hidden_states", "aux_hidden_state")


class NoSample(DraftError):
    """A file of another kind that lies beside the samples."""


class Raw(NamedTuple):
    """Tensors as stored, with their keys: ids [T], mask [T] or None, S states of [T, hidden]."""

    input_ids: Any
    ids_key: str
    loss_mask: Any
    states: list[Any]
    states_key: str
    last_is_normed: bool


def read_raw(file: Path) -> Raw:
    """Read one file. Raises NoSample where it has neither tokens nor states, DraftError where it is of no known form.

    speculators 0.9 and plain safetensors: `hidden_states` [T, S, hidden], `token_ids` or `input_ids`, maybe
    `loss_mask`. Lists: `hidden_states` S x [T, hidden]. SpecForge: `aux_hidden_state` [1, T, K x hidden] and
    `hidden_state` [1, T, hidden], which is its target's output after the final norm.
    """
    table = load_safetensors(file) if file.suffix == ".safetensors" else load_pickle(file)
    if not isinstance(table, Mapping):
        raise NoSample("a table of tensors", type(table).__name__, file, MOVE)
    if not any(key in table for key in KEYS):
        raise NoSample(f"a sample with {' or '.join(KEYS[:2])}", sorted(map(str, table))[:6], file, MOVE)
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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sparse tensors, which are refused
            if file.name.endswith(ZIPPED):
                return torch.load(io.BytesIO(_unzipped(file)), map_location="cpu", weights_only=True)
            return torch.load(file, map_location="cpu", weights_only=True, mmap=file.stat().st_size > 2**24)
    except pickle.UnpicklingError:
        raise DraftError("tensors, lists and tables only", "a pickle that needs code to run", file,
                         f"do not trust it: {MOVE}") from None  # fmt: skip
    except DraftError:
        raise
    except (RuntimeError, OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, zlib.error) as failure:
        raise DraftError("a file of torch.save", type(failure).__name__, file, MOVE) from None


def _unzipped(file: Path) -> bytes:
    with gzip.open(file) as stream:
        content = stream.read(LARGEST_ZIPPED + 1)
    if len(content) > LARGEST_ZIPPED:
        raise DraftError(f"at most {LARGEST_ZIPPED} bytes", "more", file, "unzip it")
    return content


def load_safetensors(file: Path) -> dict[str, Any]:
    """Every tensor of a file whose header was checked."""
    from draftwire.weights import to_tensor

    return {name: to_tensor(stored, name) for name, stored in read_header(file).items()}


def _stacked(table: Mapping[str, Any], file: Path) -> list[Any]:
    found = table.get("hidden_states")
    if isinstance(found, (list, tuple)):
        if not found:
            raise DraftError("hidden_states: a list of [T, hidden]", f"{len(found)} entries", file, AGAIN)
        return [_squeezed(require_plain(state, f"hidden_states[{i}]", file), 2) for i, state in enumerate(found)]
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


def require_plain(tensor: Any, key: str, file: Path) -> Any:
    """A tensor with its values in memory, of a dtype that can be computed with; raises DraftError on all else."""
    import torch

    if not isinstance(tensor, torch.Tensor):
        raise DraftError(f"{key}: a tensor", type(tensor).__name__, file, MOVE)
    dtype, layout = str(tensor.dtype).removeprefix("torch."), str(tensor.layout).removeprefix("torch.")
    odd = layout if tensor.layout != torch.strided else "nested" if tensor.is_nested else ""
    odd = odd or (f"a {tensor.device.type} tensor, without values" if tensor.is_meta else "")
    if odd or dtype not in PLAIN:
        raise DraftError(f"{key}: a plain tensor of {', '.join(PLAIN[-4:])} or integers", odd or dtype, file,
                         "dump it densely in bfloat16 or float32")  # fmt: skip
    return tensor.detach()


def check_ids(tensor: Any, key: str, file: Path, vocabulary: int | None) -> None:
    """Raises DraftError on integers of a dtype that cannot hold every token of the vocabulary: they have wrapped."""
    import torch

    most = 1 if tensor.dtype == torch.bool else torch.iinfo(tensor.dtype).max
    if most < (vocabulary or 2**15) - 1 or tensor.dtype == torch.bool:
        tokens = f"up to {vocabulary - 1}" if vocabulary else "of a vocabulary"
        dtype = str(tensor.dtype).removeprefix("torch.")
        raise DraftError(f"{key} of a dtype that holds tokens {tokens}", f"{dtype}, which ends at {most}", file,
                         "dump the ids in int32 or int64: greater ones have wrapped")  # fmt: skip


def _tensor(table: Mapping[str, Any], key: str, file: Path) -> Any:
    return require_plain(table.get(key), key, file)


def _squeezed(tensor: Any, rank: int) -> Any:
    """Without the batch dimension of one that some trainers keep."""
    return tensor[0] if tensor.ndim == rank + 1 and tensor.shape[0] == 1 else tensor
