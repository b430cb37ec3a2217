"""Loss masks: beside the states, in the trainer's prepared dataset, else all ones with a warning."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from draftwire.draft import DraftError

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
        mask = torch.as_tensor(own)
        if mask.shape != (len(ids),):
            raise DraftError(f"loss_mask [{len(ids)}]", list(mask.shape), self.data or file, "dump the samples again")
        return mask.bool()

    def _row(self, file: Path, row: int, ids: Any) -> Any:
        numbered = re.fullmatch(r"hs_(\d{1,9})", file.stem)
        index = int(numbered[1]) if numbered else row
        assert self._rows is not None
        if index >= len(self._rows):
            raise DraftError(f"row {index} for {file.name}", f"{len(self._rows)} rows", self.data, "name its dataset")
        tokens, mask = self._rows[index]
        if list(tokens) != ids.tolist():
            raise DraftError(f"the tokens of {file.name} in row {index}", "others", f"input_ids of {self.data}",
                             "name the dataset that the states were dumped from")  # fmt: skip
        return mask


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
