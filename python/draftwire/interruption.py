"""Signals that end a process become an orderly exit while files are half written or servers run."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def orderly_exit() -> Iterator[None]:
    """Within it, the first SIGTERM or SIGHUP raises SystemExit(128 + its number), so that `finally` blocks run.

    Later ones are ignored until then. A signal that is handled or ignored already (nohup) stays so, and outside of the
    main thread, where handlers cannot be set, nothing changes.
    """
    before: dict[int, Any] = {}
    seen: list[int] = []

    def leave(number: int, frame: Any) -> None:
        if not seen:
            seen.append(number)
            raise SystemExit(128 + number)

    if threading.current_thread() is threading.main_thread():
        before = {number: signal.SIG_DFL for number in SIGNALS if signal.getsignal(number) == signal.SIG_DFL}
    try:
        for number in before:
            signal.signal(number, leave)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
