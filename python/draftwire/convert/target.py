"""The target that a draft was trained for, as far as it is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from draftwire.draft import Draft, DraftError, find_directory, read_config


class Target(NamedTuple):
    """None for what is not known. `hidden_size` in values, `num_layers` decoder layers, `vocab_size` tokens.

    `directory`: where its files lie on this machine.
    """

    architecture: str | None
    num_layers: int | None
    hidden_size: int | None
    vocab_size: int | None
    directory: Path | None = None


def find_target(draft: Draft, name: str | None) -> Target:
    """The target by `name` (a directory or cached hub name), else the verifier that a speculators draft names.

    Raises DraftError where `name` is not there or holds no usable config; a verifier that is not there is no error.
    """
    verifier = _verifier(draft.config)
    if name is None:
        try:
            return _facts(find_directory(str(verifier["name_or_path"])))
        except (DraftError, KeyError):
            names = verifier.get("architectures")
            return Target(names[0] if isinstance(names, list) and names else None, None, None, None)
    return _facts(find_directory(name))


def _verifier(config: dict[str, Any]) -> dict[str, Any]:
    outer = config.get("speculators_config")
    verifier = outer.get("verifier") if isinstance(outer, dict) else None
    return verifier if isinstance(verifier, dict) else {}


def _facts(directory: Path) -> Target:
    config = read_config(directory)
    names = config.get("architectures")
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        raise DraftError("architectures of the target", repr(names), directory / "config.json", "name the target")
    nested = config.get("text_config")
    text = nested if isinstance(nested, dict) else config
    counts = [text.get(key) for key in ("num_hidden_layers", "hidden_size", "vocab_size")]
    if not all(type(count) is int and count > 0 for count in counts):
        raise DraftError(
            "num_hidden_layers, hidden_size and vocab_size of the target", counts, directory / "config.json",
            "name the target",
        )  # fmt: skip
    layers, hidden, vocabulary = counts
    return Target(names[0], layers, hidden, vocabulary, directory)
