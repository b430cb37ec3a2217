"""`target_argmax.pt`: the target's greedy tokens, each row found by its sample's name and held against its text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from draftwire.doubt import BEYOND, lead
from draftwire.draft import DraftError
from draftwire.sample_files import ARGMAX, number_of
from draftwire.sample_formats import check_ids, load_pickle, require_plain

REMEDY = "write it again with `files`, the sample's file name for each row, or remove it"
TEXT = 512


class Argmax:
    """The table of a directory of samples: `argmax` [rows, T] of integers, maybe `files`: a name for each row.

    Without `files`, the row of data_<i> is i; where those numbers are not rows' but there is a row for each file, it is
    the file's place among the numbered ones. Raises DraftError where neither tells the rows.
    """

    def __init__(self, directory: Path, files: Sequence[Path], vocabulary: int | None):
        self.file, self.vocabulary = directory / ARGMAX, vocabulary
        self.table, names = _read(self.file, vocabulary)
        self.rows: dict[Path, int] = {}
        numbered = [file for file in files if number_of(file) >= 0] or list(files)
        numbers = [number_of(file) for file in numbered]
        count = len(self.table)
        if names is not None:
            rows = {name: row for row, name in enumerate(names)}
            for file in files:
                row = rows.get(file.relative_to(directory).as_posix(), rows.get(file.name))
                if row is not None:
                    self.rows[file] = row
        elif len(set(numbers)) == len(numbers) and min(numbers) >= 0 and max(numbers) < count:
            self.rows = dict(zip(numbered, numbers, strict=True))
        elif len(numbered) == count:
            self.rows = {file: row for row, file in enumerate(numbered)}
        else:
            raise DraftError(f"a row for each of {len(numbered)} samples", f"{count} rows", self.file, REMEDY)

    def of(self, file: Path, ids: Any) -> Any:
        """The target's tokens [T] after those of a sample [T]. Raises DraftError where there is no such row, it is too
        short, it holds what are no tokens, or another row foretells the sample's text far better."""
        row = self.rows.get(file)
        if row is None:
            raise DraftError(f"a row of {file.name}", "none", self.file, REMEDY)
        if self.table.shape[1] < len(ids):
            shape = list(self.table.shape)
            raise DraftError(f"argmax of the {len(ids)} tokens of {file.name}", shape, self.file, REMEDY)
        argmax = self.table[row, : len(ids)]
        least, most = int(argmax.min()), int(argmax.max())
        if least < 0 or (self.vocabulary is not None and most >= self.vocabulary):
            where = f"row {row}, that of {file.name}, of {self.file}"
            raise DraftError(f"argmax from 0 to below {self.vocabulary}", [least, most], where, REMEDY)
        better = self._better(row, ids)
        if better is not None:
            raise DraftError(f"row {row} to foretell the text of {file.name}", f"row {better} to do so far better",
                             self.file, REMEDY)  # fmt: skip
        return argmax

    def _better(self, row: int, ids: Any) -> int | None:
        """A row that foretells the text beyond doubt better (McNemar's test), if there is one."""
        following = ids[1 : TEXT + 1]
        hits = self.table[:, : len(following)] == following
        ahead = lead(hits, hits[row])
        best = int(ahead.argmax())
        return best if float(ahead[best]) >= BEYOND else None


def _read(file: Path, vocabulary: int | None) -> tuple[Any, list[str] | None]:
    table = load_pickle(file)
    argmax = require_plain(table.get("argmax") if isinstance(table, dict) else None, "argmax", file)
    if argmax.ndim != 2 or argmax.is_floating_point():
        raise DraftError("argmax [samples, T] of integers", f"{list(argmax.shape)} of {argmax.dtype}", file, REMEDY)
    check_ids(argmax, "argmax", file, vocabulary)
    names = table.get("files")
    if names is not None and (not isinstance(names, list) or len(names) != len(argmax)
                              or not all(isinstance(name, str) for name in names)):  # fmt: skip
        raise DraftError(f"files: a name for each of {len(argmax)} rows", repr(names)[:60], file, REMEDY)
    return argmax.long(), names
