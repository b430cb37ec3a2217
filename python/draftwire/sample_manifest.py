"""Which boundary each dumped state is: as `manifest.json` or the user has it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from draftwire.draft import DraftError

MANIFEST = "manifest.json"
LARGEST_MANIFEST = 1024 * 1024


def read_boundaries(
    directory: Path, states: Sequence[int] | None, num_layers: int | None
) -> tuple[tuple[int, ...] | None, int | None]:
    """The boundaries, None where nobody says, and the number of layers where they end: the target's, else the
    manifest's. Raises DraftError where manifest, `--states` and target contradict each other."""
    said, layers = _manifest(directory / MANIFEST)
    if num_layers is not None and layers is not None and layers != num_layers:
        raise DraftError(f"num_hidden_layers {num_layers}, the target's", layers, directory / MANIFEST,
                         "name the target that the samples were dumped from")  # fmt: skip
    layers = layers if num_layers is None else num_layers
    given = None if states is None else tuple(states)
    for boundaries, where in ((said, f"boundaries of {directory / MANIFEST}"), (given, "--states")):
        if boundaries is not None:
            _require_boundaries(list(boundaries), where, layers)
    if said is not None and given is not None and given != said:
        raise DraftError(f"boundaries {list(said)} of {MANIFEST}", list(given), "--states", "leave it out")
    return said if given is None else given, layers


def _manifest(file: Path) -> tuple[tuple[int, ...] | None, int | None]:
    """Boundaries and number of layers, None where it does not say."""
    if not file.is_file():
        return None, None
    if file.stat().st_size > LARGEST_MANIFEST:
        raise DraftError(f"a manifest of at most {LARGEST_MANIFEST} bytes", file.stat().st_size, file, "correct it")
    try:
        table = json.loads(file.read_bytes())
        boundaries = table["boundaries"]
    except (ValueError, TypeError, KeyError, RecursionError) as failure:
        raise DraftError("boundaries", type(failure).__name__, file, 'write {"boundaries": [0, 3, 6, 9]}') from None
    _require_boundaries(boundaries, f"boundaries of {file}", None)
    layers = table.get("num_hidden_layers")
    if layers is not None and (type(layers) is not int or layers < 1):
        raise DraftError("num_hidden_layers from 1", repr(layers)[:60], file, "correct it")
    return tuple(boundaries), layers


def _require_boundaries(given: Any, where: str, layers: int | None) -> None:
    whole = isinstance(given, list) and bool(given) and all(type(b) is int and b >= 0 for b in given)
    if not whole or len(set(given)) != len(given):
        raise DraftError("different boundaries from 0", repr(given)[:80], where, "name each dumped state's boundary")
    if layers is not None and max(given) > layers:
        raise DraftError(f"boundaries from 0 to {layers}, the target's layers", repr(given)[:80], where,
                         "name each dumped state's boundary")  # fmt: skip
