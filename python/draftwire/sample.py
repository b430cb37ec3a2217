"""Training samples: a sequence, its loss mask and the target's states as the trainer dumped them.

`read_samples` knows speculators 0.9 (`hs_<i>.safetensors`), the older lists of tensors (`.pt`), SpecForge's `.ckpt` and
plain safetensors. torch is imported when the first sample is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftwire.draft import DraftError
from draftwire.sample_formats import FORMATS, read_raw
from draftwire.sample_masks import Masks

MANIFEST = "manifest.json"
ARGMAX = "target_argmax.pt"
LARGEST_MANIFEST = 1024 * 1024
LONGEST = 4096


@dataclass(frozen=True)
class Sample:
    """`input_ids` [T] int64; `loss_mask` [T] bool; `states` S of [T, hidden], as dumped; `argmax` [T] int64 or None.

    `states[-1]` is what the trainer takes as the verifier's last state; `last_is_normed`: the final norm is in it.
    """

    file: Path
    input_ids: Any
    loss_mask: Any
    states: tuple[Any, ...]
    argmax: Any
    last_is_normed: bool

    @property
    def length(self) -> int:
        return len(self.input_ids)


@dataclass(frozen=True)
class Samples:
    """A directory of samples, read one at a time.

    `boundaries`: which boundary each dumped state is, from the manifest or the user; None where nobody says.
    `hidden_size`, `vocab_size`: what the states and ids must fit, None where not known.
    """

    directory: Path
    files: tuple[Path, ...]
    boundaries: tuple[int, ...] | None
    masks: Masks
    hidden_size: int | None = None
    vocab_size: int | None = None

    def __iter__(self) -> Iterator[Sample]:
        arguments = _read_argmax(self.directory)
        for row, file in enumerate(self.files):
            yield self._read(row, file, arguments)

    def _read(self, row: int, file: Path, arguments: Any) -> Sample:
        import torch

        raw = read_raw(file)
        ids = _ids(raw.input_ids, raw.ids_key, file, self.vocab_size)
        count = len(self.boundaries) if self.boundaries else None
        states = tuple(_state(s, f"{raw.states_key}[{i}]", file, len(ids), self.hidden_size)
                       for i, s in enumerate(raw.states))  # fmt: skip
        if count is not None and len(states) != count:
            raise DraftError(
                f"{count} states, one for each boundary of {list(self.boundaries or ())}", len(states),
                f"{raw.states_key} of {file}", "correct the manifest or --states",
            )  # fmt: skip
        if len({s.shape[1] for s in states}) > 1:
            widths = [s.shape[1] for s in states]
            raise DraftError("states of one width", widths, f"{raw.states_key} of {file}", "dump the samples again")
        mask = self.masks.of(file, row, ids, raw.loss_mask)
        if not bool(mask[1:-1].any()):
            raise DraftError("a token that counts", "zeros only", f"loss_mask of {file}", "leave this sample out")
        argmax = None
        if arguments is not None:
            argmax = _argmax(arguments, row, ids, self.directory / ARGMAX)
        cut = slice(0, LONGEST)
        return Sample(file, ids[cut], torch.as_tensor(mask[cut]), tuple(s[cut] for s in states),
                      None if argmax is None else argmax[cut], raw.last_is_normed)  # fmt: skip


def read_samples(
    directory: Path,
    *,
    states: Sequence[int] | None = None,
    data: Path | None = None,
    hidden_size: int | None = None,
    vocab_size: int | None = None,
) -> Samples:
    """Find the samples of a directory. states: their boundaries, where no manifest says them. data: a prepared dataset
    with the loss masks. Raises DraftError on a directory without samples and on a manifest that says otherwise."""
    if not directory.is_dir():
        raise DraftError("a directory of samples", "none", directory, "check the path")
    found = [f for f in directory.iterdir() if f.suffix in FORMATS and f.name != ARGMAX and f.is_file()]
    if not found:
        raise DraftError(f"samples ({', '.join(sorted(FORMATS))})", "none", directory, "name the trainer's dump")
    files = tuple(sorted(found, key=_number))
    boundaries = _boundaries(directory, states)
    masks = Masks(data)
    return Samples(directory, files, boundaries, masks, hidden_size, vocab_size)


def _number(file: Path) -> tuple[int, str]:
    digits = re.findall(r"\d+", file.stem)
    return int(digits[-1][:12]) if digits else -1, file.name


def _boundaries(directory: Path, states: Sequence[int] | None) -> tuple[int, ...] | None:
    said = _manifest(directory / MANIFEST)
    if states is None:
        return said
    given = tuple(states)
    _require_boundaries(list(given), "--states")
    if said is not None and said != given:
        raise DraftError(f"boundaries {list(said)} of {MANIFEST}", list(given), "--states", "leave it out")
    return given


def _manifest(file: Path) -> tuple[int, ...] | None:
    if not file.is_file():
        return None
    if file.stat().st_size > LARGEST_MANIFEST:
        raise DraftError(f"a manifest of at most {LARGEST_MANIFEST} bytes", file.stat().st_size, file, "correct it")
    try:
        boundaries = json.loads(file.read_bytes())["boundaries"]
    except (ValueError, TypeError, KeyError, RecursionError) as failure:
        raise DraftError("boundaries", type(failure).__name__, file, 'write {"boundaries": [0, 3, 6, 9]}') from None
    _require_boundaries(boundaries, f"boundaries of {file}")
    return tuple(boundaries)


def _require_boundaries(given: Any, where: str) -> None:
    whole = isinstance(given, list) and bool(given) and all(type(b) is int and b >= 0 for b in given)
    if not whole or len(set(given)) != len(given):
        raise DraftError("different boundaries from 0", repr(given)[:80], where, "name each dumped state's boundary")


def _ids(tensor: Any, key: str, file: Path, vocabulary: int | None) -> Any:
    if tensor.ndim != 1 or tensor.is_floating_point() or tensor.dtype.is_complex or len(tensor) < 3:
        raise DraftError(f"{key} [T] of integers, T from 3", f"{list(tensor.shape)} of {tensor.dtype}", file,
                         "dump the samples again")  # fmt: skip
    ids = tensor.long()
    if int(ids.min()) < 0 or (vocabulary is not None and int(ids.max()) >= vocabulary):
        raise DraftError(f"{key} from 0 to below {vocabulary}", [int(ids.min()), int(ids.max())], file,
                         "name the target that the samples were dumped from")  # fmt: skip
    return ids


def _state(state: Any, key: str, file: Path, length: int, hidden: int | None) -> Any:
    if state.ndim != 2 or not state.is_floating_point() or len(state) != length or hidden not in (None, state.shape[1]):
        shape = [length, "hidden" if hidden is None else hidden]
        raise DraftError(f"{key} {shape} of floats", f"{list(state.shape)} of {state.dtype}", file,
                         "name the draft that these samples trained, or dump them again")  # fmt: skip
    if not bool(state.isfinite().all()):
        rows = int((~state.isfinite()).any(-1).sum())
        raise DraftError(f"{key} without NaN and infinity", f"{rows} such rows", file, "leave this sample out")
    return state


def _read_argmax(directory: Path) -> Any:
    file = directory / ARGMAX
    if not file.is_file():
        return None
    from draftwire.sample_formats import load_pickle

    table = load_pickle(file)
    argmax = table.get("argmax") if isinstance(table, dict) else None
    if argmax is None or not hasattr(argmax, "ndim") or argmax.ndim != 2 or argmax.is_floating_point():
        raise DraftError("argmax [samples, T] of integers", type(argmax).__name__, file, "write it again or remove it")
    return argmax.long()


def _argmax(table: Any, row: int, ids: Any, file: Path) -> Any:
    if row >= len(table) or table.shape[1] < len(ids):
        raise DraftError(f"argmax of {len(ids)} tokens for sample {row}", list(table.shape), file, "remove it")
    return table[row, : len(ids)]
