"""What the files of a target model say: its config and where its embedding lies. Needs no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from draftwire.draft import DraftError, read_config
from draftwire.headers import INDEX, LARGEST_HEADER, Stored, read_header

EMBEDDING = "embed_tokens.weight"
SIZES = ("num_hidden_layers", "hidden_size")


class Target(NamedTuple):
    """`text`: the config of the language model, which a multimodal one nests. `embedding`: [vocab_size, hidden_size],
    None where no weights lie beside the config. `vocab_size`: None where a multimodal target's nested config
    leaves it to its class."""

    directory: Path
    architecture: str
    config: Mapping[str, Any]
    text: Mapping[str, Any]
    num_layers: int
    hidden_size: int
    vocab_size: int | None
    embedding: Stored | None


def read_target(directory: Path) -> Target:
    """Read config.json, and of the weights only the header that holds the embedding.

    Raises DraftError where a size is missing or the header lies.
    """
    config = read_config(directory)
    source = directory / "config.json"
    names = config.get("architectures")
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        raise DraftError("architectures of the target", repr(names)[:60], source, "name the directory of the target")
    nested = config.get("text_config")
    text = nested if isinstance(nested, dict) else config
    layers, hidden = (_size(text, key, source) for key in SIZES)
    unsaid = text is nested and text.get("vocab_size") is None
    vocabulary = None if unsaid else _size(text, "vocab_size", source)
    return Target(directory, names[0], config, text, layers, hidden, vocabulary, _find_embedding(directory))


def _size(text: Mapping[str, Any], key: str, source: Path) -> int:
    size = text.get(key)
    if type(size) is not int or not 0 < size < 2**31:
        raise DraftError(f"{key} as a positive whole number", repr(size)[:60], source, "name the target's directory")
    return size


def _find_embedding(directory: Path) -> Stored | None:
    index = directory / INDEX
    if index.is_file():
        return _indexed(directory, index)
    single = directory / "model.safetensors"
    files = [single] if single.is_file() else sorted(directory.glob("*.safetensors"))
    for file in files[:8]:
        if found := _pick(read_header(file)):
            return found
    return None


def _indexed(directory: Path, index: Path) -> Stored | None:
    if index.stat().st_size > LARGEST_HEADER:
        raise DraftError(f"an index of at most {LARGEST_HEADER} bytes", index.stat().st_size, index, "check the target")
    try:
        places = json.loads(index.read_bytes())["weight_map"]
        name = min((n for n in places if _is_embedding(n)), key=len, default=None)
        shard = places[name] if name else None
    except (ValueError, TypeError, KeyError, RecursionError) as failure:
        raise DraftError("a weight_map", type(failure).__name__, index, "download the target again") from None
    if name is None:
        return None
    if not isinstance(shard, str) or Path(shard).name != shard:
        raise DraftError("names of files beside it", repr(shard)[:60], index, "download the target again")
    file = directory / shard
    return read_header(file).get(name) if file.is_file() else None


def _pick(tensors: Mapping[str, Stored]) -> Stored | None:
    name = min((n for n in tensors if _is_embedding(n)), key=len, default=None)
    return tensors[name] if name else None


def _is_embedding(name: str) -> bool:
    return (name == EMBEDDING or name.endswith(f".{EMBEDDING}")) and ".layers." not in name
