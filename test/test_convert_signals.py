"""A signal that ends the converter while it writes leaves nothing behind, and ends it as signals do."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import small_drafts as small
from processes import interruptible

from draftwire.cli import one_line
from draftwire.interruption import SIGNALS, orderly_exit

# Writes the weights a byte at a time, until it is ended.
PROGRAM = """
import os, signal, sys, time
from pathlib import Path
from draftwire.convert import convert, writer

if sys.argv[3] == "ignored":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
stream = writer._stream

def slowly(piece, file):
    print("writing", flush=True)
    time.sleep(0.2)
    stream(piece, file)

writer._stream = slowly
convert(sys.argv[1], Path(sys.argv[2]))
print("done", flush=True)
"""


def interrupted(folder: Path, number: signal.Signals, how: str = "") -> tuple[int, str]:
    source = small.write(folder / "draft", small.speculators_config(), small.tensors())
    command = [sys.executable, "-c", PROGRAM, str(source), str(folder / "out"), how]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, preexec_fn=interruptible, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        assert any(path.name.endswith(".partial") for path in folder.iterdir())
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)
    return process.returncode, output


@pytest.mark.parametrize("number", [*SIGNALS, signal.SIGINT])
def test_nothing_is_left(tmp_path: Path, number: signal.Signals) -> None:
    status, output = interrupted(tmp_path, number)
    assert [path.name for path in tmp_path.iterdir()] == ["draft"]
    assert "done" not in output
    assert status == (128 + number if number in SIGNALS else -number)


def test_a_hangup_that_is_ignored_stays_so(tmp_path: Path) -> None:
    """As under nohup."""
    status, output = interrupted(tmp_path, signal.SIGHUP, "ignored")
    assert (status, output.splitlines()[-1]) == (0, "done")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["draft", "out"]


@pytest.fixture
def unhandled() -> Iterator[None]:
    """Signals as a command line that somebody types starts with."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_handlers_are_restored(unhandled: None) -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with pytest.raises(SystemExit) as ended, orderly_exit():
        assert [signal.getsignal(number) for number in SIGNALS] != before
        signal.raise_signal(signal.SIGTERM)
        time.sleep(1)
    assert ended.value.code == 128 + signal.SIGTERM
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_a_second_signal_does_not_end_the_clearing_up(unhandled: None) -> None:
    cleared = []
    with pytest.raises(SystemExit), orderly_exit():
        try:
            signal.raise_signal(signal.SIGHUP)
        finally:
            signal.raise_signal(signal.SIGTERM)
            cleared.append(True)
    assert cleared


def test_outside_of_the_main_thread_nothing_changes(tmp_path: Path) -> None:
    import threading

    from draftwire.convert import convert

    source = small.write(tmp_path / "draft", small.speculators_config(), small.tensors())
    before = [signal.getsignal(number) for number in SIGNALS]
    thread = threading.Thread(target=convert, args=(str(source), tmp_path / "out"))
    thread.start()
    thread.join()
    assert (tmp_path / "out" / "serve.yaml").is_file()
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_a_command_leaves_no_handler_behind(unhandled: None) -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with one_line():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before
