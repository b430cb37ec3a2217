"""Greedy output with the draft equals output without it, float32, in the ways that requests come."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import SMALL_PAIR, TOKENS

from draftwire.acceptance import Acceptance
from draftwire.pair import Pair
from draftwire.server import Server


@pytest.fixture(scope="module")
def server(serve: Callable, pair: Pair, plain_outputs: list) -> Iterator[Server]:
    """Wired, with prompts of 128 tokens prefilled in chunks of 64."""
    with serve([*pair.flags(), "--chunked-prefill-size", "64"]) as server:
        yield server


def output(server: Server, prompt: list[int], tokens: int = TOKENS) -> list[int]:
    return server.generate(prompt, tokens)["output_ids"]


def test_alone(server: Server, prompts: list, plain_outputs: list) -> None:
    server.flush_cache()
    answers = [server.generate(prompt, TOKENS) for prompt in prompts]
    assert [answer["output_ids"] for answer in answers] == plain_outputs
    assert Acceptance.of(answers[:8]).length == pytest.approx(SMALL_PAIR, abs=0.02)


def test_batched(server: Server, prompts: list, plain_outputs: list) -> None:
    server.flush_cache()
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda prompt: output(server, prompt), prompts)) == plain_outputs


def test_after_a_radix_cache_hit(server: Server, pair: Pair, plain_outputs: list) -> None:
    output(server, pair.prompts[0])
    answer = server.generate(pair.prompts[0], TOKENS)
    assert answer["meta_info"]["cached_tokens"] >= 64
    assert answer["output_ids"] == plain_outputs[0]


def test_prompts_were_prefilled_in_chunks(server: Server) -> None:
    lines = [line for line in server.log.read_text().splitlines() if "Prefill batch" in line]
    assert any("#new-token: 64" in line for line in lines)
    assert not any("#new-token: 128" in line for line in lines)


def test_after_an_abort_in_mid_stream(server: Server, pair: Pair, plain_outputs: list) -> None:
    server.flush_cache()
    body = {
        "input_ids": pair.prompts[1],
        "rid": "to-abort",
        "sampling_params": {"temperature": 0, "max_new_tokens": 2000, "ignore_eos": True},
    }
    answers: list = []
    request = threading.Thread(target=lambda: answers.append(server.post("/generate", body)))
    request.start()
    time.sleep(1.0)
    server.post("/abort_request", {"rid": "to-abort"})
    request.join(60)
    assert answers and answers[0]["meta_info"]["finish_reason"]["type"] == "abort"
    assert 0 < answers[0]["meta_info"]["completion_tokens"] < 2000
    assert output(server, pair.prompts[1]) == plain_outputs[1]


def test_after_update_weights_from_disk(server: Server, pair: Pair, plain_outputs: list) -> None:
    answer = server.post("/update_weights_from_disk", {"model_path": str(pair.target), "flush_cache": True})
    assert answer["success"], json.dumps(answer)
    assert output(server, pair.prompts[2]) == plain_outputs[2]
    answer = server.generate(pair.prompts[2], TOKENS)
    assert answer["meta_info"]["spec_verify_ct"] < TOKENS / 1.5
