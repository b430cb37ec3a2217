"""What tune says of a run: the best steps, where they stop paying, a tree's price, and measured beside predicted."""

import json

import pytest
from bench_rows import OUTPUT, PREFILL, TOKEN, measured, row, speed

from draftwire.bench.checked import compare, repeated
from draftwire.bench.refusals import BenchError
from draftwire.bench.sentences import best_line, fastest_line, repeated_line, say_rebased
from draftwire.bench.tuning import Study


@pytest.fixture
def study() -> Study:
    return Study(row(*measured(1, 5)), 5)


def test_the_best_is_the_fastest_server(study: Study) -> None:
    best = study.best(3)
    assert [p.steps for p in best] == sorted(range(1, 6), key=lambda k: -speed(1, k))[:3]
    assert best[0].gain == pytest.approx(speed(1, best[0].steps) / speed(1, 0))
    at_32 = Study(study.run, 5, 32).best()[0]
    assert at_32.steps == max(range(1, 6), key=lambda k: speed(32, k)) != best[0].steps


def test_where_it_stops_paying_is_between_a_server_that_gains_and_one_that_loses(study: Study) -> None:
    (stops, free), steps = study.stops_paying(), study.best()[0].steps
    assert speed(8, steps) > speed(8, 0) and speed(32, steps) < speed(32, 0)
    assert stops.pays and 8 < stops.concurrency < 32
    real = next(b for b in range(8, 33) if speed(b, steps) < speed(b, 0))
    assert stops.concurrency == pytest.approx(real, abs=3)
    assert speed(32, 1) > speed(32, 0) and free.concurrency is None and free.pays, "one step still pays at 32"


def test_a_tree_is_priced_by_the_baselines_batches() -> None:
    study = Study(row(*measured(1, 5, concurrency=(1, 8, 16))), 5)
    tree, best = study.tree(), study.best()[0]
    extra = TOKEN * 2 * (tree["draft_tokens"] - best.steps - 1)
    step = 1000 * OUTPUT / speed(1, best.steps) - PREFILL
    step *= best.accept_length / (OUTPUT - 1)
    assert not tree["at_least"] and tree["draft_tokens"] == 2 * (best.steps + 1)
    assert tree["must_accept"] == pytest.approx(best.accept_length * (1 + extra / step), abs=0.001)
    unknown = Study(row(*measured(1, 5, concurrency=(1, 8))), 5).tree()
    assert unknown["at_least"] and unknown["must_accept"] == unknown["chain"]


def test_what_the_other_counts_predict(study: Study) -> None:
    assert study.left_out() == [], "two counts have none between them"
    found = Study(row(*measured(1, 2, 3, 5)), 5).left_out()
    assert [(p.concurrency, p.steps) for p, _ in found] == [(1, 2), (1, 3), (8, 2), (8, 3), (32, 2), (32, 3)]
    law = [speed(p.concurrency, p.steps) for p, _ in found]
    assert [said for _, said in found] == pytest.approx(law, rel=1e-3)
    off = measured(1, 3, 5)
    for one in off:
        if one["steps"] == 3:
            one |= {key: one[key] * 0.6 for key in ("tok_s", "tok_s_min", "tok_s_max")}
    found = Study(row(*off), 5).left_out()
    assert [said for _, said in found] == pytest.approx([speed(b, 3) for b in (1, 8, 32)], rel=1e-3), "not its own"


def test_findings_are_json_and_hold_what_they_rest_on(study: Study) -> None:
    found = json.loads(json.dumps(study.findings(), allow_nan=False))
    assert len(found["measurements"]) == 9 and len(found["predictions"]) == 15
    assert [(p["concurrency"], p["steps"]) for p in found["best"]] == [
        (b, max(range(1, 6), key=lambda k: speed(b, k))) for b in (1, 8, 32)
    ]
    assert [found[f"stops_paying{end}"]["said"] for end in ("", "_at_best")] == list(map(str, study.stops_paying()))
    again = Study({**study.run, "measurements": found["measurements"]}, 5)
    assert again.findings() == study.findings(), "a row of tune can be read as a run"


def test_measured_beside_predicted(study: Study) -> None:
    predictions = study.findings()["predictions"]
    checked = measured(2, 3)
    for one in checked:
        if one["steps"] == 3:
            one |= {"tok_s": one["tok_s"] * 1.5, "tok_s_min": one["tok_s"] * 1.4, "tok_s_max": 999}
    found = {(e["concurrency"], e["steps"]): e for e in compare(predictions, checked)}
    assert set(found) == {(b, k) for b in (1, 8, 32) for k in (2, 3)}
    assert found[1, 2]["within"] and abs(found[1, 2]["off"]) < 0.001
    assert not found[1, 3]["within"] and found[1, 3]["off"] == pytest.approx(1 / 1.5 - 1, abs=0.001)


def test_servers_with_a_draft_that_changed_between_the_runs_are_rebased(study: Study) -> None:
    """All of them a fifth slower in the second run, the baseline not: the count that both measured says it."""
    first, checked = study.run["measurements"], measured(2, 3, 5)
    for one in checked:
        if one["steps"]:
            one |= {key: one[key] * 0.8 for key in ("tok_s", "tok_s_min", "tok_s_max")}
    predictions = study.findings()["predictions"]
    found = {(e["concurrency"], e["steps"]): e for e in compare(predictions, checked, first)}
    for b in (1, 8, 32):
        assert found[b, 5]["rebased"] is None and not found[b, 5]["within"], "measured by both: nothing is predicted"
        for k in (2, 3):
            one = found[b, k]
            assert one["off"] == pytest.approx(1 / 0.8 - 1, abs=0.001) and not one["within"]
            assert one["rebased_by"] == 5 and abs(one["off_rebased"]) < 0.001
            assert one["rebased"] == pytest.approx(one["tok_s"], rel=0.001)
    assert repeated(first, checked)[:2] == [
        {"concurrency": 1, "steps": None, "before": speed(1, 0), "after": speed(1, 0)},
        {"concurrency": 1, "steps": 5, "before": speed(1, 5), "after": pytest.approx(speed(1, 5) * 0.8)},
    ]


def test_where_no_count_is_in_both_runs_the_baseline_says_it(study: Study) -> None:
    checked = measured(2, 3)
    for one in checked:
        one |= {key: one[key] * 1.25 for key in ("tok_s", "tok_s_min", "tok_s_max")}
    found = compare(study.findings()["predictions"], checked, study.run["measurements"])
    for one in found:
        assert one["rebased_by"] == 0 and abs(one["off_rebased"]) < 0.001 and not one["within"]
    said = repeated_line({"checked": found, "repeated": repeated(study.run["measurements"], checked)})
    assert said.endswith("Rebased: the prediction, were it changed as the server without a draft.")
    near, far = found[0], found[0] | {"rebased": 2 * found[0]["tok_s"], "off_rebased": 1.0}
    assert say_rebased(near).endswith("0%") and say_rebased(far) == "+100.0% outside"
    assert say_rebased(near | {"rebased": None}) == ""


def test_nothing_is_said_to_be_rebased_where_all_was_measured_before() -> None:
    first = measured(1, 2)
    found = {"checked": compare(Study(row(*first), 2).findings()["predictions"], first, first)}
    said = repeated_line(found | {"repeated": repeated(first, first)})
    assert f"2 steps {speed(1, 2):,.1f} and {speed(1, 2):,.1f}" in said
    assert "Rebased" not in said and repeated_line(found) == ""


def test_the_fastest_that_was_measured(study: Study) -> None:
    """Of the chains checked, the server without a draft and a tree."""
    checked = measured(2, 3)
    found = study.findings() | {"checked": compare(study.findings()["predictions"], checked)}
    found["repeated"] = repeated(study.run["measurements"], checked)
    said = fastest_line(found)
    assert "at 1 at once 3 steps, 1." in said and f"at 32 at once no draft ({speed(32, 0):,.1f} tok/s)" in said
    found["tree"] |= {"measured": {"tok_s": 999.0, "speedup": 9.0}}
    assert "at 1 at once a tree of 2 with 5 steps, 9.00x (999.0 tok/s)" in fastest_line(found)


def test_a_best_that_loses_is_said_to_lose() -> None:
    slow = {"concurrency": 4, "steps": 3, "speedup": 0.79}
    said = best_line({"predictions": [slow, slow | {"steps": 5}], "best": [slow]})
    assert said == "Fastest by prediction: at 4 at once 3 steps, 0.79x, slower than without a draft."


def test_the_nearest_count_says_it() -> None:
    first, checked = measured(1, 5), measured(1, 2, 4, 5)
    for one in checked:
        if one["steps"] in (4, 5):
            one["tok_s"] *= 0.7
    found = compare(Study(row(*first), 5).findings()["predictions"], checked, first)
    assert {one["steps"]: one["rebased_by"] for one in found} == {1: None, 2: 1, 4: 5, 5: None}
    assert all(abs(one["off_rebased"]) < 0.001 for one in found if one["rebased_by"])


def test_the_best_of_all_that_was_predicted_may_not_be_the_best() -> None:
    """At 1 at once each further step pays; at 32 the fewest are best, and nobody is told to try more."""
    assert best_line(Study(row(*measured(1, 3)), 3).findings()).endswith(
        "3 steps is the most that was predicted: more may be faster at 1 at once (--most 6)."
    )
    assert "--most" not in best_line(Study(row(*measured(1, 3, concurrency=(32,))), 3).findings())
    best = {"concurrency": 1, "steps": 20, "speedup": 2.0}
    assert best_line({"predictions": [best], "best": [best]}).endswith("(--most 32).")
    assert "--most" not in best_line({"predictions": [best | {"steps": 32}], "best": [best | {"steps": 32}]})


def test_a_concurrency_that_was_not_measured(study: Study) -> None:
    with pytest.raises(BenchError, match=r"expected a concurrency of \[1, 8, 32\], found 4 in --at"):
        Study(study.run, 5, 4)
