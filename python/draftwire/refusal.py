"""A refusal: one line, a non-zero exit, and that line last even when a worker process spoke it."""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

REFUSALS = "DRAFTWIRE_REFUSALS"


def refuse(message: object) -> NoReturn:
    """End this process with status 1 and `message` as its one line.

    SystemExit passes the `except Exception` around SGLang's plugin loader. A worker's line is left for
    the launching process too (see `speak_last`), which would otherwise end on the engine's guesses.
    """
    line = "draftwire: " + " ".join(str(message).split())
    path = os.environ.get(REFUSALS)
    if path and os.getpid() != _speaker:
        with open(path, "a", encoding="utf-8") as file:
            file.write(line + "\n")
    raise SystemExit(line)


_speaker: int | None = None


def speak_last() -> None:
    """In the launching process: repeat the first refusal of any worker as the last line before exit."""
    global _speaker
    if _speaker == os.getpid():
        return
    _speaker = os.getpid()
    descriptor, path = tempfile.mkstemp(prefix="draftwire-", suffix=".refusal")
    os.close(descriptor)
    os.environ[REFUSALS] = path
    atexit.register(_speak, path)


def _speak(path: str) -> None:
    file = Path(path)
    if os.getpid() == _speaker and file.exists():
        lines = file.read_text(encoding="utf-8").splitlines()
        file.unlink()
        if lines:
            print(lines[0], file=sys.stderr, flush=True)
