"""Training samples: a sequence, its loss mask and the target's states as the trainer dumped them.

`read_samples` knows speculators 0.9 (`hs_<i>.safetensors`), the older lists of tensors (`.pt`), SpecForge's `.ckpt` and
plain safetensors. torch is imported when the first sample is read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from draftwire.draft import DraftError
from draftwire.sample_argmax import Argmax
from draftwire.sample_files import ARGMAX, find_files
from draftwire.sample_formats import NoSample, check_ids, read_raw
from draftwire.sample_manifest import read_boundaries
from draftwire.sample_masks import Masks

LONGEST = 4096
SHORTEST = 4  # test-time step k predicts from token k + 1 on
STRAY, SHORT = "no sample", f"fewer than {SHORTEST} tokens"


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
    """A directory of samples, read one at a time; what is no sample or too short is left out, with a note.

    `boundaries`: which boundary each dumped state is, from the manifest or the user; None where nobody says.
    `hidden_size`, `vocab_size`, `num_layers`: what the states, ids and boundaries must fit, None where not known.
    """

    directory: Path
    files: tuple[Path, ...]
    boundaries: tuple[int, ...] | None
    masks: Masks
    hidden_size: int | None = None
    vocab_size: int | None = None
    num_layers: int | None = None
    left_out: dict[Path, str] = field(default_factory=dict, compare=False)
    named: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)  # of naming.py, by target

    def __iter__(self) -> Iterator[Sample]:
        """Raises DraftError on a sample that is damaged, and where every file is left out."""
        argmax = Argmax(self.directory, self.files, self.vocab_size) if (self.directory / ARGMAX).is_file() else None
        first, found = None, False
        for row, file in enumerate(self.files):
            try:
                sample = self._read(row, file, argmax)
            except NoSample as stray:
                self.left_out[file] = STRAY
                first = first or stray
                continue
            if sample is None:
                self.left_out[file] = SHORT
                continue
            found = True
            yield sample
        if not found and SHORT in self.left_out.values():
            raise DraftError(f"a sample of {SHORTEST} tokens or more, as {SHORTEST} steps need",
                             f"none in {len(self.files)} files", self.directory, "dump longer samples")  # fmt: skip
        if first is not None and not found:
            raise first

    @property
    def notes(self) -> list[str]:
        """Lines for the user about what was read until now."""
        by_reason = defaultdict(list)
        for file, reason in self.left_out.items():
            by_reason[reason].append(file.name)
        lines = [f"left out as {reason}: {', '.join(names[:4])}" + f" and {len(names) - 4} more" * (len(names) > 4)
                 for reason, names in by_reason.items()]  # fmt: skip
        return [*sorted(self.masks.warnings), *lines]

    def _read(self, row: int, file: Path, table: Argmax | None) -> Sample | None:
        """One sample, None where it is too short."""
        raw = read_raw(file)
        ids = _ids(raw.input_ids, raw.ids_key, file, self.vocab_size)
        if len(ids) < SHORTEST:
            return None
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
        _require_counting(mask, file)
        argmax = None if table is None else table.of(file, ids)
        cut = slice(0, LONGEST)
        return Sample(file, ids[cut], mask[cut], states, None if argmax is None else argmax[cut], raw.last_is_normed)


def read_samples(
    directory: Path,
    *,
    states: Sequence[int] | None = None,
    data: Path | None = None,
    hidden_size: int | None = None,
    vocab_size: int | None = None,
    num_layers: int | None = None,
) -> Samples:
    """Find the samples of a directory and its folders. states: their boundaries, where no manifest says them. data: a
    prepared dataset with the loss masks. num_layers: the target's, which boundaries end at; else the manifest's.

    Raises DraftError on a directory without samples, on a manifest that says otherwise and on other boundaries."""
    files = find_files(directory)
    boundaries, layers = read_boundaries(directory, states, num_layers)
    return Samples(directory, files, boundaries, Masks(data), hidden_size, vocab_size, layers)


def _ids(tensor: Any, key: str, file: Path, vocabulary: int | None) -> Any:
    if tensor.ndim != 1 or tensor.is_floating_point():
        raise DraftError(f"{key} [T] of integers", f"{list(tensor.shape)} of {tensor.dtype}", file,
                         "dump the samples again")  # fmt: skip
    check_ids(tensor, key, file, vocabulary)
    ids = tensor.long()
    least, most = (int(ids.min()), int(ids.max())) if len(ids) else (0, 0)
    if least < 0 or (vocabulary is not None and most >= vocabulary):
        raise DraftError(f"{key} from 0 to below {vocabulary}", [least, most], file,
                         "name the target that the samples were dumped from")  # fmt: skip
    return ids


def _state(state: Any, key: str, file: Path, length: int, hidden: int | None) -> Any:
    """The state, cut to the rows that are read."""
    if state.ndim != 2 or not state.is_floating_point() or len(state) != length or hidden not in (None, state.shape[1]):
        shape = [length, "hidden" if hidden is None else hidden]
        raise DraftError(f"{key} {shape} of floats", f"{list(state.shape)} of {state.dtype}", file,
                         "name the draft that these samples trained, or dump them again")  # fmt: skip
    state = state[:LONGEST]
    finite = state.isfinite().all(-1)
    if not bool(finite.all()):
        raise DraftError(f"{key} without NaN and infinity", f"{int((~finite).sum())} such rows", file,
                         "leave this sample out")  # fmt: skip
    return state


def _require_counting(mask: Any, file: Path) -> None:
    """A prediction is for a token after the first, of those that are read."""
    if bool(mask[1:LONGEST][:-1].any()):
        return
    first = mask.nonzero()[:1].tolist()
    if first and first[0][0] >= LONGEST:
        raise DraftError(f"a token that counts among the first {LONGEST}, which are read",
                         f"the first at {first[0][0]}", f"loss_mask of {file}", "leave this sample out")  # fmt: skip
    found = "only the first or last, of which there is no prediction" if first else "zeros only"
    raise DraftError("a token that counts", found, f"loss_mask of {file}", "leave this sample out")
