"""results.jsonl: rows are added at its end, whole or not at all, and never changed."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from draftwire.bench.refusals import BenchError


def require_writable(file: Path) -> None:
    """Before anything is measured. Raises BenchError where a row cannot be added, or would continue half a line."""
    new = not file.exists()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab+") as stream:
            stream.seek(max(stream.tell() - 1, 0))
            last = stream.read(1)
        if last not in (b"", b"\n"):
            raise BenchError("whole lines", "a last one without its end", file, "correct it")
        if new:
            file.unlink()
    except OSError as failure:
        raise BenchError("to add a row", failure.strerror, file, "name a folder with --out") from None


def append(file: Path, row: Mapping[str, Any]) -> None:
    """One line, by one write and then on the disk. Raises BenchError; the file then ends where it ended before."""
    line = json.dumps(row).encode() + b"\n"
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        before = os.fstat(descriptor).st_size
        try:
            written = os.write(descriptor, line)
            if written < len(line):
                raise OSError(28, f"only {written} of {len(line)} bytes written")
            os.fsync(descriptor)
        except BaseException as failure:
            if os.fstat(descriptor).st_size != before:
                os.ftruncate(descriptor, before)
            if isinstance(failure, OSError):
                found = failure.strerror
                raise BenchError("to add a row", found, file, "it is the last line printed: add it by hand") from None
            raise
    finally:
        os.close(descriptor)
