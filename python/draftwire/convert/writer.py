"""Write the output directory: weights are linked or streamed, and the directory appears whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import struct
from pathlib import Path
from typing import BinaryIO

import yaml

from draftwire.convert.output import Output, Piece
from draftwire.headers import DraftError, read_header
from draftwire.interruption import orderly_exit

CHUNK = 8 * 1024 * 1024


def write(output: Output, out: Path) -> Path | None:
    """Write config.json, model.safetensors and serve.yaml into a folder beside `out`, then rename it to `out`.

    Returns the source file that the weights are a hard link to, None where they were copied. Raises DraftError where
    `out` exists, its parent does not, or the disk refuses; then, and at SIGINT, SIGTERM and SIGHUP, nothing is left.
    """
    if out.exists() or out.is_symlink():
        raise DraftError("a directory that is not there yet", "one that is", out, "name another or remove it")
    if not out.parent.is_dir():
        raise DraftError("an existing parent directory", "none", out.parent, "create it")
    with orderly_exit():
        return _write_whole(output, out)


def _write_whole(output: Output, out: Path) -> Path | None:
    folder, done = out.parent / f".{out.name}.{secrets.token_hex(8)}.partial", False
    try:
        folder.mkdir()
        linked = _write_weights(output.pieces, folder / "model.safetensors")
        _write_text(folder / "config.json", json.dumps(output.config, indent=2) + "\n")
        _write_text(folder / "serve.yaml", _yaml(output))
        folder.rename(out)
        done = True
        return linked
    except OSError as error:
        found = error.strerror or type(error).__name__
        raise DraftError(
            "to write the output", found, out, "free the disk or correct its rights, and try again"
        ) from None
    finally:
        if not done:
            shutil.rmtree(folder, ignore_errors=True)


def _yaml(output: Output) -> str:
    needs = f"only with draftwire's overlay, for {', '.join(output.requires)}" if output.requires else "also stock"
    lines = [
        "# Written by `draftwire convert`: python -m sglang.launch_server --model-path TARGET --config THIS FILE",
        f"# Boundaries {output.boundaries}; SGLang serves this draft {needs}.",
    ]
    body = yaml.safe_dump(output.flags, sort_keys=False, width=2**31) if output.flags else ""
    return "\n".join(lines) + "\n" + body


def _write_text(file: Path, text: str) -> None:
    with file.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def _write_weights(pieces: dict[str, Piece], file: Path) -> Path | None:
    if whole := _linkable(pieces):
        try:
            os.link(whole, file)
            return whole
        except OSError:
            pass
    entries, at = {}, 0
    for name, piece in pieces.items():
        entries[name] = {"dtype": piece.dtype, "shape": list(piece.shape), "data_offsets": [at, at + piece.size]}
        at += piece.size
    header = json.dumps({"__metadata__": {"format": "pt"}, **entries}).encode()
    header += b" " * (-len(header) % 8)
    with file.open("wb") as stream:
        stream.write(struct.pack("<Q", len(header)) + header)
        for piece in pieces.values():
            _stream(piece, stream)
        stream.flush()
        os.fsync(stream.fileno())
    return None


def _linkable(pieces: dict[str, Piece]) -> Path | None:
    """The one source file that is the output already, byte for byte; the blob itself where it is a link."""
    files = {piece.source.file for piece in pieces.values()}
    if len(files) != 1 or any(piece.data is not None for piece in pieces.values()):
        return None
    file = files.pop()
    stored = read_header(file)
    same = stored.keys() == pieces.keys() and all(
        (stored[n].dtype, stored[n].shape, stored[n].start) == (p.dtype, p.shape, p.source.start)
        for n, p in pieces.items()
    )
    return file.resolve() if same else None


def _stream(piece: Piece, stream: BinaryIO) -> None:
    if piece.data is not None:
        stream.write(piece.data)
        return
    left = piece.source.size
    with piece.source.file.open("rb") as source:
        source.seek(piece.source.start)
        while left:
            chunk = source.read(min(CHUNK, left))
            if not chunk:
                raise DraftError(f"{left} more bytes", "the end", piece.source.file, "export the draft again")
            stream.write(chunk)
            left -= len(chunk)
