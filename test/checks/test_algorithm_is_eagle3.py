import pytest
from cases import look, only

NAME = "algorithm_is_eagle3"


def test_healthy() -> None:
    only(look(NAME), "ok", "EAGLE3")
    only(look(NAME, launch=["--speculative-algo=eagle3"]), "ok")
    only(look(NAME, launch=None), "skipped", "no launch flags")


@pytest.mark.parametrize("algorithm", ["EAGLE", "NEXTN", "NGRAM", "STANDALONE"])
def test_failing(algorithm: str) -> None:
    only(look(NAME, launch=["--speculative-algorithm", algorithm]), "error", algorithm, "EAGLE3")


def test_no_algorithm() -> None:
    only(look(NAME, launch=["--tp-size", "2"]), "error", "do not turn the draft on")
