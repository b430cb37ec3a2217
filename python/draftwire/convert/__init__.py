"""A trainer's draft directory becomes one that SGLang serves as it was trained. Needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from draftwire.convert.embedding import describe_embedding
from draftwire.convert.flatten import flatten
from draftwire.convert.ids import read_boundaries, write_ids
from draftwire.convert.output import Output
from draftwire.convert.serve import serve_flags
from draftwire.convert.target import find_target
from draftwire.convert.tensors import arrange
from draftwire.convert.writer import write
from draftwire.draft import DraftError, find_directory, read_draft
from draftwire.features import REQUIRES

__all__ = ["DraftError", "convert", "plan"]


def convert(
    source: str, out: Path, *, target: str | None = None, boundaries: Sequence[int] | None = None, release: str = ""
) -> Output:
    """Convert the draft `source`, a directory or a cached hub name, into the new directory `out`.

    target: the model that it was trained for, where the draft does not say. boundaries: of that target, where the
    draft's ids do not say. release: of SGLang, such as 0.5.17; default any from 0.5.14 on.
    Raises DraftError or WiringError (both ValueError), and leaves no `out`, where anything is missing or uncertain.
    """
    output = plan(find_directory(source), out, target=target, boundaries=boundaries, release=release)
    if linked := write(output, out):
        note = f"model.safetensors is a hard link to {linked}: one storage, so edit neither in place"
        output = output._replace(notes=[*output.notes, note])
    return output


def plan(
    directory: Path, out: Path, *, target: str | None = None, boundaries: Sequence[int] | None = None, release: str = ""
) -> Output:
    """What `convert` would write: only config.json, headers and the vocabulary map are read, nothing is written."""
    if directory.resolve() in out.resolve().parents:
        raise DraftError(f"an output outside of {directory}, which stays as it is", out, "OUT", "name another place")
    draft = read_draft(directory)
    facts = find_target(draft, target)
    flat = flatten(draft, facts, release)
    resolved, said = read_boundaries(draft, facts, boundaries)
    ids, requires = write_ids(resolved, facts, directory / "config.json")
    requires = [*flat.requires, *requires]
    config = {**flat.config, "num_aux_hidden_states": len(resolved)}
    config["eagle_config"] = {**ids, **flat.eagle_config, **({REQUIRES: requires} if requires else {})}
    pieces, notes = arrange(draft, config, len(resolved), marked=bool(requires))
    notes = [*said, *flat.notes, *notes, *describe_embedding(draft, facts, config)]
    return Output(config, pieces, serve_flags(config, flat, out), notes, requires, list(resolved))
