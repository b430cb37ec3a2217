from pathlib import Path

from cases import IDS, damage, look, only, read_weights
from small_drafts import floats

NAME = "fc_width"


def test_healthy() -> None:
    only(look(NAME), "ok", "3 x 192")
    only(look(NAME, target=None), "ok")


def test_another_number_of_states(tmp_path: Path) -> None:
    only(look(NAME, damage(tmp_path / "draft", [0, 3])), "error", "2 x 192 = 384", "[192, 576]", "3 ids")
    only(look(NAME, damage(tmp_path / "four", [0, 3, 6, 9])), "error", "4 x 192")
    only(look(NAME, damage(tmp_path / "count", num_aux_hidden_states=4)), "error", "is 4", "3 states")


def test_four_states_by_release(tmp_path: Path) -> None:
    weights = read_weights()
    weights["fc.weight"] = floats(192, 768)
    draft = damage(tmp_path / "draft", [0, 3, 6, 9], weights)
    only(look(NAME, draft), "ok", "4 x 192")
    only(look(NAME, draft, release="0.5.11"), "error", "three states")


def test_no_fc_and_a_quantised_one(tmp_path: Path) -> None:
    weights = read_weights()
    packed = weights | {"fc.weight": ("I32", (192, 72), bytes(192 * 72 * 4))}
    only(look(NAME, damage(tmp_path / "packed", tensors=packed)), "skipped", "I32")
    del weights["fc.weight"]
    only(look(NAME, damage(tmp_path / "none", tensors=weights)), "error", "no fc.weight")


def test_as_wide_as_the_draft(tmp_path: Path) -> None:
    """One captured state of the draft's own width: SGLang tells fed-back states by their width."""
    weights = read_weights()
    weights["fc.weight"] = floats(192, 192)
    only(look(NAME, damage(tmp_path / "draft", [3], weights)), "error", "skip fc")


def test_no_states_are_captured(tmp_path: Path) -> None:
    """SGLang takes any false value for it, and skips fc in silence."""
    for value in (False, 0, None):
        nested = {"use_aux_hidden_state": value, IDS: [0, 3, 6]}
        draft = damage(tmp_path / repr(value), eagle_config=nested)
        only(look(NAME, draft), "error", "skips its fc", "use_aux_hidden_state true")
    weights = {name: tensor for name, tensor in read_weights().items() if name != "fc.weight"}
    draft = damage(tmp_path / "without", tensors=weights, eagle_config={"use_aux_hidden_state": False})
    only(look(NAME, draft), "ok", "has no fc")


def test_a_count_that_the_ids_are_not(tmp_path: Path) -> None:
    """The Llama draft builds fc for num_aux_hidden_states, whatever is captured; the MLA draft counts ids."""
    weights = read_weights()
    weights["fc.weight"] = floats(192, 768)
    four = damage(tmp_path / "four", [0, 3, 6], weights, num_aux_hidden_states=4)
    for delivery, words in (("stock", "fc is built for 4"), ("overlay", "draftwire refuses")):
        only(look(NAME, four, delivery=delivery), "error", "num_aux_hidden_states is 4, and 3 states", words)
    only(look(NAME, damage(tmp_path / "none", None, weights, num_aux_hidden_states=4)), "error", "3 states")
    only(look(NAME, damage(tmp_path / "text", num_aux_hidden_states="3"), delivery="stock"), "error", "is '3'")
    only(look(NAME, damage(tmp_path / "same", num_aux_hidden_states=3)), "ok")
    mla = {"architectures": ["Eagle3DeepseekV2ForCausalLM"], "num_aux_hidden_states": 4}
    only(look(NAME, damage(tmp_path / "mla", **mla), delivery="stock"), "ok", "3 x 192")
    only(look(NAME, damage(tmp_path / "wired", **mla)), "error", "draftwire refuses")
    only(look(NAME, damage(tmp_path / "wide", [0, 3, 6], weights, **mla), delivery="stock"), "error", "3 x 192")
    only(look(NAME, damage(tmp_path / "old", num_aux_hidden_states=4), release="0.5.11"), "ok")
