import pytest
from cases import look, only

NAME = "tree_fits_backend"


TREE = ("--speculative-eagle-topk", "4")


def test_healthy() -> None:
    only(look(NAME), "ok", "No tree")
    only(look(NAME, launch=None), "skipped")
    only(look(NAME, launch=[*TREE, "--attention-backend", "fa3", "--page-size", "16"]), "ok")
    only(look(NAME, launch=TREE), "ok", "pages of 1")


@pytest.mark.parametrize(
    ("flags", "release", "level"),
    [
        (["--attention-backend", "flashmla"], "0.5.23", "error"),
        (["--attention-backend", "trtllm_mha"], "0.5.23", "error"),
        (["--decode-attention-backend", "trtllm_mha"], "0.5.23", "error"),
        (["--attention-backend", "triton", "--page-size", "16"], "0.5.13", "ok"),
        (["--attention-backend", "triton", "--page-size", "16"], "0.5.12", "error"),
        (["--page-size", "16"], "0.5.23", "skipped"),
        (["--decode-attention-backend", "flashmla"], "0.5.23", "error"),
        (["--attention-backend", "fa3", "--prefill-attention-backend", "cutlass_mla"], "0.5.23", "error"),
        (["--decode-attention-backend", "fa3", "--page-size", "16"], "0.5.23", "ok"),
    ],
)
def test_failing(flags: list[str], release: str, level: str) -> None:
    only(look(NAME, launch=[*TREE, *flags], release=release), level)


def test_spec_v2() -> None:
    environment = {"SGLANG_ENABLE_SPEC_V2": "1"}
    only(look(NAME, launch=TREE, release="0.5.10", environment=environment), "error", "SGLANG_ENABLE_SPEC_V2")
    only(look(NAME, launch=TREE, release="0.5.11", environment=environment), "ok")
