"""The trainer's version: ids and windows have meant other things in speculators before 0.5 and 0.7."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from packaging.version import InvalidVersion, Version

from draftwire.draft import DraftError

FIRST, BEYOND = Version("0.5"), Version("0.10.dev0")


def speculators_version(config: Mapping[str, Any], source: object) -> Version:
    """`speculators_version` of a speculators config. Raises DraftError on none, and on one outside of 0.5 to 0.9."""
    written = config.get("speculators_version")
    try:
        version = Version(written) if isinstance(written, str) else None
    except InvalidVersion:
        version = None
    if version is None or not FIRST <= version < BEYOND:
        older = version is not None and version < FIRST
        raise DraftError(
            "speculators_version 0.5 to 0.9", repr(written), source,
            "train with one of these: earlier trainers meant other layers by their ids" if older
            else "convert with a draftwire that was tested with it",
        )  # fmt: skip
    return version
