"""Training samples in every trainer's form, and bad ones, each refused in one line that names file and key."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")
import torch
from safetensors.torch import save_file

from draftwire.draft import DraftError
from draftwire.pair import example_pair
from draftwire.sample import Sample, read_samples
from draftwire.sample_masks import WITHOUT

T, S, H, V = 6, 4, 8, 50


def tensors(**changes: Any) -> dict[str, Any]:
    torch.manual_seed(0)
    table = {
        "input_ids": torch.randint(0, V, (T,)),
        "loss_mask": torch.tensor([0, 0, 1, 1, 1, 0]),
        "hidden_states": [torch.randn(T, H) for _ in range(S)],
    }
    table |= changes
    return {k: v for k, v in table.items() if v is not None}


def save(folder: Path, table: Any, name: str = "data_0.pt") -> Path:
    torch.save(table, folder / name)
    return folder


def read(folder: Path, **given: Any) -> list[Sample]:
    return list(read_samples(folder, hidden_size=H, vocab_size=V, **given))


def test_a_list_of_tensors(tmp_path: Path) -> None:
    (sample,) = read(save(tmp_path, tensors()))
    assert len(sample.states) == S
    assert torch.equal(sample.states[2], tensors()["hidden_states"][2])
    assert sample.loss_mask.tolist() == [False, False, True, True, True, False]
    assert not sample.last_is_normed


def test_speculators(tmp_path: Path) -> None:
    table = tensors()
    stacked = torch.stack(table["hidden_states"], dim=1)
    save_file({"hidden_states": stacked, "token_ids": table["input_ids"]}, tmp_path / "hs_3.safetensors")
    samples = read_samples(tmp_path, hidden_size=H, vocab_size=V)
    (sample,) = samples
    assert all(torch.equal(a, b) for a, b in zip(sample.states, table["hidden_states"], strict=True))
    assert torch.equal(sample.input_ids, table["input_ids"])
    assert sample.loss_mask.all()
    assert samples.masks.warnings == {WITHOUT}


def test_specforge(tmp_path: Path) -> None:
    table = tensors()
    states = table.pop("hidden_states")
    table |= {"aux_hidden_state": torch.cat(states[:3], dim=-1)[None], "hidden_state": states[3][None]}
    (sample,) = read(save(tmp_path, table, "data_7.ckpt"))
    assert all(torch.equal(a, b) for a, b in zip(sample.states, states, strict=True))
    assert sample.last_is_normed


def test_files_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number in (10, 2, 1):
        save(tmp_path, tensors(), f"data_{number}.pt")
    assert [s.file.name for s in read(tmp_path)] == ["data_1.pt", "data_2.pt", "data_10.pt"]


def test_boundaries_from_manifest_and_states(tmp_path: Path) -> None:
    save(tmp_path, tensors())
    assert read_samples(tmp_path).boundaries is None
    assert read_samples(tmp_path, states=[0, 3, 6, 9]).boundaries == (0, 3, 6, 9)
    (tmp_path / "manifest.json").write_text('{"boundaries": [0, 3, 6, 12]}')
    assert read_samples(tmp_path).boundaries == (0, 3, 6, 12)
    with pytest.raises(DraftError, match=r"boundaries \[0, 3, 6, 12\] of manifest.json; found \[0, 3, 6, 9\]"):
        read_samples(tmp_path, states=[0, 3, 6, 9])


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"boundaries": 3}', '{"boundaries": [0, 0]}', '{"boundaries": [-1]}']
)
def test_a_bad_manifest(tmp_path: Path, text: str) -> None:
    save(tmp_path, tensors())
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(DraftError, match=r"manifest\.json"):
        read_samples(tmp_path)


BAD = {
    "another hidden size": (tensors(hidden_states=[torch.zeros(T, H + 1)] * S),
                            r"expected hidden_states\[0\] \[6, 8\] of floats; found \[6, 9\] of torch.float32 in .*"),
    "two widths": (tensors(hidden_states=[torch.zeros(T, H), torch.zeros(T, H + 1)]), r"hidden_states\[1\] \[6, 8\]"),
    "unequal lengths": (tensors(hidden_states=[torch.zeros(T, H), torch.zeros(T - 1, H)]),
                        r"expected hidden_states\[1\] \[6, 8\] of floats; found \[5, 8\]"),
    "another vocabulary": (tensors(input_ids=torch.full((T,), V)),
                           r"expected input_ids from 0 to below 50; found \[50, 50\] in .*data_0.pt"),
    "negative ids": (tensors(input_ids=torch.tensor([0, 1, 2, -1, 4, 5])), r"input_ids from 0 to below 50; found \[-1"),
    "no tokens": (tensors(input_ids=torch.zeros(0, dtype=torch.long)), r"of 4 tokens or more, .*; found none in 1 "),
    "ids as floats": (tensors(input_ids=torch.zeros(T)), r"expected input_ids \[T\] of integers.*float32"),
    "a mask of zeros": (tensors(loss_mask=torch.zeros(T)), r"a token that counts; found zeros only in loss_mask of .*"),
    "a mask of another length": (tensors(loss_mask=torch.ones(T + 1)), r"expected loss_mask \[6\]; found \[7\] in .*"),
    "NaN": (tensors(hidden_states=[torch.zeros(T, H), torch.full((T, H), float("nan"))]),
            r"expected hidden_states\[1\] without NaN and infinity; found 6 such rows in .*data_0.pt"),
    "float8": (tensors(hidden_states=[torch.zeros(T, H).to(torch.float8_e4m3fn)]),
               r"expected hidden_states\[0\]: a plain tensor of .*; found float8_e4m3fn in .*; dump it densely"),
    "float8, stacked": (tensors(hidden_states=torch.zeros(T, S, H).to(torch.float8_e4m3fn)), "found float8_e4m3fn"),
    "sparse": (tensors(hidden_states=[torch.zeros(T, H).to_sparse()]), "found sparse_coo in .*data_0.pt"),
    "without values": (tensors(hidden_states=[torch.zeros(T, H, device="meta")]), "a meta tensor, without values"),
    "no tensors": (tensors(hidden_states=[1, 2]), r"expected hidden_states\[0\]: a tensor; found int in .*data_0.pt"),
    "ids as truths": (tensors(input_ids=torch.zeros(T, dtype=torch.bool)),
                 r"expected input_ids of a dtype that holds tokens up to 49; found bool, .* int32 or int64"),
    "a mask of NaN": (tensors(loss_mask=torch.full((T,), float("nan"))),
                      r"expected loss_mask of 0 and 1; found 6 others, first nan in .*data_0.pt"),
    "a mask of weights": (tensors(loss_mask=torch.tensor([0, 1, 2, 1, 0, 1])), "found 1 others, first 2 in .*data_0"),
    "a mask of the ends": (tensors(loss_mask=torch.tensor([1, 0, 0, 0, 0, 1])), "found only the first or last, of whi"),
    "no states": (tensors(hidden_states=None), r"expected hidden_states: a tensor; found NoneType in .*data_0.pt"),
    "an empty list": (tensors(hidden_states=[]), r"a list of \[T, hidden\]; found 0 entries"),
    "no ids": (tensors(input_ids=None), r"expected input_ids or token_ids; found \['hidden_states', 'loss_mask'\]"),
    "no table": (torch.zeros(3), r"expected a table of tensors; found Tensor in .*data_0.pt"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_sample(name: str, tmp_path: Path) -> None:
    table, message = BAD[name]
    with pytest.raises(DraftError, match=message) as refusal:
        read(save(tmp_path, table))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16])
def test_ids_of_a_dtype_that_wraps(dtype: torch.dtype, tmp_path: Path) -> None:
    ids = (torch.arange(T) + 40_000).to(dtype)
    save(tmp_path, tensors(input_ids=ids))
    most = torch.iinfo(dtype).max
    wanted = f"holds tokens up to 49999; found {str(dtype)[6:]}, which ends at {most} .* dump the ids in int32 or"
    with pytest.raises(DraftError, match=wanted):
        list(read_samples(tmp_path, vocab_size=50_000))
    save(tmp_path, tensors(input_ids=torch.arange(T).to(dtype)))
    assert next(iter(read_samples(tmp_path, vocab_size=50))).input_ids.tolist() == list(range(T))


def test_a_mask_beyond_what_is_read(tmp_path: Path) -> None:
    states = [torch.zeros(5000, H)] * S
    mask = torch.arange(5000) >= 4500
    save(tmp_path, {"input_ids": torch.zeros(5000, dtype=torch.long), "loss_mask": mask, "hidden_states": states})
    with pytest.raises(DraftError, match="among the first 4096, which are read; found the first at 4500 in loss_mask"):
        read(tmp_path)


def test_boundaries_end_at_the_targets_layers(tmp_path: Path) -> None:
    save(tmp_path, tensors())
    with pytest.raises(DraftError, match=r"boundaries from 0 to 12, .*; found \[0, 3, 6, 99\] in --states"):
        read_samples(tmp_path, states=[0, 3, 6, 99], num_layers=12)
    (tmp_path / "manifest.json").write_text('{"boundaries": [0, 3, 6, 13], "num_hidden_layers": 12}')
    with pytest.raises(DraftError, match=r"boundaries from 0 to 12, .*; found \[0, 3, 6, 13\] in .*manifest.json"):
        read_samples(tmp_path)
    with pytest.raises(DraftError, match=r"num_hidden_layers 24, the target's; found 12 in .*manifest.json"):
        read_samples(tmp_path, num_layers=24)


def test_one_state_too_few_for_the_manifest(tmp_path: Path) -> None:
    save(tmp_path, tensors())
    with pytest.raises(DraftError, match=r"expected 3 states, .*; found 4 in hidden_states of .*data_0\.pt"):
        read(tmp_path, states=[0, 3, 6])


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x80\x02garbage", b"x" * 100])
@pytest.mark.parametrize("name", ["data_0.pt", "hs_0.safetensors"])
def test_a_file_that_is_none(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DraftError, match=name.replace(".", r"\.")) as refusal:
        read(tmp_path)
    assert "\n" not in str(refusal.value)


def test_an_empty_directory(tmp_path: Path) -> None:
    with pytest.raises(DraftError, match=r"expected samples \(.*\); found none"):
        read_samples(tmp_path)
    with pytest.raises(DraftError, match="expected a directory of samples"):
        read_samples(tmp_path / "nowhere")


class Payload:
    def __init__(self, trace: Path):
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


@pytest.mark.parametrize("name", ["data_0.pt", "data_0.ckpt", "target_argmax.pt"])
def test_a_pickle_that_would_run_code_does_not(name: str, tmp_path: Path) -> None:
    folder, trace = tmp_path / "samples", tmp_path / "ran"
    folder.mkdir()
    save(folder, tensors())
    save(folder, {**tensors(), "argmax": Payload(trace)}, name)
    with pytest.raises(DraftError, match=r"found a pickle that needs code to run"):
        read(folder)
    assert not trace.exists()
    torch.load(folder / name, weights_only=False)
    assert trace.exists()  # the pickle is one that would have


def test_masks_of_a_prepared_dataset(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = tensors()
    data = tmp_path / "prepared"
    data.mkdir()
    rows = {"input_ids": [[1], table["input_ids"].tolist()], "loss_mask": [[1], [0, 0, 0, 1, 0, 0]]}
    with pyarrow.ipc.new_stream(data / "data-00000-of-00001.arrow", pyarrow.table(rows).schema) as stream:
        stream.write_table(pyarrow.table(rows))
    stacked = torch.stack(table["hidden_states"], dim=1)
    file = {"hidden_states": stacked, "token_ids": table["input_ids"]}
    save_file(file, tmp_path / "hs_1.safetensors")
    assert read(tmp_path, data=data)[0].loss_mask.tolist() == [False, False, False, True, False, False]
    (tmp_path / "hs_1.safetensors").rename(tmp_path / "data_1.safetensors")  # the first file, but of row 1
    assert read(tmp_path, data=data)[0].loss_mask.tolist() == [False, False, False, True, False, False]
    (tmp_path / "data_1.safetensors").rename(tmp_path / "hs_0.safetensors")
    with pytest.raises(DraftError, match=r"expected the tokens of hs_0.safetensors in row 0; found others"):
        read(tmp_path, data=data)


def test_the_example() -> None:
    folder = example_pair().directory / "samples"
    samples = read_samples(folder, hidden_size=192, vocab_size=1024)
    assert samples.boundaries == tuple(json.loads((folder / "manifest.json").read_text())["boundaries"])
    assert [s.length for s in samples] == [256] * 6
    assert all(s.argmax is not None for s in samples)
