from cases import look, only

NAME = "acceptance_not_simulated"


def test_healthy() -> None:
    only(look(NAME), "ok")
    for value in ("", "-1", "0", "-0.5"):
        only(look(NAME, environment={"SGLANG_SIMULATE_ACC_LEN": value}), "ok")


def test_failing() -> None:
    for value in ("3", "0.9", "+2", "1e0", "three"):
        only(look(NAME, environment={"SGLANG_SIMULATE_ACC_LEN": value}), "error", f"SGLANG_SIMULATE_ACC_LEN={value}")
