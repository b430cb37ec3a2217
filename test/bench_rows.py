"""Rows as `draftwire bench` writes them, of servers that are made up. Times in ms."""

from typing import Any

PLAIN, FIXED, FORWARD, TOKEN, PREFILL = 20.0, 3.0, 1.5, 0.4, 60.0
OUTPUT = 200


def entry(arm: str, steps: int | None, tok_s: float, concurrency: int = 1, **fields: Any) -> dict[str, Any]:
    table = {"arm": arm, "steps": steps, "topk": steps and 1, "draft_tokens": steps and steps + 1, "length": "eos"}
    table |= {"concurrency": concurrency, "requests": 8, "repeats": 4, "tok_s": tok_s, "tok_s_min": tok_s * 0.95}
    table |= {"tok_s_max": tok_s * 1.05, "ttft_ms": PREFILL, "mean_output_tokens": OUTPUT, "accept_positions": None}
    return table | fields


def row(*measurements: dict[str, Any]) -> dict[str, Any]:
    return {"benchmark": "bench", "date": "2026-11-30", "config": "a.yaml", "measurements": list(measurements)}


SHARE = 0.75
PROVENANCE = {
    "benchmark": "bench", "command": "draftwire bench a.yaml", "date": "2026-11-30", "config": "configs/a.yaml",
    "config_sha256": "ab" * 32, "sglang": "0.5.23", "tp_size": 1, "draftwire": "0.1.0", "commit": "abc1234",
    "delivery": "overlay", "always_cut": False, "draft_sha256": "cd" * 32, "device": "cpu, 2 cores", "driver": None,
    "prompts": {"file": "prompts.json", "sha256": "ef" * 32, "count": 64},
}  # fmt: skip


def speed(concurrency: int, steps: int) -> float:
    """A server whose verified tokens cost 0.8 ms each, in any batch: it gains at 1 and loses at 32."""
    step = PLAIN + 2 * TOKEN * concurrency * (steps + 1) + ((FORWARD + 0.1 * concurrency) * steps + 2 if steps else 0)
    return 1000 * concurrency * OUTPUT / (PREFILL + (OUTPUT - 1) * step / sum(SHARE**j for j in range(steps + 1)))


def measured(*steps: int, concurrency: tuple[int, ...] = (1, 8, 32)) -> list[dict[str, Any]]:
    """That server's measurements without a draft and with each number of steps."""
    out = []
    for b in concurrency:
        times = {"tpot_ms": 9.0, "itl_p50_ms": 20.0, "itl_p99_ms": 90.0, "accept_length": None, "speedup": None}
        times |= {"step_cost_ratio": None, "outputs_equal": None, "refused": None}
        out.append(entry("baseline", None, speed(b, 0), b, **times))
        for k in steps:
            gain, positions = speed(b, k) / speed(b, 0), [SHARE**j for j in range(1, k + 1)]
            cost = {
                "speedup": gain,
                "speedup_min": gain * 0.9,
                "speedup_max": gain * 1.1,
                "step_cost_ratio": (1 + sum(positions)) / gain,
                "outputs_equal": 1.0,
            }
            found = {"accept_positions": positions, "accept_length": 1 + sum(positions)}
            out.append(entry("eagle3", k, speed(b, k), b, **(times | cost | found)))
    return out


def bench_row(*steps: int, concurrency: tuple[int, ...] = (1, 8, 32), **fields: Any) -> dict[str, Any]:
    return PROVENANCE | {"measurements": measured(*steps, concurrency=concurrency)} | fields
