"""Fixtures shared by the tests that start the real engine; each starts once and is not left idling beside another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from draftwire.engine import find_device, small_engine
from draftwire.pair import Pair, example_pair
from draftwire.server import Server

TOKENS = 48
# Acceptance length of the wired draft over the first 8 prompts, float32, 3 steps: 384 tokens in 150 verify steps.
SMALL_PAIR = 384 / 150


@pytest.fixture(scope="session")
def pair() -> Pair:
    return example_pair()


@pytest.fixture(scope="session")
def device() -> str:
    """ "cpu", or the name of the GPU on which the engine tests run where torch sees one."""
    return find_device()


@pytest.fixture(scope="session")
def serve(device: str, tmp_path_factory: pytest.TempPathFactory) -> Callable:
    """A context manager: `with serve(flags, ranks=1, env={}) as server`, ready to be asked."""

    @contextmanager
    def launch(flags: list[str], *, ranks: int = 1, env: dict[str, str] | None = None, **fields) -> Iterator[Server]:
        engine = small_engine(device, ranks)
        log = tmp_path_factory.mktemp("server") / "server.log"
        with Server([*flags, *engine.flags], log, env={**engine.env, **(env or {})}, **fields) as server:
            server.wait_ready(timeout=420 + 60 * ranks)
            yield server

    return launch


@pytest.fixture(scope="session")
def fails(device: str, tmp_path_factory: pytest.TempPathFactory) -> Callable:
    """Launch what must not come up: `fails(flags, ...)` gives (status, lines of the log, seconds, server)."""

    def launch(flags: list[str], *, ranks: int = 1, env: dict[str, str] | None = None, timeout: float = 60, **fields):
        import time

        engine = small_engine(device, ranks)
        log = tmp_path_factory.mktemp("refused") / "server.log"
        start = time.monotonic()
        with Server([*flags, *engine.flags], log, env={**engine.env, **(env or {})}, **fields) as server:
            status = server.wait(timeout)
            seconds = time.monotonic() - start
            while (alive := server.is_alive()) and time.monotonic() - start < seconds + 5:
                time.sleep(0.1)
        lines = [line for line in Path(log).read_text(errors="replace").splitlines() if line.strip()]
        return status, lines, seconds, alive

    return launch


@pytest.fixture(scope="session")
def prompts(pair: Pair) -> list[list[int]]:
    """16 prompts of 128 tokens, and one of a single token."""
    return [*pair.prompts[:16], pair.prompts[16][:1]]


@pytest.fixture(scope="session")
def plain_outputs(serve: Callable, pair: Pair, prompts: list[list[int]]) -> list[list[int]]:
    """Greedy continuations of `prompts` by the target alone, float32, one at a time."""
    with serve(pair.plain_flags()) as server:
        return [server.generate(prompt, TOKENS)["output_ids"] for prompt in prompts]
