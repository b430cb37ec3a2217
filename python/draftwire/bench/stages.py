"""Progress on standard error: the stage that runs, how many are left, and about how long they take."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status

GUESSES = {"start": 40.0, "warm": 5.0, "probe": 15.0, "run": 15.0}


class Stages:
    """Planned stages by kind, in order. A kind's next stage is taken to last as long as its last one did.

    seconds: of a kind before one has been seen, a guess; written to as stages end. later: kinds of stages that follow
    on the plan.
    """

    def __init__(
        self, plan: list[tuple[str, str]], seconds: dict[str, float], console: Console, later: Sequence[str] = ()
    ):
        self.plan, self.seconds, self.console, self.later = plan, seconds, console, later
        self.at = 0
        self.start = 0.0
        self.status: Status | None = None

    def left(self) -> float:
        """Seconds to the end of the plan and of what follows it, by what was seen so far."""
        running = time.monotonic() - self.start if self.start else 0.0
        kind = self.plan[self.at][0] if self.at < len(self.plan) else ""
        now = max(self.seconds.get(kind, 0.0) - running, 0.0)
        return now + sum(self.seconds[kind] for kind in (*(k for k, _ in self.plan[self.at + 1 :]), *self.later))

    def line(self) -> str:
        return f"[{self.at + 1}/{len(self.plan)}] {self.plan[self.at][1]}, about {_clock(self.left())} left"

    def tick(self, _: float = 0) -> None:
        if self.status is not None:
            self.status.update(self.line())

    def skip(self) -> None:
        """The plan's next stage is not needed."""
        self.at += 1

    @contextmanager
    def next(self) -> Iterator[None]:
        """The plan's next stage, from its beginning to its end."""
        kind, text = self.plan[self.at]
        self.start = time.monotonic()
        if self.console.is_terminal:
            with self.console.status(self.line()) as self.status:
                yield
        else:
            self.console.print(self.line(), highlight=False, markup=False, soft_wrap=True)
            yield
        self.status = None
        passed = time.monotonic() - self.start
        self.seconds[kind] = passed
        if self.console.is_terminal:
            self.console.print(f"{text}: {passed:.0f} s", highlight=False, markup=False)
        self.at += 1
        self.start = 0.0


def _clock(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
