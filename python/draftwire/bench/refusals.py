"""Why a measurement stops, and why a ratio is not given."""

from __future__ import annotations


class BenchError(RuntimeError):
    """Nothing can be measured; one line for the user."""

    def __init__(self, expected: object, found: object, where: object, remedy: str):
        super().__init__(" ".join(f"expected {expected}, found {found} in {where}; {remedy}".split()))


class RatioRefused(RuntimeError):
    """Both arms were measured, and dividing one by the other would mislead; one line for the user."""
