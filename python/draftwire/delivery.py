"""Which of draftwire, if anything, is at work in the server that this environment would start."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from draftwire.headers import DraftError
from draftwire.plugin import is_patched, known, supported
from draftwire.release import NEWEST, RELEASES, has, is_known

OFF, UNTESTED = "DRAFTWIRE", "DRAFTWIRE_UNTESTED"


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


def available(release: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The deliveries that there are for a release: stock always, a patch for every release that was read, the overlay
    for those that it is tested with, and with DRAFTWIRE_UNTESTED=1 for others whose layers capture."""
    tried = environment.get(UNTESTED) == "1" and has(release, "layer_captures")
    found = {"overlay": known(release) or tried, "patch": is_known(release)}
    return "stock", *(name for name, there in found.items() if there)


def require_available(release: str, delivery: str, environment: Mapping[str, str]) -> None:
    """Raises DraftError where draftwire has no such delivery for that release."""
    found = available(release, environment)
    if delivery not in found:
        raise DraftError(
            f"a delivery that there is for SGLang {release}: {' or '.join(found)} (overlay: {supported()}; patch: "
            f"{RELEASES[0]} to {RELEASES[-1]})", delivery, "--delivery", "name another, or another release",
        )  # fmt: skip


def require_read(release: str, environment: Mapping[str, str]) -> None:
    """Raises DraftError where nobody read what a release makes of ids and flags, unless DRAFTWIRE_UNTESTED=1."""
    if not is_known(release) and environment.get(UNTESTED) != "1":
        raise DraftError(
            f"a release that was read, {RELEASES[0]} to {RELEASES[-1]}", release,
            "--sglang or the SGLang installed here", f"name one of them, or set {UNTESTED}=1 to take it for {NEWEST}",
        )  # fmt: skip


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
