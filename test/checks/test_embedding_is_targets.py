import random
import shutil
import struct
from pathlib import Path

from cases import EXAMPLE, damage, look, only, read_weights, write_target
from small_drafts import floats
from sparse import write_header

from draftwire.headers import read_header

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


def mixed(folder: Path, cosine: float) -> Path:
    """The target's rows, each with a part of its own length at a right angle, so that rows have this cosine."""
    dtype, shape, data = read_weights("target")["model.embed_tokens.weight"]
    wide = bytearray(2 * len(data))
    wide[2::4], wide[3::4] = data[0::2], data[1::2]
    values = struct.unpack(f"<{shape[0] * shape[1]}f", wide)
    sine, out = (1 - cosine**2) ** 0.5, []
    for at in range(0, len(values), 2):
        a, b = values[at : at + 2]
        out += [2 * (cosine * a - sine * b), 2 * (cosine * b + sine * a)]
    assert dtype == "BF16"
    return embedded(folder, ("F32", shape, struct.pack(f"<{len(out)}f", *out)))


def test_where_rows_begin_to_look_random(tmp_path: Path) -> None:
    """Twice as long as the target's, so that no rotation is meant."""
    only(look(NAME, mixed(tmp_path / "a", 0.18)), "warning", "look random", "0.180")
    only(look(NAME, mixed(tmp_path / "b", 0.22)), "warning", "differ from the target's", "0.220")
    only(look(NAME, mixed(tmp_path / "c", 0.985)), "warning", "differ")
    only(look(NAME, mixed(tmp_path / "d", 0.995)), "ok")


def test_where_a_rotation_begins(tmp_path: Path) -> None:
    """Rows of the same length are one where they point elsewhere, and a trained embedding where they nearly agree."""
    for cosine, level in ((0.48, "error"), (0.52, "warning")):
        draft = mixed(tmp_path / str(cosine), cosine)
        file = draft / "model.safetensors"
        stored = read_header(file)["embed_tokens.weight"]
        rows = struct.unpack(f"<{stored.size // 4}f", stored.read())
        with file.open("r+b") as stream:
            stream.seek(stored.start)
            stream.write(struct.pack(f"<{len(rows)}f", *(value / 2 for value in rows)))
        only(look(NAME, draft), level, f"{cosine:.3f}")


def test_a_header_that_lies_of_its_width(tmp_path: Path) -> None:
    """Whole rows are read up to a width that embeddings have; the file is a hole of 64 MiB."""
    import tracemalloc

    wide = 2**24
    shape = {"embed_tokens.weight": ("BF16", [2, wide])}
    draft = damage(tmp_path / "draft", tensors=read_weights(), hidden_size=wide)
    target = write_target(tmp_path / "target", hidden_size=wide, vocab_size=2)
    for folder in (draft, target):
        (folder / "model.safetensors").unlink()
        write_header(folder / "model.safetensors", shape)
        stored = read_header(folder / "model.safetensors")["embed_tokens.weight"]
        with (folder / "model.safetensors").open("r+b") as stream:
            for row in range(2):
                stream.seek(stored.start + row * wide * 2 + (2 if folder is draft else 0))
                stream.write(bytes((0x80, 0x3F)))
    tracemalloc.start()
    only(look(NAME, draft, target=target), "warning", "look random")
    assert tracemalloc.get_traced_memory()[1] < 2**23
    tracemalloc.stop()
