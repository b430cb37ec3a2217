import math
import struct
from pathlib import Path

import pytest
from cases import damage, look, only, read_weights

NAME = "weights_are_numbers"
NORM, MATRIX = "midlayer.hidden_norm.weight", "midlayer.mlp.down_proj.weight"
PARTS = {  # of each dtype: 1, NaN, minus infinity, and a number as large as it can hold
    "BF16": (b"\x80\x3f", b"\xc0\x7f", b"\x80\xff", b"\x7f\x7f"),
    "F16": (b"\x00\x3c", b"\x00\x7e", b"\x00\xfc", b"\xff\x7b"),
    "F32": tuple(struct.pack("<f", value) for value in (1, math.nan, -math.inf, 3.4e38)),
    "F64": tuple(struct.pack("<d", value) for value in (1, math.nan, -math.inf, 1.7e308)),
}
ZEROS = ("BF16", (192,), bytes(384))


def weighed(folder: Path, name: str, tensor: tuple) -> Path:
    return damage(folder, tensors=read_weights() | {name: tensor})


def norm(dtype: str, at: int, value: bytes) -> tuple:
    """Ones, and one other value."""
    one = PARTS[dtype][0]
    return dtype, (192,), one * at + value + one * (191 - at)


def test_healthy() -> None:
    only(look(NAME), "ok", "vectors", "matrices")


@pytest.mark.parametrize("dtype", PARTS)
def test_one_value_of_a_norm(tmp_path: Path, dtype: str) -> None:
    _, nan, infinity, large = PARTS[dtype]
    only(look(NAME, weighed(tmp_path / "nan", NORM, norm(dtype, 191, nan))), "error", "hidden_norm", "nan at 191")
    only(look(NAME, weighed(tmp_path / "inf", NORM, norm(dtype, 0, infinity))), "error", "-inf at 0")
    only(look(NAME, weighed(tmp_path / "large", NORM, norm(dtype, 5, large))), "ok")


def test_a_matrix(tmp_path: Path) -> None:
    dtype, shape, data = read_weights()[MATRIX]
    gone = (dtype, shape, PARTS["BF16"][1] * (len(data) // 2))
    only(look(NAME, weighed(tmp_path / "nan", MATRIX, gone)), "error", "down_proj", "nan at row 12, column 0")
    only(look(NAME, weighed(tmp_path / "zero", MATRIX, (dtype, shape, bytes(len(data))))), "warning", "all zero where")


def test_all_zero(tmp_path: Path) -> None:
    only(look(NAME, weighed(tmp_path / "norm", "norm.weight", ZEROS)), "error", "norm.weight is all zero")
    only(look(NAME, weighed(tmp_path / "bias", "midlayer.self_attn.q_proj.bias", ZEROS)), "ok")
    only(look(NAME, weighed(tmp_path / "scale", "scale", ZEROS)), "warning", "scale is all zero where")
    half = ("BF16", (192,), bytes(382) + b"\x80\x3f")
    only(look(NAME, weighed(tmp_path / "half", "norm.weight", half)), "ok")


def test_every_one_is_named(tmp_path: Path) -> None:
    draft = damage(tmp_path / "draft", tensors=read_weights() | {"norm.weight": ZEROS, NORM: ZEROS})
    assert [finding.level for finding in look(NAME, draft)] == ["error", "error"]


def test_what_is_not_read(tmp_path: Path) -> None:
    nan = ("F32", (1024, 192), PARTS["F32"][1] * 1024 * 192)
    only(look(NAME, weighed(tmp_path / "embedding", "embed_tokens.weight", nan)), "ok")
    only(look(NAME, weighed(tmp_path / "deep", "deep", ("BF16", (1, 1, 1), b"\xc0\x7f"))), "ok")
    quantized = {"fc.weight": ("F8_E4M3", (2, 2), b"\x7f" * 4), "empty": ("BF16", (0,), b"")}
    only(look(NAME, damage(tmp_path / "f8", tensors=quantized)), "skipped", "floating point")
