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
    only(look(NAME, launch=["--speculative-algorithm", "EAGLE3", "--max-running-requests", "8"]), "ok")


@pytest.mark.parametrize(("steps", "tokens", "becomes"), [(1, 16, 2), (4, 24, 5), (3, 3, 4)])
def test_draft_tokens_that_become_others(steps: int, tokens: int, becomes: int) -> None:
    only(look(NAME, launch=counts(steps, 1, tokens)), "error", f"{tokens} draft tokens {becomes}")


def test_counts_that_do_not_start() -> None:
    only(look(NAME, launch=counts(3, 1, 4)[:4] + counts(3, 1, 4)[6:]), "error", "go together", "num-draft-tokens")
    only(look(NAME, launch=counts(0, 1, 1)), "error", "below 1")


def test_what_changes_in_silence() -> None:
    only(look(NAME, launch=counts(3, 1, 4)[:6]), "warning", "becomes 48")
    only(look(NAME, launch=[*counts(3, 1, 4), "--enable-mixed-chunk"]), "warning", "turned off")
