"""`tensors`: safetensors headers against the safetensors library, and files that lie."""

from __future__ import annotations

import json
import os
import struct
import tracemalloc
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file

from draftwire.tensors import Tensor, TensorError, read_directory, read_header

EXAMPLE = Path(__file__).parent.parent / "examples" / "tiny-deepseek-v3"
ENTRY = {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}
FILES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)


def write(file: Path, header: object, data: bytes = b"", length: int | None = None) -> Path:
    """A file with this header, JSON or bytes as they are, and the length that it claims for it."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return file


def assert_refused(file: Path, *parts: str) -> str:
    with pytest.raises(TensorError) as refused:
        read_header(file)
    message = str(refused.value)
    assert message.startswith("expected ")
    assert ", found " in message
    assert message.endswith(f"in {file}")
    assert len(message.splitlines()) == 1
    for part in parts:
        assert part in message, message
    return message


@pytest.mark.parametrize("part", ["draft", "target"])
def test_the_example_reads_as_the_library_reads_it(part):
    file = EXAMPLE / part / "model.safetensors"
    tensors = read_header(file)
    with safe_open(file, "pt") as library:
        assert set(tensors) == set(library.keys())
        for name, tensor in tensors.items():
            assert list(tensor.shape) == library.get_slice(name).get_shape()
            assert tensor.dtype == library.get_slice(name).get_dtype()
            assert tensor.file == file
    assert read_directory(EXAMPLE / part) == tensors


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.bool])
def test_dtypes_are_spelled_as_in_the_file(dtype, tmp_path):
    file = tmp_path / "model.safetensors"
    save_file({"a": torch.zeros(2, 3, dtype=dtype), "b": torch.zeros((), dtype=dtype)}, file, {"format": "pt"})
    with safe_open(file, "pt") as library:
        spelled = library.get_slice("a").get_dtype()
    assert read_header(file) == {"a": Tensor(spelled, (2, 3), file), "b": Tensor(spelled, (), file)}


def test_shards_are_read_together(tmp_path):
    save_file({"a": torch.zeros(2)}, tmp_path / "model-1.safetensors")
    save_file({"b": torch.zeros(3)}, tmp_path / "model-2.safetensors")
    (tmp_path / "other.bin").write_bytes(b"x")
    tensors = read_directory(tmp_path)
    assert {name: (tensor.shape, tensor.file.name) for name, tensor in tensors.items()} == {
        "a": ((2,), "model-1.safetensors"),
        "b": ((3,), "model-2.safetensors"),
    }
    assert read_directory(tmp_path / "absent") == {}


@pytest.mark.parametrize("size", range(8))
def test_a_file_shorter_than_its_length_field(size, tmp_path):
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"\x02" * size)
    assert_refused(file, "header length", "found -1 in")


@pytest.mark.parametrize("length", [0, 1, 23, 30, 10 * 2**30, 2**63, 2**64 - 1])
def test_a_length_that_the_file_cannot_hold(length, tmp_path):
    file = write(tmp_path / "model.safetensors", b"{}" + b" " * 20, length=length)
    assert_refused(file, "header length of 2 to 22 bytes", f"found {length} in")


def test_every_truncation_of_a_real_file_is_refused(tmp_path):
    whole = write(tmp_path / "whole.safetensors", {"a": ENTRY}, bytes(12)).read_bytes()
    file = tmp_path / "model.safetensors"
    for size in range(len(whole)):
        file.write_bytes(whole[:size])
        assert_refused(file)
    file.write_bytes(whole)
    assert read_header(file)["a"].shape == (2, 3)


def test_a_header_over_the_bound_is_not_read(tmp_path):
    """The file does hold it, as a hole on disk: the claim alone must not fill the memory."""
    file = write(tmp_path / "model.safetensors", b"{}", length=200 * 2**20)
    os.truncate(file, 300 * 2**20)
    tracemalloc.start()
    message = assert_refused(file, f"found {200 * 2**20}")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20
    assert f"2 to {100 * 2**20} bytes" in message


def test_tensors_beyond_the_end_are_refused(tmp_path):
    file = write(tmp_path / "model.safetensors", {"a": ENTRY | {"data_offsets": [0, 13]}}, bytes(12))
    assert_refused(file, "13 bytes of tensors", "found 12")


@pytest.mark.parametrize(
    "header",
    [
        b"{ ",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b'{"a": {"dtype": "F32", "shape": [' + b"9" * 5000 + b'], "data_offsets": [0, 0]}}',
        b'{"a": {"dtype": "F32", "shape": [Infinity], "data_offsets": [0, 0]}}',
        b'{"a": {"dtype": "F32", "shape": [NaN], "data_offsets": [0, 0]}}',
        b'{"a": {"dtype": "F32", "shape": [], "data_offsets": [0, 1e999]}}',
        [],
        77,
        None,
        "text",
        {"a": None},
        {"a": []},
        {"a": {}},
        {"a": {"dtype": "F32", "shape": [1]}},
        {"a": {"dtype": "F32", "shape": 1, "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": ["x"], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [None], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [1], "data_offsets": []}},
        {"a": {"dtype": "F32", "shape": [1], "data_offsets": {"1": 2}}},
        {"a": {"dtype": "F32", "shape": [1], "data_offsets": 4}},
    ],
)
def test_what_is_no_header_is_refused(header, tmp_path):
    assert_refused(write(tmp_path / "model.safetensors", header, bytes(64)), "a safetensors header")


def test_what_cannot_be_opened_is_an_os_error(tmp_path):
    (tmp_path / "link.safetensors").symlink_to(tmp_path / "gone")
    with pytest.raises(OSError):
        read_directory(tmp_path)
    (tmp_path / "folder" / "model.safetensors").mkdir(parents=True)
    with pytest.raises((OSError, TensorError)):
        read_directory(tmp_path / "folder")


def read_anything(file: Path) -> None:
    """A header is tensors or a refusal; nothing else may come out of any file."""
    try:
        tensors = read_header(file)
    except (TensorError, OSError) as error:
        assert len(str(error).splitlines()) == 1
        return
    for tensor in tensors.values():
        assert isinstance(tensor.dtype, str)
        assert all(type(size) is int for size in tensor.shape)


@FILES
@given(content=st.binary(max_size=64))
def test_any_bytes(content, tmp_path):
    file = tmp_path / "model.safetensors"
    file.write_bytes(content)
    read_anything(file)


NUMBERS = st.one_of(st.integers(), st.floats(), st.booleans(), st.none(), st.text(max_size=3))
ANYTHING = st.recursive(
    NUMBERS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)
ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.one_of(st.sampled_from(["F32", "BF16"]), ANYTHING),
        "shape": st.one_of(st.lists(NUMBERS, max_size=3), ANYTHING),
        "data_offsets": st.one_of(st.lists(NUMBERS, max_size=3), ANYTHING),
    },
)


@FILES
@given(header=st.one_of(ANYTHING, st.dictionaries(st.text(max_size=3), ENTRIES | ANYTHING, max_size=3)))
def test_any_json(header, tmp_path):
    read_anything(write(tmp_path / "model.safetensors", header, bytes(16)))


@FILES
@given(at=st.integers(0, 90), byte=st.integers(0, 255))
def test_any_flipped_byte(at, byte, tmp_path):
    whole = bytearray(write(tmp_path / "model.safetensors", {"a": ENTRY}, bytes(12)).read_bytes())
    whole[at % len(whole)] = byte
    file = tmp_path / "model.safetensors"
    file.write_bytes(whole)
    read_anything(file)
