"""`refusal`: one line and status 1, from the launching process and from any of its workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from refused import refusal_of

from draftwire import refusal
from draftwire.refusal import REFUSALS, refuse

# Upstream's function, as far as the listener relies on it: ends every descendant of a process.
KILL = """
    import psutil

    def kill_process_tree(pid, include_parent=True):
        assert include_parent is False
        for child in psutil.Process(pid).children(recursive=True):
            child.kill()
"""


@pytest.fixture
def launch(tmp_path):
    """`launch(code)`: a launching process with a temporary folder of its own; gives (process, that folder)."""
    package = tmp_path / "path" / "sglang" / "srt"
    package.mkdir(parents=True)
    (package / "utils.py").write_text(textwrap.dedent(KILL))
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    started = []

    def run(code: str):
        paths = [str(tmp_path / "path"), os.environ.get("PYTHONPATH")]
        env = {**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        env.pop(REFUSALS, None)
        command = [sys.executable, "-c", textwrap.dedent(code)]
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process, scratch

    yield run
    for process in started:
        process.kill()
        process.communicate()


def ended(process, seconds: float = 20) -> tuple[int, str, list[str]]:
    """(status, standard output, the lines of standard error)."""
    output, errors = process.communicate(timeout=seconds)
    return process.returncode, output, errors.splitlines()


# In one process.


def test_a_refusal_is_a_system_exit_that_passes_except_exception():
    """Upstream's plugin loader logs what a plugin raises and serves on without it."""

    def loader():
        try:
            refuse("expected a, found b; do c")
        except Exception:
            return

    assert refusal_of(loader) == "expected a, found b; do c"


@pytest.mark.parametrize("message", ["one\ntwo", "one\r\n  two\n", "one\ttwo", ValueError("one\n two")])
def test_a_message_is_made_one_line(message):
    assert refusal_of(refuse, message) == "one two"


def test_it_is_the_last_line_with_status_1(launch):
    process, scratch = launch("from draftwire.refusal import refuse; print('out'); refuse('expected a, found b')")
    assert ended(process) == (1, "out\n", ["draftwire: expected a, found b"])
    assert not list(scratch.iterdir())


@pytest.fixture
def at_once():
    """Ends what waits for longer than five seconds."""

    def late(*_):
        pytest.fail("expected an end at once, found it waiting after 5 s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(5)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", ["absent", "nobody reads", "a folder", "a file"])
def test_a_worker_whom_nobody_hears_still_ends(kind, tmp_path, monkeypatch, at_once):
    path = tmp_path / "refusals"
    if kind == "nobody reads":
        os.mkfifo(path)
    if kind == "a folder":
        path.mkdir()
    if kind == "a file":
        path.write_text("another process's")
    monkeypatch.setenv(REFUSALS, str(path))
    monkeypatch.setattr(refusal, "_listener", None)
    assert refusal_of(refuse, "expected a, found b") == "expected a, found b"
    assert kind != "a file" or path.read_text() == "another process's"


# From a worker to the launching process.

WAITS = """
    import subprocess, sys, time
    from draftwire.refusal import end_with_workers
    end_with_workers()
    print("up", flush=True)
    worker = "from draftwire.refusal import refuse; refuse('expected a,\\\\nfound b')"
"""


def waits(rest: str) -> str:
    return textwrap.dedent(WAITS) + textwrap.dedent(rest)


def test_a_workers_line_ends_the_launching_process(launch):
    """It waits for minutes otherwise; every other worker goes too, and nothing is left on disk."""
    process, scratch = launch(
        waits("""
            silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            sleeper = subprocess.Popen(["sleep", "60"], **silent)
            subprocess.Popen([sys.executable, "-c", worker], **silent)
            print(sleeper.pid, flush=True)
            time.sleep(60)
        """)
    )
    start = time.monotonic()
    status, output, lines = ended(process)
    assert time.monotonic() - start < 15
    assert (status, lines) == (1, ["draftwire: expected a, found b"])
    assert not list(scratch.iterdir())
    sleeper = Path("/proc", output.split()[1], "stat")
    assert not sleeper.exists() or sleeper.read_text().split()[2] == "Z"


def test_many_workers_end_it_once(launch):
    process, scratch = launch(
        waits("""
            for _ in range(4):
                subprocess.Popen([sys.executable, "-c", worker])
            time.sleep(60)
        """)
    )
    status, _, lines = ended(process)
    assert status == 1
    assert lines[-1] == "draftwire: expected a, found b"
    assert not "".join(lines).replace(lines[-1], ""), "the workers' own lines, and nothing else"
    assert not list(scratch.iterdir())


def test_a_forked_worker_is_heard(launch):
    """It shares the launching process's memory, and must know itself for a worker."""
    process, scratch = launch(
        waits("""
            import os
            from draftwire.refusal import refuse
            if os.fork() == 0:
                refuse("expected fork")
            time.sleep(60)
        """)
    )
    status, _, lines = ended(process)
    assert (status, lines[-1]) == (1, "draftwire: expected fork")
    assert not list(scratch.iterdir())


def test_a_forked_worker_that_ends_well_leaves_the_pipe(launch):
    process, _ = launch(
        waits("""
            import os
            if os.fork() == 0:
                sys.exit(0)
            os.wait()
            subprocess.run([sys.executable, "-c", worker])
            time.sleep(60)
        """)
    )
    status, _, lines = ended(process)
    assert (status, lines[-1]) == (1, "draftwire: expected a, found b")


def test_a_worker_that_dies_before_it_speaks_does_not_deafen(launch):
    process, _ = launch(
        waits("""
            import os
            subprocess.run(["sh", "-c", ": > $DRAFTWIRE_REFUSALS"])
            subprocess.Popen([sys.executable, "-c", worker])
            time.sleep(60)
        """)
    )
    status, _, lines = ended(process)
    assert (status, lines[-1]) == (1, "draftwire: expected a, found b")


def test_the_launching_process_says_its_own_refusal_once(launch):
    process, scratch = launch(waits("from draftwire.refusal import refuse; refuse('expected mine')"))
    assert ended(process) == (1, "up\n", ["draftwire: expected mine"])
    assert not list(scratch.iterdir())


def test_a_launching_process_that_ends_well_says_and_leaves_nothing(launch):
    process, scratch = launch(waits("end_with_workers(); end_with_workers()"))
    assert ended(process) == (0, "up\n", [])
    assert not list(scratch.iterdir())


def test_listening_twice_is_listening_once(launch):
    process, scratch = launch(
        waits("""
            import threading
            end_with_workers()
            print(sum(thread.name == "draftwire-refusals" for thread in threading.enumerate()))
        """)
    )
    assert ended(process) == (0, "up\n1\n", [])
    assert not list(scratch.iterdir())


def test_a_launching_process_that_is_killed_leaves_nothing(launch):
    process, scratch = launch(waits("import os, signal; os.kill(os.getpid(), signal.SIGKILL)"))
    assert ended(process) == (-signal.SIGKILL, "up\n", [])
    assert not list(scratch.iterdir())
