"""Requests that are not timed: they compile what is compiled late, and tell what upstream's client leaves out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from http.client import HTTPException
from typing import Any, NamedTuple

from draftwire.acceptance import Acceptance
from draftwire.bench.client import DYING, Load
from draftwire.server import Server, ServerError


class Pass(NamedTuple):
    """One untimed pass over the requests of a load. `outputs`: token ids in the order of the prompts.

    `tokens_in`: tokens of each prompt as the server counted them.
    """

    acceptance: Acceptance
    outputs: list[list[int]]
    tokens_in: list[int]


def warm(server: Server, prompts: Sequence[str], concurrency: int, timeout: float, tick: Callable[[], None]) -> None:
    """Every batch size from `concurrency` down to 1: as many requests at once, each a few tokens longer."""
    loads = [_body(prompts[i % len(prompts)], 8 + 8 * i, True, 0.0, 1.0) for i in range(concurrency)]
    _all(server, loads, concurrency, timeout, tick)
    server.flush_cache()


def probe(server: Server, prompts: Sequence[str], load: Load, timeout: float, tick: Callable[[], None]) -> Pass:
    """The requests of a load, once, asked as upstream's client asks: outputs, and acceptance by position."""
    bodies = [_body(p, load.tokens, load.fixed, load.temperature, load.top_p) for p in prompts[: load.requests]]
    answers = _all(server, bodies, load.concurrency, timeout, tick)
    server.flush_cache()
    asked = [answer["meta_info"]["prompt_tokens"] for answer in answers]
    return Pass(Acceptance.of(answers), [answer["output_ids"] for answer in answers], asked)


def _body(prompt: str, tokens: int, fixed: bool, temperature: float, top_p: float) -> dict[str, Any]:
    sampling = {"temperature": temperature, "max_new_tokens": tokens, "ignore_eos": fixed}
    return {"text": prompt, "sampling_params": sampling | ({"top_p": top_p} if top_p < 1 else {})}


def _all(
    server: Server, bodies: Sequence[dict[str, Any]], concurrency: int, timeout: float, tick: Callable[[], None]
) -> list[Any]:
    """Answers in order. Raises ServerError as soon as one is refused or the server ends."""
    pool = ThreadPoolExecutor(concurrency)
    try:
        asked: list[Future] = [pool.submit(server.post, "/generate", body, timeout) for body in bodies]
        pending = set(asked)
        while pending:
            done, pending = wait(pending, 0.25)
            server.require_alive()
            for one in done:
                _require_answer(one, server)
            tick()
        return [one.result() for one in asked]
    finally:
        # A thread that waits for a dead server ends with it.
        pool.shutdown(wait=False, cancel_futures=True)


def _require_answer(asked: Future, server: Server) -> None:
    try:
        asked.result()
    except (OSError, HTTPException) as failure:
        server.require_alive(DYING)
        raise ServerError(f"/generate gave no answer: {type(failure).__name__} {failure} (log: {server.log})") from None
