"""Which of draftwire, if anything, is at work in the server that this environment would start."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from draftwire.plugin import is_patched
from draftwire.release import NEWEST, has

OFF = "DRAFTWIRE"


def installed_release() -> str:
    """SGLang's release in this Python, else the newest one that is known. Imports nothing of it."""
    try:
        return version("sglang")
    except PackageNotFoundError:
        return NEWEST


def find_delivery(release: str, environment: Mapping[str, str]) -> str:
    """stock, overlay or patch. A patch is only seen in the SGLang that is installed here, at that release."""
    if is_installed_patched(release):
        return "patch"
    if not has(release, "layer_captures") or not is_listed(environment):
        return "stock"
    return "stock" if environment.get(OFF, "").strip().lower() in ("off", "0", "false") else "overlay"


def is_listed(environment: Mapping[str, str]) -> bool:
    """Whether SGLANG_PLUGINS, where it is set, lets draftwire in; a lone comma lets nobody in."""
    said = environment.get("SGLANG_PLUGINS", "")
    return not said or "draftwire" in [name.strip() for name in said.split(",")]


def is_installed_patched(release: str) -> bool:
    """Whether the SGLang in this Python is of this release and holds draftwire's patch."""
    if installed_release() != release:
        return False
    spec = find_spec("sglang")
    return bool(spec and spec.origin and is_patched(Path(spec.origin).parent))
