"""Which files of a directory are samples: those in its folders too, in one order, and not what lies beside them."""

from __future__ import annotations

import gzip
import io
import shutil
from pathlib import Path

import pytest

pytest.importorskip("transformers")
import torch
from test_sample import S, T, read, save, tensors

from draftwire import sample_files
from draftwire.draft import DraftError
from draftwire.pair import example_pair
from draftwire.sample import read_samples
from draftwire.states_command import name_dumped


def specforge(**changes) -> dict:
    table = tensors(**changes)
    states = table.pop("hidden_states")
    return table | {"aux_hidden_state": torch.cat(states[:3], dim=-1)[None], "hidden_state": states[3][None]}


def test_specforge_nests_its_files(tmp_path: Path) -> None:
    for folder, number in (("rows_5000-10000", 5000), ("rows_0-5000", 2), ("rows_0-5000", 10)):
        (tmp_path / folder).mkdir(exist_ok=True)
        save(tmp_path / folder, specforge(), f"data_{number}.ckpt")
    assert [s.file.name for s in read(tmp_path)] == ["data_2.ckpt", "data_10.ckpt", "data_5000.ckpt"]


def test_a_zipped_sample(tmp_path: Path) -> None:
    stream = io.BytesIO()
    torch.save(specforge(), stream)
    (tmp_path / "data_0.ckpt.gz").write_bytes(gzip.compress(stream.getvalue()))
    (sample,) = read(tmp_path)
    assert len(sample.states) == S
    (tmp_path / "data_0.ckpt.gz").write_bytes(gzip.compress(stream.getvalue())[:100])
    with pytest.raises(DraftError, match=r"expected a file of torch.save; found EOFError in .*data_0\.ckpt\.gz"):
        read(tmp_path)


def test_the_walk_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / "a/b/c/d"
    (deep / "e").mkdir(parents=True)
    (tmp_path / ".cache").mkdir()
    save(deep, tensors(), "data_0.pt")
    save(deep / "e", tensors(), "data_1.pt")
    save(tmp_path / ".cache", tensors(), "data_2.pt")
    (deep / "again").symlink_to(tmp_path)
    assert [s.file.name for s in read(tmp_path)] == ["data_0.pt"]
    monkeypatch.setattr(sample_files, "MOST_ENTRIES", 0)
    with pytest.raises(DraftError, match="expected at most 0 files; found more in"):
        read_samples(tmp_path)


def test_what_is_no_sample_is_left_out_with_a_note(tmp_path: Path) -> None:
    save(tmp_path, tensors(), "data_0.pt")
    save(tmp_path, {"state": {0: {"exp_avg": torch.zeros(3)}}, "param_groups": [{"lr": 0.1}]}, "optimizer.pt")
    samples = read_samples(tmp_path)
    assert [s.file.name for s in samples] == ["data_0.pt"]
    assert samples.notes == ["left out as no sample: optimizer.pt"]


def test_what_cannot_be_read_is_named_to_be_moved(tmp_path: Path) -> None:
    save(tmp_path, tensors(), "data_0.pt")
    save(tmp_path, {"scheduler": io.StringIO("")}, "scheduler.pt")
    with pytest.raises(DraftError, match=r"scheduler\.pt; do not trust it: .* move it elsewhere if it is no sample"):
        read(tmp_path)


def test_short_samples_are_left_out_with_a_note(tmp_path: Path) -> None:
    for length in (1, 2, 3):
        short = {key: [s[:length] for s in value] if isinstance(value, list) else value[:length]
                 for key, value in tensors().items()}  # fmt: skip
        save(tmp_path, short, f"data_{length}.pt")
    with pytest.raises(DraftError, match=r"expected a sample of 4 tokens or more, .*; found none in 3 files"):
        read(tmp_path)
    save(tmp_path, tensors(), "data_4.pt")
    samples = read_samples(tmp_path)
    assert [s.length for s in samples] == [T]
    assert samples.notes == ["left out as fewer than 4 tokens: data_1.pt, data_2.pt, data_3.pt"]


def test_before_there_is_a_draft_it_is_said_too(tmp_path: Path) -> None:
    pair = example_pair()
    shutil.copy(pair.directory / "samples" / "data_0.pt", tmp_path)
    save(tmp_path, {"param_groups": []}, "optimizer.pt")
    text, _ = name_dumped(str(pair.target), tmp_path)
    assert text.splitlines()[-1] == "note: left out as no sample: optimizer.pt"
