"""The files of a directory of samples, those in its folders too, in one order."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from draftwire.draft import DraftError
from draftwire.sample_formats import FORMATS

ARGMAX = "target_argmax.pt"
DEEPEST = 4  # folders in folders; SpecForge's trainer walks them all, its script writes one level
MOST_ENTRIES = 1_000_000


def find_files(directory: Path) -> tuple[Path, ...]:
    """Every file of a sample's format, folder by folder, each by the last number of its name. Hidden folders and links
    to folders are passed over. Raises DraftError on a directory with none, on one that cannot be listed and on too many
    entries."""
    if not directory.is_dir():
        raise DraftError("a directory of samples", "none", directory, "check the path")
    found = []
    for seen, entry in enumerate(_walk(directory, DEEPEST)):
        if seen == MOST_ENTRIES:
            raise DraftError(f"at most {MOST_ENTRIES} files", "more", directory, "name the folder of the samples")
        if entry.name.endswith(FORMATS) and entry.name != ARGMAX and entry.is_file():
            found.append(Path(entry.path))
    if not found:
        raise DraftError(f"samples ({', '.join(sorted(FORMATS))})", "none", directory, "name the trainer's dump")
    return tuple(sorted(found, key=lambda file: _order(file.relative_to(directory))))


def number_of(file: Path) -> int:
    """The last number of a file's name, -1 where it has none."""
    digits = re.findall(r"\d+", file.name.partition(".")[0])
    return int(digits[-1][:12]) if digits else -1


def _walk(folder: Path, depth: int) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as listed:
            entries = list(listed)
    except OSError as failure:
        raise DraftError("a folder that can be listed", failure.strerror, folder, "check its permissions") from None
    for entry in entries:
        if not entry.is_dir():
            yield entry
        elif depth and not entry.name.startswith(".") and not entry.is_symlink():
            yield from _walk(Path(entry.path), depth - 1)


def _order(file: Path) -> tuple:
    folders = tuple(_natural(part) for part in file.parts[:-1])
    return folders, number_of(file), file.name


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """A key that puts rows_9 before rows_10."""
    parts = re.findall(r"\d+|\D+", name)
    return tuple((int(part[:18]), part) if part.isdecimal() else (-1, part) for part in parts)
