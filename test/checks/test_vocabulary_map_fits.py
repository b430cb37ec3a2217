import struct
from pathlib import Path

from cases import damage, look, only, read_weights
from small_drafts import booleans, floats, integers

NAME = "vocabulary_map_fits"


def offsets() -> list[int]:
    return list(struct.unpack("<640q", read_weights()["d2t"][2]))


def mapped(folder: Path, values: list[int], **more: object) -> Path:
    return damage(folder, tensors=read_weights() | {"d2t": integers(values)} | more)


def alone(folder: Path, values: list[int]) -> Path:
    weights = read_weights() | {"d2t": integers(values)}
    del weights["t2d"]
    return damage(folder, tensors=weights)


def t2d() -> list[bool]:
    hot = {i + offset for i, offset in enumerate(offsets())}
    return [token in hot for token in range(1024)]


def test_healthy(tmp_path: Path) -> None:
    only(look(NAME), "ok", "640")
    only(look(NAME, mapped(tmp_path / "both", offsets(), t2d=booleans(t2d()))), "ok")


def test_target_ids_for_offsets(tmp_path: Path) -> None:
    ids = [i + offset for i, offset in enumerate(offsets())]
    only(look(NAME, mapped(tmp_path / "proven", ids, t2d=booleans(t2d()))), "error", "target ids", "convert")
    only(look(NAME, mapped(tmp_path / "out of range", ids)), "error", "target ids")


def test_target_ids_of_the_lower_half(tmp_path: Path) -> None:
    """As offsets they stay in range: only that no two are neighbours tells."""
    ids = list(range(0, 640, 2))
    weights = read_weights() | {"d2t": integers(ids), "lm_head.weight": floats(320, 192)}
    del weights["t2d"]
    draft = damage(tmp_path / "draft", tensors=weights, draft_vocab_size=320)
    only(look(NAME, draft), "error", "looks like target ids", "offsets")
    t2d = booleans([token % 3 == 0 and token < 960 for token in range(1024)])
    thirds = weights | {"d2t": integers([2 * i for i in range(320)]), "t2d": t2d}
    only(look(NAME, damage(tmp_path / "proven", tensors=thirds, draft_vocab_size=320)), "ok")
    few = weights | {"d2t": integers([0, 2, 4]), "lm_head.weight": floats(3, 192)}
    only(look(NAME, damage(tmp_path / "few", tensors=few, draft_vocab_size=3)), "ok")


def test_a_stale_map(tmp_path: Path) -> None:
    other = t2d()
    kept, left_out = other.index(True), other.index(False)
    other[kept], other[left_out] = False, True
    only(look(NAME, mapped(tmp_path / "a", offsets(), t2d=booleans(other))), "error", "name different tokens")
    only(look(NAME, mapped(tmp_path / "b", offsets()[:512])), "error", "640 whole numbers", "[512]")
    only(look(NAME, mapped(tmp_path / "c", offsets(), t2d=booleans([True] * 1024))), "error", "keeps 1024")


def test_ranges(tmp_path: Path) -> None:
    only(look(NAME, mapped(tmp_path / "a", [*offsets()[:-1], 5000])), "error", "leaves the target's 1024")
    last = 1024 - 639
    only(look(NAME, alone(tmp_path / "last", [*offsets()[:-1], last - 1])), "ok")
    only(look(NAME, alone(tmp_path / "over", [*offsets()[:-1], last])), "error", "leaves the target's 1024")
    only(look(NAME, alone(tmp_path / "below", [-1, *offsets()[1:]])), "error", "leaves the target's 1024")
    only(look(NAME, mapped(tmp_path / "b", [*offsets()[:-1], offsets()[-2] - 1])), "error", "two draft ids")


def test_no_map(tmp_path: Path) -> None:
    weights = read_weights()
    del weights["d2t"]
    only(look(NAME, damage(tmp_path / "a", tensors=weights)), "error", "no map")
    only(look(NAME, damage(tmp_path / "b", tensors=weights, draft_vocab_size=1024)), "ok", "needs no map")
    only(look(NAME, damage(tmp_path / "c", draft_vocab_size=4096)), "error", "more tokens")
