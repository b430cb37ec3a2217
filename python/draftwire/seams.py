"""Join the overlay to SGLang: each overlay file changes its namesake module, when that is imported.

An overlay file holds classes named like upstream's; each of their functions takes upstream's function
as `original` before its arguments and replaces it. The target is derived from the file's path, the
class and the function, so it is never typed twice. A module that a process never imports costs nothing.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import draftwire_overlay
from draftwire.refusal import refuse


class Seam(NamedTuple):
    """One upstream method that the overlay wraps."""

    module: str
    owner: str
    name: str
    body: Callable[..., Any]

    def __str__(self) -> str:
        return f"{self.module}.{self.owner}.{self.name}"


def overlay_modules() -> Iterator[tuple[str, str]]:
    """Pairs (overlay module, upstream module) for every file of the overlay."""
    root = Path(next(iter(draftwire_overlay.__path__)))
    for file in sorted(root.rglob("*.py")):
        dotted = ".".join(file.relative_to(root).with_suffix("").parts)
        yield f"draftwire_overlay.{dotted}", f"sglang.{dotted}"


def find_seams() -> list[Seam]:
    """Every seam that the overlay's files declare. Imports those files: no torch, some milliseconds."""
    seams = []
    for overlay_name, upstream_name in overlay_modules():
        overlay = importlib.import_module(overlay_name)
        for owner, cls in inspect.getmembers(overlay, inspect.isclass):
            if cls.__module__ != overlay_name:
                continue
            for name, body in inspect.getmembers(cls, inspect.isfunction):
                if next(iter(inspect.signature(body).parameters), "") == "original":
                    seams.append(Seam(upstream_name, owner, name, body))
    return seams


def join(seam: Seam, module: ModuleType) -> None:
    """Wrap one method of `module`. Refuses, naming the target, where it is not there or not a function."""
    owner = getattr(module, seam.owner, None)
    raw = vars(owner).get(seam.name) if isinstance(owner, type) else None
    original = raw.__func__ if isinstance(raw, (staticmethod, classmethod)) else raw
    if not inspect.isfunction(original):
        found = "no such class" if not isinstance(owner, type) else f"no such method, but {raw!r},"
        refuse(
            f"expected the method {seam}, found {found} in {getattr(module, '__file__', module)}; this SGLang is "
            f"not one that this draftwire knows: install a matching draftwire, or set DRAFTWIRE=off to serve without"
        )
    if getattr(original, "__draftwire__", None) == str(seam):
        return

    @functools.wraps(original)
    def wired(*args, **kwargs):
        return seam.body(original, *args, **kwargs)

    wired.__draftwire__ = str(seam)  # type: ignore[attr-defined]
    binding = {staticmethod: staticmethod, classmethod: classmethod}.get(type(raw))
    setattr(owner, seam.name, binding(wired) if binding else wired)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Joins a module's seams as soon as its own code has run."""

    def __init__(self, seams: dict[str, list[Seam]]):
        self.pending = seams
        self.looking: set[str] = set()

    def find_spec(self, name, path=None, target=None):
        if name not in self.pending or name in self.looking:
            return None
        self.looking.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.looking.discard(name)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            for seam in self.pending[name]:
                join(seam, module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


_pending: dict[str, list[Seam]] = {}


def install(seams: list[Seam]) -> None:
    """Join every seam: now where the module is loaded, else when it is first imported."""
    for seam in seams:
        module = sys.modules.get(seam.module)
        if module is not None:
            join(seam, module)
        else:
            _pending.setdefault(seam.module, []).append(seam)
    if not any(isinstance(finder, _AfterImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterImport(_pending))


def join_pending() -> None:
    """Import every module that still waits, so that a seam that does not fit is refused now."""
    for name in list(_pending):
        importlib.import_module(name)
