"""What the files of a draft directory say: its config, its tensors' headers and its layout. Needs no torch."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from draftwire.headers import DraftError, Stored, read_tensors

LARGEST_CONFIG = 16 * 1024 * 1024
SGLANG_CLASSES = {"LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM"}
MLA_CLASS = "Eagle3DeepseekV2ForCausalLM"
EAGLE3_KEYS = {"draft_vocab_size", "eagle_config", "eagle_aux_hidden_state_layer_ids", "speculators_model_type"}
MODELOPT_KEYS = {"use_last_layernorm", "use_input_layernorm_in_first_layer", "use_mtp_layernorm", "parallel_draft_step"}

__all__ = ["Draft", "DraftError", "find_directory", "read_draft", "recognise"]


class Draft(NamedTuple):
    """A draft as its files describe it. `layout`: speculators, specforge, modelopt, sglang or mla."""

    directory: Path
    config: dict[str, Any]
    tensors: dict[str, Stored]
    layout: str


def read_draft(directory: Path) -> Draft:
    """Read config.json and every safetensors header. Raises DraftError on what is missing, lying or not a draft."""
    config = read_config(directory)
    tensors = read_tensors(directory)
    return Draft(directory, config, tensors, recognise(config, tensors, directory))


def read_config(directory: Path) -> dict[str, Any]:
    """The directory's config.json. Raises DraftError where it is absent, over 16 MiB or not a JSON object."""
    file = directory / "config.json"
    if not file.is_file():
        raise DraftError("a config.json", "none", directory, "name the directory that the trainer saved")
    size = file.stat().st_size
    if size > LARGEST_CONFIG:
        raise DraftError(f"a config.json of at most {LARGEST_CONFIG} bytes", size, file, "export the draft again")
    try:
        config = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DraftError("JSON", type(error).__name__, file, "export the draft again") from None
    if not isinstance(config, dict):
        raise DraftError("a JSON object", type(config).__name__, file, "export the draft again")
    return config


def looks_eagle3(config: Mapping[str, Any]) -> bool:
    """Whether a config speaks of an EAGLE-3 draft, by its class or by keys that drafts of other kinds do not have."""
    names = config.get("architectures")
    classes = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    return any("eagle3" in name.lower() for name in classes) or bool(EAGLE3_KEYS & config.keys())


def recognise(config: Mapping[str, Any], tensors: Mapping[str, Stored], directory: Path) -> str:
    """Which layout this is, told by keys and tensor names. Raises DraftError where it is none that is known."""
    kind = config.get("speculators_model_type")
    if kind is not None or "speculators_config" in config:
        if kind != "eagle3":
            raise DraftError(
                "speculators_model_type eagle3", repr(kind), directory / "config.json", "name an EAGLE-3 draft"
            )
        return "speculators"
    names = config.get("architectures") or []
    classes = {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()
    if MLA_CLASS in classes or any("kv_a_proj_with_mqa" in name for name in tensors):
        return "mla"
    eagle_config = config.get("eagle_config")
    if isinstance(eagle_config, dict) and MODELOPT_KEYS & eagle_config.keys():
        return "modelopt"
    if classes & SGLANG_CLASSES or ("fc.weight" in tensors and any(n.startswith("midlayer.") for n in tensors)):
        return "specforge" if isinstance(eagle_config, dict) else "sglang"
    raise DraftError(
        "an EAGLE-3 draft of speculators, SpecForge, ModelOpt, SafeAILab or SGLang",
        f"architectures {sorted(classes)} and tensors {sorted(tensors)[:3]}",
        directory,
        "name the directory of the draft, not of its target",
    )


def find_directory(name: str, revision: str = "") -> Path:
    """A local directory, or the snapshot of `org/name` in the local Hugging Face cache; never the network.

    revision: of a hub name, a branch, tag or commit; default main. A local directory has none, as in SGLang.
    Raises DraftError where neither is there, and on a ref that names no revision or one that is not in the cache.
    """
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    if re.fullmatch(r"[\w.-]+/[\w.-]+", name) and not path.exists():
        home = Path(os.environ.get("HF_HOME") or "~/.cache/huggingface").expanduser()
        repository = Path(os.environ.get("HF_HUB_CACHE") or home / "hub") / f"models--{name.replace('/', '--')}"
        return _snapshot(repository, name, revision or "main")
    raise DraftError("a directory or a cached hub name", "neither", name, "correct the path")


def _snapshot(repository: Path, name: str, asked: str) -> Path:
    download = f"hf download {name}{'' if asked == 'main' else f' --revision {asked}'}"
    if not re.fullmatch(r"[\w.+-]+(/[\w.+-]+)*", asked) or ".." in asked:
        raise DraftError("a branch, tag or commit of a hub name", repr(asked)[:60], name, "correct the revision")
    head = repository / "refs" / asked
    if not head.is_file():
        if re.fullmatch(r"[0-9a-f]{40}", asked) and (repository / "snapshots" / asked).is_dir():
            return repository / "snapshots" / asked
        found = name if asked == "main" else f"no revision {asked} of {name}"
        raise DraftError("a directory or a cached hub name", found, repository, f"run `{download}` first")
    with head.open("rb") as stream:
        revision = stream.read(200).decode("latin-1").strip()
    if not re.fullmatch(r"[0-9a-f]{6,64}", revision):
        raise DraftError("a revision in hexadecimal digits", repr(revision), head, f"run `{download}` again")
    if not (repository / "snapshots" / revision).is_dir():
        raise DraftError(
            f"the snapshot {revision} that refs/{asked} names", "none", repository / "snapshots",
            f"run `{download}` again",
        )  # fmt: skip
    return repository / "snapshots" / revision
