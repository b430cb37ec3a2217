"""The requests of a benchmark, read from a file and checked before a server is started."""

from __future__ import annotations

import hashlib
import json
import stat
from pathlib import Path
from typing import Any, NamedTuple

from draftwire.bench.refusals import BenchError

LARGEST_FILE = 64 * 1024 * 1024
LEAST_TOKENS = 4
FORMS = 'JSONL of {"prompt": text}, {"messages": [...]} or {"input_ids": [...]}, or a JSON list of such'


class Prompts(NamedTuple):
    """`items`: each a text, a list of chat messages, or a list of token ids; distinct. `sha256`: of the file.

    `max_tokens`: of each answer, where a file of the form {"max_tokens": 64, "prompts": [...]} says so.
    """

    file: Path
    sha256: str
    items: list[Any]
    max_tokens: int | None = None

    def first(self, count: int) -> list[Any]:
        """Raises BenchError where there are not so many: a repeated prompt would be answered from the cache."""
        if count > len(self.items):
            raise BenchError(f"{count} prompts", len(self.items), self.file, "add some, or name fewer with --requests")
        return self.items[:count]


def read_prompts(file: Path) -> Prompts:
    """Raises BenchError, one line, on a file in none of the FORMS."""
    try:
        if not stat.S_ISREG(file.stat().st_mode) and not file.is_dir():
            raise BenchError("a regular file of prompts", "a pipe or device", file, "write them to a file")
        if file.stat().st_size > LARGEST_FILE:
            raise BenchError(f"at most {LARGEST_FILE} bytes of prompts", file.stat().st_size, file, "name another file")
        content = file.read_bytes()
        text = content.decode()
    except OSError as failure:
        raise BenchError("prompts", failure.strerror, file, "name them with --prompts") from None
    except UnicodeDecodeError:
        raise BenchError(FORMS, "no UTF-8", file, "correct it") from None
    try:
        table = _table(text)
    except (ValueError, RecursionError) as failure:
        raise BenchError(FORMS, failure, file, "correct it") from None
    most = None
    if isinstance(table, dict):
        most, table = table.get("max_tokens"), table.get("prompts")
    if not isinstance(table, list) or (most is not None and (type(most) is not int or most < LEAST_TOKENS)):
        raise BenchError(FORMS, text[:40], file, "correct it")
    items = [_item(entry, number, file) for number, entry in enumerate(table, 1)]
    if not items:
        raise BenchError("prompts", "none", file, "name them with --prompts")
    if len({json.dumps(item) for item in items}) < len(items):
        raise BenchError("prompts that differ", "the same one twice", file, "a cache would answer the second")
    return Prompts(file, hashlib.sha256(content).hexdigest(), items, most)


def _table(text: str) -> Any:
    """One JSON value, or a list of one a line. Raises ValueError, which names the file's line, and RecursionError."""
    try:
        whole = json.loads(text)
    except ValueError as failure:
        return _lines(text, failure)
    return [whole] if isinstance(whole, dict) and "prompts" not in whole else whole


def _lines(text: str, whole: ValueError) -> list[Any]:
    """`whole`: what is wrong with the text as one value, which it was meant to be where its first line is none."""
    values: list[Any] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            values.append(json.loads(line))
        except ValueError as failure:
            if not values:
                raise whole from None
            column = f" column {failure.colno}" if isinstance(failure, json.JSONDecodeError) else ""
            raise ValueError(f"{getattr(failure, 'msg', failure)}: line {number}{column}") from None
    return values


def _item(entry: Any, number: int, file: Path) -> Any:
    found = entry
    if isinstance(entry, dict):
        found = next((entry[key] for key in ("prompt", "text", "messages", "input_ids") if key in entry), None)
    ids = isinstance(found, list) and len(found) > 1 and all(type(token) is int and token >= 0 for token in found)
    chat = isinstance(found, list) and bool(found) and all(isinstance(m, dict) and "content" in m for m in found)
    if not ids and not chat and not (isinstance(found, str) and len(found) > 1):
        raise BenchError(FORMS, f"entry {number}, {json.dumps(entry)[:40]}", file, "correct it")
    return found


def default_prompts(target: str) -> Path:
    """bench.json beside the target's directory. Raises BenchError where there is none: the gain depends on them."""
    file = Path(target).parent / "bench.json"
    if not file.is_file():
        raise BenchError("--prompts", "none", "the command", f"name a file of your own traffic: {FORMS}")
    return file
