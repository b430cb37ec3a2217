"""A tree of drafts: topk 2 with 6 draft tokens gives the target's own greedy output."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import TOKENS

from draftwire.acceptance import Acceptance
from draftwire.pair import Pair

TREE = ("--speculative-num-steps", "3", "--speculative-eagle-topk", "2", "--speculative-num-draft-tokens", "6")


@pytest.mark.slow
def test_tree(serve: Callable, pair: Pair, prompts: list, plain_outputs: list) -> None:
    with serve(pair.flags(steps=TREE)) as server:
        answers = [server.generate(prompt, TOKENS) for prompt in prompts]
        assert [answer["output_ids"] for answer in answers] == plain_outputs
        assert Acceptance.of(answers).length > 2.6
        server.flush_cache()
        with ThreadPoolExecutor(4) as pool:
            batched = list(pool.map(lambda prompt: server.generate(prompt, TOKENS), prompts))
        assert [answer["output_ids"] for answer in batched] == plain_outputs
