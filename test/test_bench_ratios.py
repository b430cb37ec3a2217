"""What a benchmark computes from its requests, and which ratios it refuses."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
from bench_files import LOAD, deployment
from rich.console import Console

from draftwire.acceptance import Acceptance
from draftwire.bench.client import Run
from draftwire.bench.loops import distinct_share, looping_share
from draftwire.bench.measurement import measurement
from draftwire.bench.ratios import differences, reason_against, require_honest_acceptance
from draftwire.bench.refusals import BenchError
from draftwire.bench.schedule import Measured
from draftwire.bench.table import table_of
from draftwire.bench.warmup import Pass


def test_loops() -> None:
    assert distinct_share(list(range(20))) == 1.0
    assert distinct_share([1, 2, 3]) == 1.0
    assert distinct_share([7] * 23) == 1 / 20
    assert distinct_share([1, 2] * 13) == 2 / 23
    assert looping_share([list(range(20)), [7] * 23, [1, 2] * 13, list(range(9))]) == 0.5
    for period, share in ((17, 17 / 35), (18, 18 / 35)):
        circle = [i % period for i in range(38)]
        assert distinct_share(circle) == share
        assert looping_share([circle]) == (share < 0.5), "48% of windows of source are the least, loops are below"


def record(tok_s: float, **changes: Any) -> dict[str, Any]:
    names = ("median_ttft_ms", "median_tpot_ms", "median_itl_ms", "p99_itl_ms")
    return {"duration": 1.0, "output_throughput": tok_s, **dict(zip(names, (40.0, 20.0, 19.0, 30.0), strict=True)),
            "input_lens": [9, 8, 7, 6], "output_lens": [40] * 4, "generated_texts": list("abcd"), "errors": [""] * 4,
            **changes}  # fmt: skip


def measured(folder: Path, name: str, records: list[dict], tokens: list[int] | None = None, **info: Any) -> Measured:
    (arm,) = deployment(folder).arms([name], [])
    acceptance = Acceptance(160, 64, [20, 14, 10, 20]) if name == "eagle3" else Acceptance(160)
    outputs = [tokens or list(range(40))] * 4
    runs = [Run.of(LOAD, one) for one in records]
    seen = Pass(acceptance, outputs, info.pop("tokens_in", [9, 8, 7, 6]))
    return Measured(arm, {"sampling_defaults": "model", **info}, {LOAD: runs}, {LOAD: seen})


def test_a_measurement(tmp_path: Path) -> None:
    """Against a calculation by hand: 50 and 54 tok/s plain, 75 and 81 with 2.5 tokens accepted a step."""
    baseline = measured(tmp_path, "baseline", [record(50.0), record(54.0, median_ttft_ms=60.0)])
    drafted = measured(tmp_path, "eagle3", [record(81.0, generated_texts=list("abcx")), record(75.0)])
    plain = measurement(baseline, LOAD, baseline)
    assert (plain["tok_s"], plain["tok_s_min"], plain["tok_s_max"], plain["ttft_ms"]) == (52.0, 50.0, 54.0, 50.0)
    assert plain["speedup"] is plain["accept_length"] is plain["outputs_equal"] is None
    entry = measurement(drafted, LOAD, baseline)
    assert (entry["speedup"], entry["speedup_min"], entry["speedup_max"]) == (1.5, round(75 / 54, 4), round(81 / 50, 4))
    assert entry["accept_length"] == 2.5 and entry["step_cost_ratio"] == round(2.5 * 52 / 78, 4)
    assert entry["accept_positions"] == [round(44 / 64, 4), round(30 / 64, 4), round(20 / 64, 4)]
    assert entry["outputs_equal"] == 0.75 and entry["mean_output_tokens"] == 40.0 and entry["repeats"] == 2
    assert measurement(drafted, LOAD, None)["speedup"] is None
    out = Console(width=80, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    longest = {"tok_s": 12345.6, "concurrency": 16, "length": "fixed"}
    out.print(table_of([plain | longest | {"ttft_ms": 12345.0}, entry | longest]))
    text = out.export_text()
    assert "12.3k (0.1-0.1)" in text and "1.50 (1.39-1.62)" in text and "…" not in text


def test_chance_has_no_equal_outputs(tmp_path: Path) -> None:
    hot = LOAD._replace(temperature=1.0)
    arms = [measured(tmp_path, name, [record(50.0)]) for name in ("baseline", "eagle3")]
    for one in arms:
        one.runs = {hot: one.runs[LOAD]}
        one.passes = {hot: one.passes[LOAD]}
    assert measurement(arms[1], hot, arms[0])["outputs_equal"] is None


REASONS = [
    (record(75.0, errors=["", "", "", "Connection reset"]), {}, "expected no failed requests, found 1 in eagle3"),
    (record(75.0, generated_texts=["a", "b", "c", ""]), {}, "found 1 in eagle3 3/1/4: an answer without text"),
    (record(75.0, input_lens=[9, 8, 7], output_lens=[40] * 3, generated_texts=list("abc"), errors=[""] * 3), {},
     "expected no failed requests, found 1 in eagle3 3/1/4: answers are missing"),
    (record(75.0, input_lens=[9, 8, 7, 5]), {}, "expected the same requests, found other prompt lengths in eagle3"),
    (record(75.0), {"tokens_in": [9, 8, 7, 7]}, "expected the same requests, found other prompt lengths in eagle3"),
    (record(75.0), {"sampling_defaults": "openai"}, "found sampling_defaults model and openai in eagle3 3/1/4"),
    (record(75.0, output_lens=[40, 40, 40, 31]), {}, "as long within 5%, found 40.0 and 37.8 tokens in eagle3"),
    (record(75.0), {"tokens": [3] * 40}, "expected at most 10% of outputs to loop .* found 100% in eagle3"),
]  # fmt: skip


@pytest.mark.parametrize(("theirs", "fields", "said"), REASONS)
def test_no_ratio(tmp_path: Path, theirs: dict, fields: dict, said: str) -> None:
    baseline = measured(tmp_path, "baseline", [record(50.0)])
    drafted = measured(tmp_path, "eagle3", [theirs], **fields)
    assert re.search(said, reason_against(baseline, drafted, LOAD))
    entry = measurement(drafted, LOAD, baseline)
    assert entry["refused"] and entry["speedup"] is entry["step_cost_ratio"] is entry["outputs_equal"] is None


def test_a_drafts_longer_answers_have_no_ratio(tmp_path: Path) -> None:
    baseline = measured(tmp_path, "baseline", [record(50.0, output_lens=[36] * 4)])
    drafted = measured(tmp_path, "eagle3", [record(75.0)])
    said = "expected outputs as long within 5%, found 36.0 and 40.0 tokens in eagle3 3/1/4"
    assert reason_against(baseline, drafted, LOAD) == said


@pytest.mark.parametrize("name", ["baseline", "eagle3"])
def test_some_outputs_that_loop_are_enough(tmp_path: Path, name: str) -> None:
    """A quarter in either arm; a tenth is borne."""
    arms = {each: measured(tmp_path, each, [record(50.0)]) for each in ("baseline", "eagle3")}
    whole, loop = list(range(40)), [3] * 40
    for outputs, refused in (([loop, whole, whole, whole], True), ([loop, *[whole] * 9], False)):
        arms[name].passes[LOAD] = arms[name].passes[LOAD]._replace(outputs=outputs)
        said = reason_against(arms["baseline"], arms["eagle3"], LOAD)
        assert bool(said) is refused and ("found 25% in " + name in said) is refused, said


def test_outputs_are_compared_with_the_baselines_first_run(tmp_path: Path) -> None:
    """Not with the arm's own, nor with a later run."""
    baseline = measured(tmp_path, "baseline", [record(50.0), record(50.0, generated_texts=list("axyz"))])
    drafted = measured(tmp_path, "eagle3", [record(75.0, generated_texts=list(t)) for t in ("axyz", "abyz")])
    assert measurement(drafted, LOAD, baseline)["outputs_equal"] == 0.25


@pytest.mark.parametrize("key", ["decode_cuda_graph_bs", "max_total_num_tokens", "disable_overlap_schedule"])
def test_what_differs_beside_the_draft_is_named(tmp_path: Path, key: str) -> None:
    baseline = measured(tmp_path, "baseline", [record(50.0)], **{key: 1})
    assert differences(baseline, measured(tmp_path, "eagle3", [record(75.0)], **{key: 2})) == {key: [1, 2]}
    assert differences(baseline, measured(tmp_path, "eagle3", [record(75.0)], **{key: 1})) == {}


def test_a_ratio_within_5_percent(tmp_path: Path) -> None:
    baseline = measured(tmp_path, "baseline", [record(50.0)], max_running_requests=8)
    drafted = measured(tmp_path, "eagle3", [record(75.0, output_lens=[40, 40, 40, 33])], max_running_requests=4)
    assert reason_against(baseline, drafted, LOAD) == ""
    assert differences(baseline, drafted) == {"max_running_requests": [8, 4]}


def test_made_up_acceptance() -> None:
    require_honest_acceptance({"SGLANG_PORT": "1"})
    with pytest.raises(BenchError, match="SGLANG_SIMULATE_ACC_METHOD unset, found multinomial in the environment"):
        require_honest_acceptance({"SGLANG_SIMULATE_ACC_METHOD": "multinomial"})
