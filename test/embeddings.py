"""Embeddings of a draft and its target on disk, in bfloat16: the same rows, random ones, or the draft's rotated."""

from __future__ import annotations

import math
import random
import struct
from pathlib import Path

from sparse import write_header

from draftwire.headers import read_header

Rows = list[list[float]]


def write_embeddings(draft: Path, target: Path, kind: str, shape: tuple[int, int]) -> None:
    """Into the hole for `embed_tokens.weight` of `draft`, and into a file of `target`. kind: what the target has in
    place of the draft's rows, or `the target's` where both have the same."""
    mine = _random(shape, seed=0)
    theirs = {"the target's": lambda: mine, "random": lambda: _random(shape, seed=1), "rotated": lambda: _rotate(mine)}
    write_header(target / "model.safetensors", {"model.embed_tokens.weight": ("BF16", list(shape))})
    _fill(draft / "model.safetensors", "embed_tokens.weight", mine)
    _fill(target / "model.safetensors", "model.embed_tokens.weight", theirs[kind]())


def _random(shape: tuple[int, int], seed: int) -> Rows:
    generator = random.Random(seed)
    return [[generator.gauss(0, 1 + row % 5) for _ in range(shape[1])] for row in range(shape[0])]


def _rotate(rows: Rows) -> Rows:
    """By a Hadamard matrix with signs drawn by column, as QuaRot does: https://arxiv.org/abs/2404.00456."""
    width = len(rows[0])
    signs = random.Random(2).choices((-1.0, 1.0), k=width)
    rotated = []
    for row in rows:
        values = [value * sign for value, sign in zip(row, signs, strict=True)]
        step = 1
        while step < width:
            for start in range(0, width, 2 * step):
                for i in range(start, start + step):
                    values[i], values[i + step] = values[i] + values[i + step], values[i] - values[i + step]
            step *= 2
        rotated.append([value / math.sqrt(width) for value in values])
    return rotated


def _fill(file: Path, name: str, rows: Rows) -> None:
    stored = read_header(file)[name]
    words = struct.pack(f"<{len(rows) * len(rows[0])}f", *(value for row in rows for value in row))
    halves = bytearray(stored.size)
    halves[0::2], halves[1::2] = words[2::4], words[3::4]
    with file.open("r+b") as stream:
        stream.seek(stored.start)
        stream.write(halves)
