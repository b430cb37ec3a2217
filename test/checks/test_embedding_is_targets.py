import random
import shutil
import struct
from pathlib import Path

from cases import EXAMPLE, damage, look, only, read_weights
from small_drafts import floats

NAME = "embedding_is_targets"


def embedded(folder: Path, rows: tuple, **keys: object) -> Path:
    return damage(folder, tensors=read_weights() | {"embed_tokens.weight": rows}, **keys)


def noise() -> tuple:
    generator = random.Random(0)
    return "F32", (1024, 192), struct.pack(f"<{1024 * 192}f", *(generator.gauss(0, 1) for _ in range(1024 * 192)))


def test_healthy(tmp_path: Path) -> None:
    only(look(NAME), "ok", "no embedding")
    rows = read_weights("target")["model.embed_tokens.weight"]
    only(look(NAME, embedded(tmp_path / "draft", rows)), "ok", "1.000")


def test_random_rows(tmp_path: Path) -> None:
    only(look(NAME, embedded(tmp_path / "draft", noise())), "warning", "look random")


def test_a_rotated_target(tmp_path: Path) -> None:
    dtype, shape, data = read_weights("target")["model.embed_tokens.weight"]
    assert dtype == "BF16" and shape == (1024, 192)
    # Reversing the columns keeps each row's length. Another row's length is none of a rotation's.
    turned = [data[row * 384 : row * 384 + 384] for row in range(1024)]
    turned = [b"".join(row[at : at + 2] for at in range(382, -2, -2)) for row in turned]
    found = look(NAME, embedded(tmp_path / "draft", (dtype, shape, b"".join(turned))), delivery="stock")
    only(found, "error", "looks rotated", "16 rows of the same length")
    assert found[0].report.endswith("vllm-ascend/pull/7038")
    turned[32] = turned[33]
    only(look(NAME, embedded(tmp_path / "not", (dtype, shape, b"".join(turned)))), "warning", "look random")


def test_trained_rows(tmp_path: Path) -> None:
    trained = embedded(tmp_path / "draft", noise(), embed_requires_grad=True)
    only(look(NAME, trained, delivery="stock"), "error", "replace it")
    only(look(NAME, trained, delivery="overlay"), "ok", "keeps it")


def test_not_at_hand(tmp_path: Path) -> None:
    bare = tmp_path / "target"
    bare.mkdir()
    shutil.copy(EXAMPLE / "target" / "config.json", bare)
    only(look(NAME, embedded(tmp_path / "draft", noise()), target=bare), "skipped", "not at hand")
    only(look(NAME, embedded(tmp_path / "short", floats(1000, 192))), "skipped", "[1000, 192]")
    only(look(NAME, embedded(tmp_path / "int", ("I32", (1024, 192), bytes(1024 * 192 * 4)))), "skipped", "I32")


def test_rows_that_are_no_numbers(tmp_path: Path) -> None:
    rows = ("F32", (1024, 192), struct.pack("<f", float("nan")) * 1024 * 192)
    only(look(NAME, embedded(tmp_path / "draft", rows)), "warning", "no numbers", "row 32")
    zeros = ("F32", (1024, 192), bytes(1024 * 192 * 4))
    only(look(NAME, embedded(tmp_path / "zeros", zeros)), "skipped", "all zero")
