"""The entry point that SGLang calls in each of its processes (`sglang.srt.plugins`)."""

from __future__ import annotations

import logging
import os
from importlib.metadata import requires
from pathlib import Path

from draftwire.refusal import refuse

logger = logging.getLogger("draftwire")


def supported() -> str:
    """The releases that pyproject.toml states, as a PEP 440 specifier such as `>=0.5.14,<=0.5.23`."""
    from packaging.requirements import Requirement

    for line in requires("draftwire") or []:
        requirement = Requirement(line)
        if requirement.name == "sglang" and requirement.marker:
            return ",".join(sorted(map(str, requirement.specifier), reverse=True))
    refuse("expected the supported SGLang releases in the package's metadata, found none; reinstall draftwire")


def known(release: str) -> bool:
    """Whether `release`, such as 0.5.23 or 0.5.23+cu130, is one that the overlay is tested with."""
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(supported()).contains(release, prereleases=False)


def is_patched(sglang_root: Path) -> bool:
    """Whether this SGLang tree already holds our patch, which brings the rule's own file."""
    return (sglang_root / "srt" / "speculative" / "aux_boundaries.py").exists()


def activate() -> None:
    """Wire this process, or say why not. Refuses (SystemExit) an unknown release, an unknown seam and its own errors.

    SGLang logs any other exception of a plugin and serves on without it.
    """
    try:
        _wire()
    except Exception as error:
        refuse(
            f"expected to join draftwire's overlay, found {type(error).__name__}: {error}; reinstall draftwire, or set "
            f"DRAFTWIRE=off to serve without"
        )


def _wire() -> None:
    import sglang
    from sglang.version import __version__ as release

    switch = os.environ.get("DRAFTWIRE", "").strip().lower()
    if switch not in ("", "on", "off", "1", "0", "true", "false"):
        refuse(f"expected DRAFTWIRE=off or nothing, found DRAFTWIRE={switch!r}; unset it or write off")
    if switch in ("off", "0", "false"):
        logger.warning("draftwire is off (DRAFTWIRE=off): layer ids mean what SGLang %s makes of them", release)
        return
    if is_patched(Path(next(iter(sglang.__path__)))):
        logger.warning("draftwire stands aside: this SGLang %s holds draftwire's patch already", release)
        return
    if not known(release):
        if os.environ.get("DRAFTWIRE_UNTESTED") != "1":
            refuse(
                f"expected SGLang {supported()}, found {release}; install one of these or a newer draftwire, or set "
                f"DRAFTWIRE_UNTESTED=1 to try it, or DRAFTWIRE=off to serve without"
            )
        logger.warning("draftwire is not tested with SGLang %s (DRAFTWIRE_UNTESTED=1)", release)
    from draftwire.seams import find_seams, install

    install(find_seams())
