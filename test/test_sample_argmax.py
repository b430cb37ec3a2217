"""The rows of `target_argmax.pt` are found by name, whatever samples are left out, and held against the text."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("transformers")
import torch

from draftwire.draft import DraftError
from draftwire.pair import example_pair
from draftwire.sample import read_samples

SAMPLES = example_pair().directory / "samples"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for file in SAMPLES.glob("*.pt"):
        shutil.copy(file, tmp_path / file.name)
    return tmp_path


def table_of(folder: Path) -> torch.Tensor:
    return torch.load(folder / "target_argmax.pt", weights_only=True)["argmax"]


@pytest.mark.parametrize("without", [0, 2, 5])
def test_a_sample_left_out_moves_no_row(folder: Path, without: int) -> None:
    (folder / f"data_{without}.pt").unlink()
    table = table_of(folder)
    samples = list(read_samples(folder, vocab_size=1024))
    assert len(samples) == 5
    for sample in samples:
        assert torch.equal(sample.argmax, table[int(sample.file.stem[-1])])


def test_another_file_beside_them_moves_no_row(folder: Path) -> None:
    torch.save({"param_groups": []}, folder / "optimizer.pt")
    first = next(iter(read_samples(folder)))
    assert torch.equal(first.argmax, table_of(folder)[0])


def test_numbers_from_one(folder: Path) -> None:
    for number in range(6, 0, -1):
        (folder / f"data_{number - 1}.pt").rename(folder / f"data_{number}.pt")
    table = table_of(folder)
    assert all(torch.equal(s.argmax, table[i]) for i, s in enumerate(read_samples(folder)))
    (folder / "data_1.pt").unlink()
    with pytest.raises(DraftError, match="expected a row for each of 5 samples; found 6 rows"):
        list(read_samples(folder))
    shutil.copy(SAMPLES / "data_0.pt", folder / "data_1.pt")
    (folder / "data_6.pt").unlink()
    with pytest.raises(DraftError, match=r"row 1 to foretell the text of data_1.pt; found row 0 to do so far better"):
        list(read_samples(folder))


def test_files_names_the_rows(folder: Path) -> None:
    """What the refusals advise."""
    table, order = table_of(folder), [3, 1, 0, 2, 5, 4]
    names = [f"data_{i}.pt" for i in order]
    torch.save({"argmax": table[order], "files": names}, folder / "target_argmax.pt")
    assert all(torch.equal(s.argmax, table[int(s.file.stem[-1])]) for s in read_samples(folder))
    torch.save({"argmax": table[order][:5], "files": names[:5]}, folder / "target_argmax.pt")
    with pytest.raises(DraftError, match=r"expected a row of data_4.pt; found none in .*; write it again with `files`"):
        list(read_samples(folder))
    torch.save({"argmax": table, "files": names[:5]}, folder / "target_argmax.pt")
    with pytest.raises(DraftError, match="expected files: a name for each of 6 rows"):
        list(read_samples(folder))


def test_rows_in_another_order_are_refused(folder: Path) -> None:
    torch.save({"argmax": table_of(folder).flip(0)}, folder / "target_argmax.pt")
    with pytest.raises(DraftError, match=r"row 0 to foretell the text of data_0.pt; found row 5"):
        list(read_samples(folder))


@pytest.mark.parametrize(("token", "found"), [(1024, r"\[8, 1024\]"), (-1, r"\[-1, ")])
def test_no_token_of_the_vocabulary(folder: Path, token: int, found: str) -> None:
    table = table_of(folder)
    table[2, 7] = token
    torch.save({"argmax": table}, folder / "target_argmax.pt")
    with pytest.raises(DraftError, match=f"argmax from 0 to below 1024; found {found}.* in row 2, that of data_2.pt"):
        list(read_samples(folder, vocab_size=1024))


@pytest.mark.parametrize(
    ("argmax", "expected"),
    [
        (torch.zeros(6, 255, dtype=torch.long), r"argmax of the 256 tokens of data_0.pt; found \[6, 255\]"),
        (torch.zeros(6, 256), r"argmax \[samples, T\] of integers; found \[6, 256\] of torch.float32"),
        (torch.zeros(6, 256, dtype=torch.uint8), "argmax of a dtype that holds tokens up to 1023; found uint8"),
        (torch.zeros(6, 256, dtype=torch.long).to_sparse(), "argmax: a plain tensor .*; found sparse_coo"),
    ],
)
def test_no_table_of_tokens(folder: Path, argmax: torch.Tensor, expected: str) -> None:
    torch.save({"argmax": argmax}, folder / "target_argmax.pt")
    with pytest.raises(DraftError, match=expected):
        list(read_samples(folder, vocab_size=1024))
