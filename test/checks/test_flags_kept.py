import pytest
from cases import look, only

NAME = "flags_kept"


def counts(steps: int, topk: int, tokens: int) -> list[str]:
    return ["--speculative-num-steps", str(steps), "--speculative-eagle-topk", str(topk),
            "--speculative-num-draft-tokens", str(tokens), "--max-running-requests", "4"]  # fmt: skip


def test_healthy() -> None:
    only(look(NAME), "ok")
    only(look(NAME, launch=None), "skipped")
    only(look(NAME, launch=counts(3, 4, 16)), "ok")
    only(look(NAME, launch=counts(2, 4, 21)), "ok")
    only(look(NAME, launch=["--speculative-algorithm", "EAGLE3", "--max-running-requests", "8"]), "ok")


@pytest.mark.parametrize(("steps", "tokens", "becomes"), [(1, 16, 2), (4, 24, 5), (3, 3, 4)])
def test_draft_tokens_that_become_others(steps: int, tokens: int, becomes: int) -> None:
    only(look(NAME, launch=counts(steps, 1, tokens)), "error", f"{tokens} draft tokens {becomes}")


def test_counts_that_do_not_start() -> None:
    only(look(NAME, launch=counts(3, 1, 4)[:4] + counts(3, 1, 4)[6:]), "error", "go together", "num-draft-tokens")
    only(look(NAME, launch=counts(0, 1, 1)), "error", "below 1")


def test_a_tree_of_fewer_candidates_than_draft_tokens() -> None:
    only(look(NAME, launch=counts(1, 4, 16)), "error", "has 4 candidates", "num-draft-tokens 5")
    only(look(NAME, launch=counts(2, 4, 22)), "error", "has 20 candidates")


@pytest.mark.parametrize(("steps", "topk"), [(1, 4), (2, 4), (3, 2)])
def test_upstreams_own_tree(steps: int, topk: int) -> None:
    """SGLang takes as many as there are, and no more."""
    import torch
    from sglang.srt.speculative.eagle_utils import organize_draft_results

    scores = [torch.rand(1, 1 if step == 0 else topk, topk) for step in range(steps)]
    tokens = [score.flatten(1) for score in scores]
    parents = [torch.zeros(1, topk)] * steps
    most = topk + (steps - 1) * topk**2
    assert organize_draft_results(scores, tokens, parents, most + 1)[2].shape == (1, most)
    with pytest.raises(RuntimeError):
        organize_draft_results(scores, tokens, parents, most + 2)


def test_what_changes_in_silence() -> None:
    only(look(NAME, launch=counts(3, 1, 4)[:6]), "warning", "becomes 48")
    only(look(NAME, launch=[*counts(3, 1, 4), "--enable-mixed-chunk"]), "warning", "turned off")
