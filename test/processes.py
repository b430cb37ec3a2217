"""Processes by id, as /proc tells of them."""

import signal
from pathlib import Path


def interruptible() -> None:
    """For Popen's preexec_fn: signals end the process, also where the tests run under nohup or in the background."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def is_alive(pid: int | str) -> bool:
    """Not so for one that has ended and that nobody has waited for, as in a container without an init."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def descendants(pid: int) -> set[int]:
    """Ids of all processes that a process has started, and they in turn."""
    try:
        lists = [file.read_text().split() for file in Path(f"/proc/{pid}/task").glob("*/children")]
    except (FileNotFoundError, ProcessLookupError):
        return set()
    children = {int(child) for ids in lists for child in ids}
    return children.union(*map(descendants, children))
