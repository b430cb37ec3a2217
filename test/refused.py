"""What a refusal says."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest


def refusal_of(call: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """The line with which `call` ends the process. Fails where it goes on, or says more than one line."""
    with pytest.raises(SystemExit) as ended:
        call(*args, **kwargs)
    line = ended.value.code
    assert isinstance(line, str)
    assert line.startswith("draftwire: ")
    assert len(line.splitlines()) == 1
    return line.removeprefix("draftwire: ")


def assert_says(line: str, *parts: str) -> None:
    """`line` holds `expected ... found ... ; what to do`, and every one of `parts`, in that order."""
    assert re.fullmatch(r"expected .+[;,] found .+[;,] \S.+", line), line
    at = 0
    for part in parts:
        assert part in line[at:], f"{part!r} is not in {line[at:]!r}"
        at = line.index(part, at) + len(part)
