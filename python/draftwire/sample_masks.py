"""Loss masks: beside the states, in the trainer's prepared dataset, else all ones with a warning."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from draftwire.draft import DraftError
from draftwire.sample_files import number_of

WITHOUT = "no loss mask beside the states and no --data: every token counts"


class Masks:
    """The masks of a directory of samples. `data`: a dataset as `datasets` saves it, with `input_ids` and `loss_mask`;
    the row of `hs_<i>.safetensors` is i, as speculators 0.9 has it. `warnings`: lines for the user."""

    def __init__(self, data: Path | None):
        self.data, self.warnings = data, set[str]()
        self._rows = _read_rows(data) if data is not None else None

    def of(self, file: Path, row: int, ids: Any, own: Any) -> Any:
        """The mask [T] bool of a sample. Raises DraftError on one of another length and on other tokens' row."""
        import torch

        if self._rows is not None:
            own = self._row(file, row, ids)
        if own is None:
            self.warnings.add(WITHOUT)
            return torch.ones(len(ids), dtype=torch.bool)
        where = f"{self.data}, for {file.name}" if self.data else file
        try:
            mask = torch.as_tensor(own)
        except (TypeError, ValueError, RuntimeError) as failure:
            raise DraftError("loss_mask of 0 and 1", type(failure).__name__, where, "prepare it again") from None
        if mask.shape != (len(ids),):
            raise DraftError(f"loss_mask [{len(ids)}]", list(mask.shape), where, "dump the samples again")
        odd = mask[(mask != 0) & (mask != 1)]
        if len(odd):
            raise DraftError("loss_mask of 0 and 1", f"{len(odd)} others, first {odd[0].item():g}", where,
                             "write 1 where a token counts and 0 elsewhere")  # fmt: skip
        return mask.bool()

    def _row(self, file: Path, row: int, ids: Any) -> Any:
        """The mask of the row of these tokens: that of the file's number, except for hs_<i> else that of its place."""
        assert self._rows is not None
        number = number_of(file)
        rows = [number] if re.fullmatch(r"hs_\d+", file.stem) else [number, row]
        known = [index for index in dict.fromkeys(rows) if 0 <= index < len(self._rows)]
        if not known:
            raise DraftError(f"row {rows[0]} for {file.name}", f"{len(self._rows)} rows", self.data, "name its dataset")
        tokens = ids.tolist()
        for index in known:
            if self._rows[index][0] == tokens:
                return self._rows[index][1]
        raise DraftError(f"the tokens of {file.name} in row {' or '.join(map(str, known))}", "others",
                         f"input_ids of {self.data}", "name the dataset that the states were dumped from")  # fmt: skip


def _read_rows(data: Path) -> list[tuple[Any, Any]]:
    try:
        from pyarrow import ArrowInvalid, ipc
    except ImportError:
        raise DraftError("pyarrow, to read a dataset", "none", "this Python", "pip install pyarrow") from None
    files = sorted(data.glob("data-*.arrow")) if data.is_dir() else []
    if not files:
        raise DraftError("data-*.arrow, as datasets saves them", "none", data, "name the prepared dataset")
    rows: list[tuple[Any, Any]] = []
    for file in files:
        try:
            with ipc.open_stream(file) as stream:
                table = stream.read_all()
            columns = [table.column(key).to_pylist() for key in ("input_ids", "loss_mask")]
        except (ArrowInvalid, OSError, KeyError) as failure:
            raise DraftError("input_ids and loss_mask", type(failure).__name__, file, "prepare it again") from None
        rows += zip(*columns, strict=True)
    return rows
