"""A copy of a draft that is served as it was trained: ids, the order of fc's blocks, vocabulary map, flags."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from draftwire.axes import differences, shown
from draftwire.case import Case
from draftwire.convert import convert
from draftwire.convert.flatten import NORMS
from draftwire.convert.output import Output, Piece
from draftwire.convert.writer import write
from draftwire.diagnosis import Diagnosis
from draftwire.draft import Draft, DraftError
from draftwire.features import REQUIRES
from draftwire.interruption import orderly_exit
from draftwire.settings import Scaling, Settings, read_settings
from draftwire.switches import layer_config
from draftwire.tensor_names import rename
from draftwire.weights import to_tensor
from draftwire_overlay.srt.speculative.aux_boundaries import BOUNDARIES, IDS


def mend(case: Case, found: Diagnosis, out: Path) -> Output:
    """Write into the new directory `out` the draft of a case as `found` says it was trained.

    Blocks of fc.weight, input_norm and fc_norm are put into ascending order of boundaries; the rest is the
    converter's. Raises DraftError where the diagnosis does not say all that has to be written, or `out` cannot be;
    then, and at a signal, nothing is left of it.
    """
    require_output(case, out)
    if found.winner is None or case.target is None or None in found.boundaries or not found.decided:
        raise DraftError("a wiring that is beyond doubt, with a target", found.reasons or "none", "the diagnosis",
                         "name --target, and each state's boundary")  # fmt: skip
    boundaries = [b for b in found.boundaries if b is not None]
    order = sorted(range(len(boundaries)), key=boundaries.__getitem__)
    asked, wanted = read_settings(case.draft), found.winner.settings
    folder = None
    with orderly_exit():
        try:
            folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".mending", dir=out.parent))
            config = mended_config(case.draft, asked, wanted)
            pieces = _pieces(case.draft, order, asked, wanted)
            write(Output(config, pieces, {}, [], [], sorted(boundaries)), folder / "draft")
            return convert(str(folder / "draft"), out, target=str(case.target.directory),
                           boundaries=sorted(boundaries), release=case.release)  # fmt: skip
        except OSError as failure:
            raise _unwritten(out, failure) from None
        except DraftError as failure:  # It may name the folder, which the user never sees.
            failure.args = (str(failure).replace(str(folder / "draft") if folder else "", str(out)),)
            raise
        finally:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)


def require_output(case: Case, out: Path) -> None:
    """Raises DraftError where a draft cannot be written to `out`, as far as a folder beside it shows that."""
    try:
        if out.exists() or out.is_symlink():
            raise DraftError("a directory that is not there yet", "one that is", out, "name another with --fix")
        if not out.parent.is_dir():
            raise DraftError("an existing parent directory", "none", out.parent, "create it, or name another")
        if case.draft.directory.resolve() in out.resolve().parents:
            raise DraftError(f"an output outside of {case.draft.directory}, which stays as it is", out, "--fix",
                             "name another place")  # fmt: skip
        os.rmdir(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".mending", dir=out.parent))
    except OSError as failure:
        raise _unwritten(out, failure) from None


def _unwritten(out: Path, failure: OSError) -> DraftError:
    return DraftError("to write the mended draft", failure.strerror or type(failure).__name__, out,
                      "free the disk, correct its rights or name another place")  # fmt: skip


def changes(case: Case, found: Diagnosis, output: Output) -> list[str]:
    """What the mended draft has that the draft has not, a line each."""
    assert found.winner is not None
    nested = case.eagle_config.get(IDS, case.draft.config.get(IDS))
    ids, boundaries = output.config["eagle_config"][IDS], list(found.boundaries)
    lines = [f"layer ids {'none' if nested is None else nested} -> {ids}"] if nested != ids else []
    if boundaries != output.boundaries:
        lines.append(f"blocks of fc.weight in the order of boundaries {boundaries} -> {output.boundaries}")
    asked, wanted = read_settings(case.draft), found.winner.settings
    for axis in differences(asked, wanted):
        is_map = axis == "d2t"
        to = "offsets" if is_map else shown(wanted, axis)
        lines.append(f"{axis} {'target ids' if is_map else shown(asked, axis)} -> {to}")
    return lines


def shared_weights(case: Case, out: Path) -> list[str]:
    """That the output's weights and the draft's are one file."""
    weights = out / "model.safetensors"
    files = {stored.file for stored in case.draft.tensors.values()}
    one = next((file for file in files if file.samefile(weights)), None)
    return [f"its model.safetensors is a hard link to {one}: edit neither in place"] if one else []


def mended_config(draft: Draft, asked: Settings, wanted: Settings) -> dict[str, Any]:
    """The draft's config without ids, and with the axes on which `wanted` differs from what it asks for."""
    config = {k: v for k, v in draft.config.items() if k != IDS}
    nested = config.get("eagle_config")
    eagle = dict(nested) if isinstance(nested, dict) else {}
    requires = eagle.pop(REQUIRES, [])
    for key in (IDS, BOUNDARIES, *NORMS):
        eagle.pop(key, None)
    config |= {name: getattr(wanted, name) for name in NORMS}
    config["use_aux_norm"] = False
    layer = dict(layer_config(draft))
    axes = differences(asked, wanted)
    if "own_embedding" in requires:
        config["embed_requires_grad"] = True
    changes: dict[str, Any] = {"model_type": "qwen3"} if wanted.qk_norm and layer.get("model_type") == "llama" else {}
    if {"rope_theta", "rope_scaling", "yarn_magnitude"} & set(axes):
        changes |= {"rope_parameters": _rope_block(wanted.rope), "rope_scaling": None, "rope_theta": wanted.rope.theta}
    if "window" in axes:
        changes |= _window(wanted.window)
    if layer_config(draft) is draft.config:
        config |= changes
    else:
        config["transformer_layer_config"] = layer | changes
    if isinstance(nested, dict):
        config["eagle_config"] = eagle
    return config


def _rope_block(rope: Scaling) -> dict[str, Any]:
    block = {"rope_type": rope.kind, "rope_theta": rope.theta, **dict(rope.block)}
    return block | ({"attention_factor": rope.magnitude} if rope.kind == "yarn" else {})


def _window(windows: tuple[int | None, ...]) -> dict[str, Any]:
    if not any(windows):
        return {"layer_types": None, "sliding_window": None}
    return {"layer_types": ["sliding_attention" if w else "full_attention" for w in windows],
            "sliding_window": next(w for w in windows if w)}  # fmt: skip


def _pieces(draft: Draft, order: list[int], asked: Settings, wanted: Settings) -> dict[str, Piece]:
    """Every tensor as stored; what has a block for each state in its new order; norms that are not run left out."""
    pieces = {}
    moved = order != sorted(order)
    unmark: Mapping[str, Any] = {name: s for name, s in draft.tensors.items() if name.endswith("hidden_norm.weight")}
    for name, stored in draft.tensors.items():
        plain = rename(name)
        if plain.startswith("input_norm") and not wanted.norm_before_fc:
            continue
        if plain.startswith("fc_norm.") and not wanted.fc_norm:
            continue
        if plain.startswith("fc_norm.") and moved:
            slot = order.index(int(plain.split(".")[1]))
            pieces[f"fc_norm.{slot}.weight"] = Piece(stored.dtype, stored.shape, stored)
            continue
        if plain in ("fc.weight", "input_norm.weight") and moved:
            data = _reordered(to_tensor(stored, name), order)
            pieces[name] = Piece(stored.dtype, stored.shape, stored, data)
            continue
        shape = (stored.shape[-1],) if name in unmark and len(stored.shape) == 2 else stored.shape
        pieces[name] = Piece(stored.dtype, shape, stored)
    return pieces


def _reordered(tensor: Any, order: list[int]) -> bytes:
    import torch

    blocks = tensor.chunk(len(order), dim=-1)
    return bytes(torch.cat([blocks[i] for i in order], dim=-1).contiguous().view(torch.uint8).numpy().tobytes())
