"""`patches/upstream.lock`: for every release its patch, and each touched file's SHA-256 before and after.

One line a release, `<release> <patch>`, then one a file, `  <before> <after> <path below sglang/>`; a new file's
`before` is `-`. What is the same for every release stands once, below `every release`; `  = <path>` is what the
release before it has.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from draftwire.patching.refusals import PatchError

NEW = "-"
SAME = "="
EVERY = ("every", "release")


class Locked(NamedTuple):
    """One release: the name of its patch and, by file, the hashes before and after (NEW: not there before)."""

    release: str
    patch: str
    hashes: dict[str, tuple[str, str]]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def folder() -> Path:
    """Where the patches lie: in the installed package, else in the checkout. Raises PatchError where they do not."""
    inside = Path(__file__).resolve().parents[1] / "patches"
    for place in (inside, Path(__file__).resolve().parents[3] / "patches"):
        if (place / "upstream.lock").is_file():
            return place
    raise PatchError("patches/upstream.lock", "none", inside, "install draftwire again")


def render(releases: list[Locked], first_line: str) -> str:
    shared = set.intersection(*(set(locked.hashes.items()) for locked in releases))
    blocks = [Locked(*EVERY, dict(shared))]
    blocks += [locked._replace(hashes=dict(set(locked.hashes.items()) - shared)) for locked in releases]
    lines = [f"# {first_line}"]
    known: dict[str, tuple[str, str]] = {}
    for locked in blocks:
        lines.append(f"{locked.release} {locked.patch}")
        for file, pair in sorted(locked.hashes.items()):
            lines.append(f"  {SAME if known.get(file) == pair else ' '.join(pair)} {file}")
        known = locked.hashes
    return "\n".join(lines) + "\n"


def read(place: Path) -> dict[str, Locked]:
    """Release -> Locked, oldest first."""
    return parse((place / "upstream.lock").read_text(encoding="utf-8"))


def parse(text: str) -> dict[str, Locked]:
    found: dict[str, Locked] = {}
    before: dict[str, tuple[str, str]] = {}
    here: dict[str, tuple[str, str]] = {}
    for line in text.splitlines():
        words = line.split()
        if line.startswith("  "):
            *pair, file = words
            here[file] = before[file] if pair == [SAME] else (pair[0], pair[1])
        elif words and not line.startswith("#"):
            before, here = here, {}
            found[words[0]] = Locked(words[0], words[1], here)
    shared = found.pop(EVERY[0], None)
    for locked in found.values():
        locked.hashes.update(shared.hashes if shared else {})
    return found
