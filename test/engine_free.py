"""SGLang's real classes for the small pair, without an engine: arguments, configs, contexts, joined methods."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("SGLANG_USE_CPU_ENGINE", "1")

from draftwire.seams import find_seams, join
from draftwire_overlay.srt.configs.model_config import CaptureList
from draftwire_overlay.srt.speculative.aux_boundaries import IDS, resolve

EXAMPLE = Path(__file__).parent.parent / "examples" / "tiny-deepseek-v3"
LAYERS, HIDDEN = 12, 192


@contextmanager
def joined(*owners: str) -> Iterator[None]:
    """The overlay's seams on these upstream classes, taken off again at the end."""
    seams = [seam for seam in find_seams() if seam.owner in owners]
    assert {seam.owner for seam in seams} == set(owners)
    before = []
    for seam in seams:
        owner = getattr(importlib.import_module(seam.module), seam.owner)
        before.append((owner, seam.name, vars(owner)[seam.name]))
        join(seam, importlib.import_module(seam.module))
    try:
        yield
    finally:
        for owner, name, raw in before:
            setattr(owner, name, raw)


def server_args(draft: Path = EXAMPLE / "draft", target: Path = EXAMPLE / "target", **fields: Any):
    """Upstream's ServerArgs for a target and a draft, as a command line would make them."""
    from sglang.srt.server_args import ServerArgs

    speculation = {"speculative_algorithm": "EAGLE3", "speculative_draft_model_path": str(draft)}
    speculation |= {"speculative_num_steps": 3, "speculative_eagle_topk": 1, "speculative_num_draft_tokens": 4}
    small = {"mem_fraction_static": 0.3, "max_running_requests": 4, "disable_cuda_graph": True}
    if not torch.cuda.is_available():
        small["device"] = "cpu"
    return ServerArgs(**{"model_path": str(target), **speculation, **small, **fields})


def write_config(directory: Path, base: Path, without: tuple[str, ...] = (), **fields: Any) -> Path:
    """A directory with the config of `base` (a folder of the example) less `without`, with `fields` over it."""
    directory.mkdir(parents=True, exist_ok=True)
    config = json.loads((base / "config.json").read_text())
    config = {key: value for key, value in config.items() if key not in without} | fields
    (directory / "config.json").write_text(json.dumps(config))
    return directory


def write_draft(directory: Path, nested: Any = None, **fields: Any) -> Path:
    """A directory with the small draft's config; `nested` is its eagle_config, None leaves that out."""
    fields |= {} if nested is None else {"eagle_config": nested}
    return write_config(directory, EXAMPLE / "draft", ("eagle_config",), **fields)


def write_kimi(directory: Path) -> Path:
    """A directory with a Kimi-K2.5 config around the small target: the text model nested in `text_config`."""
    text = json.loads((EXAMPLE / "target" / "config.json").read_text())
    config = {"architectures": ["KimiK25ForConditionalGeneration"], "model_type": "kimi_k25", "torch_dtype": "bfloat16"}
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config | {"text_config": text, "vision_config": {}}))
    return directory


def capture_list(ids: list[int], *, hidden: int = HIDDEN, layers: int = LAYERS, **eagle_config: Any) -> CaptureList:
    """What the overlay writes into a draft's config for nested `ids`."""
    config = {"eagle_config": {IDS: ids, **eagle_config}}
    wiring = resolve(config, num_layers=layers, release_rule="index_unless_1", source="draft/config.json")
    captured = CaptureList(wiring.boundaries)
    captured.wiring, captured.hidden_size = wiring, hidden
    return captured


@contextmanager
def published(args: Any) -> Iterator[None]:
    """`args` as a scheduler process publishes them, in a context that goes when the block ends."""
    from sglang.srt import runtime_context

    with runtime_context.use_context(runtime_context.create_context(args, role="scheduler")):
        yield


def bare_target(name: str = "DeepseekV3ForCausalLM", layers: int = LAYERS, last_rank: bool = True) -> Any:
    """A target of upstream's own class that holds no weights: what the id setter and the hooks touch."""
    from sglang.srt.models import deepseek_v2

    target = object.__new__(getattr(deepseek_v2, name))
    torch.nn.Module.__init__(target)
    target.pp_group = SimpleNamespace(is_last_rank=last_rank)
    target.config = SimpleNamespace(num_hidden_layers=layers, hidden_size=HIDDEN)
    target.capture_aux_hidden_states = False
    target.__dict__["model"] = SimpleNamespace(layers_to_capture=[])
    target.__dict__["logits_processor"] = SimpleNamespace()
    return target


def bare_kimi(**fields: Any) -> Any:
    """Upstream's Kimi-K2.5 wrapper around a bare target, without its vision tower."""
    from sglang.srt.models.kimi_k25 import KimiK25ForConditionalGeneration

    wrapper = object.__new__(KimiK25ForConditionalGeneration)
    torch.nn.Module.__init__(wrapper)
    wrapper.__dict__["language_model"] = bare_target(**fields)
    return wrapper
