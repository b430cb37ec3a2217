from pathlib import Path

from cases import EXAMPLE, look, only, write_target

NAME = "two_batch_overlap_off"


FLAG = "--enable-two-batch-overlap"


def test_healthy() -> None:
    only(look(NAME), "ok")
    only(look(NAME, launch=None), "skipped")


def test_failing() -> None:
    only(look(NAME, EXAMPLE / "draft", FLAG), "error", "[3, 6]", "layer 1 on")
    only(look(NAME, EXAMPLE / "draft", FLAG, target=None), "error")


def test_dense_layers_alone(tmp_path: Path) -> None:
    target = write_target(tmp_path / "target", first_k_dense_replace=8)
    only(look(NAME, EXAMPLE / "draft", FLAG, target=target), "ok", "dense")
    # Boundary 6 is the input of layer 6, which overlaps.
    target = write_target(tmp_path / "six", first_k_dense_replace=6)
    only(look(NAME, EXAMPLE / "draft", FLAG, target=target), "error", "boundaries [6]", "layer 6 on")
    target = write_target(tmp_path / "none", first_k_dense_replace=0)
    only(look(NAME, EXAMPLE / "draft", FLAG, target=target), "error", "boundaries [0, 3, 6]")
