from cases import look, only

NAME = "release_tested"


def test_healthy() -> None:
    only(look(NAME), "ok", "0.5.23")
    only(look(NAME, release="0.5.23+cu130"), "ok")
    only(look(NAME, release="0.5.8"), "ok", "stock")


def test_failing() -> None:
    only(look(NAME, release="0.5.99"), "error", "refuses SGLang 0.5.99")
    only(look(NAME, release="0.5.99", environment={"DRAFTWIRE_UNTESTED": "1"}), "warning", "not tested")
    only(look(NAME, release="0.5.7", delivery="stock"), "warning", "other releases")
