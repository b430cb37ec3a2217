"""A refusal: one line, a non-zero exit, and that line last even when a worker process spoke it."""

from __future__ import annotations

import atexit
import os
import stat
import sys
import threading
import time
from typing import NoReturn

# Path of the pipe on which workers tell the launching process why they refuse: its own open writer, under /proc.
REFUSALS = "DRAFTWIRE_REFUSALS"

_listener: int | None = None
_line = ""


def refuse(message: object) -> NoReturn:
    """End this process with status 1 and `message` as its one line.

    SystemExit passes the `except Exception` around SGLang's plugin loader. A worker's line goes to the
    launching process too, which then ends at once (see `end_with_workers`).
    """
    line = "draftwire: " + " ".join(str(message).split())
    path = os.environ.get(REFUSALS)
    if path and _listener != os.getpid():
        try:
            pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            if stat.S_ISFIFO(os.fstat(pipe).st_mode):
                os.write(pipe, (line + "\n").encode())
        except OSError:
            pass  # Nobody listens on this machine: SystemExit alone ends the server, less quietly.
    raise SystemExit(line)


def end_with_workers() -> None:
    """In the launching process: when a worker refuses, end every child, repeat its line last, exit with 1.

    Upstream would end with a traceback and a guess at the reason, or kill itself, after up to 25 s.
    """
    global _listener
    if _listener == os.getpid():
        return
    _listener = os.getpid()
    # No file, so none is left however this process ends. Its writer stays open: it must not end with a worker's.
    reader, writer = os.pipe()
    os.environ[REFUSALS] = f"/proc/{_listener}/fd/{writer}"
    atexit.register(_close)
    threading.Thread(target=_listen, args=(reader,), daemon=True, name="draftwire-refusals").start()


def _listen(pipe: int) -> None:
    global _line
    with open(pipe, encoding="utf-8") as lines:
        _line = lines.readline().strip()
    if not _line or os.getpid() != _listener:
        return
    from sglang.srt.utils import kill_process_tree

    kill_process_tree(os.getpid(), include_parent=False)
    time.sleep(0.5)  # The main thread may be saying what it makes of its dead workers.
    _close()
    os._exit(1)


def _close() -> None:
    if os.getpid() == _listener and _line:
        sys.stdout.flush()
        print(_line, file=sys.stderr, flush=True)
