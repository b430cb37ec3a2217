import pytest
from cases import look, only

NAME = "one_pipeline_stage"


def test_healthy() -> None:
    only(look(NAME), "ok")
    only(look(NAME, launch=None), "skipped")


@pytest.mark.parametrize("flags", [["--pp-size", "2"], ["--pp=4"], ["--pipeline-parallel-size", "2"]])
def test_failing(flags: list[str]) -> None:
    only(look(NAME, launch=flags), "error", "--pp-size", "--tp-size")


def test_no_stage_at_all() -> None:
    only(look(NAME, launch=["--pp-size", "1"]), "ok")
    for count in ("0", "-1"):
        only(look(NAME, launch=["--pp-size", count]), "error", f"--pp-size {count}", "Leave --pp-size out")
