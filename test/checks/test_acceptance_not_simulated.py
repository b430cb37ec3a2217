from cases import look, only

NAME = "acceptance_not_simulated"


def test_healthy() -> None:
    only(look(NAME), "ok")
    only(look(NAME, environment={"SGLANG_SIMULATE_ACC_LEN": "-1"}), "ok")


def test_failing() -> None:
    only(look(NAME, environment={"SGLANG_SIMULATE_ACC_LEN": "3"}), "error", "SGLANG_SIMULATE_ACC_LEN=3")
