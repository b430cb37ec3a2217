from cases import look, only

from draftwire.delivery import find_delivery

NAME = "plugin_allowed"


def test_healthy() -> None:
    only(look(NAME), "ok")
    only(look(NAME, environment={"SGLANG_PLUGINS": "other, draftwire"}), "ok", "other, draftwire")
    only(look(NAME, environment={"DRAFTWIRE": " On "}), "ok")
    only(look(NAME, release="0.5.10"), "ok", "no plugins")


def test_failing() -> None:
    only(look(NAME, environment={"SGLANG_PLUGINS": "other"}), "warning", "leaves draftwire out", "other,draftwire")
    only(look(NAME, environment={"DRAFTWIRE": "off"}), "warning", "turned off")
    only(look(NAME, environment={"DRAFTWIRE": "of"}), "error", "stops the server", "DRAFTWIRE=of")


def test_what_then_serves() -> None:
    """Left out of the list, the server is stock, and the draft's -1 is an error."""
    environment = {"SGLANG_PLUGINS": "other"}
    assert find_delivery("0.5.23", environment) == "stock"
    assert find_delivery("0.5.23", {"SGLANG_PLUGINS": ","}) == "stock"
    assert find_delivery("0.5.23", {"DRAFTWIRE": " Off "}) == "stock"
    assert find_delivery("0.5.23", {}) == "overlay"
    assert find_delivery("0.5.13", {}) == "stock"
