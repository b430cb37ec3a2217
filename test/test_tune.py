"""`draftwire tune` as a command: what it measures, prints, appends and refuses. No server: runs are made up."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from bench_rows import FORWARD, PLAIN, TOKEN, bench_row, speed
from fake_deployment import write_launch_file
from typer.testing import CliRunner

from draftwire import tune_command
from draftwire.bench.checked import compare
from draftwire.bench.refusals import BenchError, RatioRefused
from draftwire.bench.tuning import Study
from draftwire.cli import app


class Bench(SimpleNamespace):
    """A folder with a launch file and prompts; `asked`: the step counts of each run that tune wanted."""

    def tune(self, *flags: str):
        command = ["tune", str(self.folder / "serve.yaml"), "--prompts", str(self.folder / "prompts.jsonl")]
        return CliRunner().invoke(app, [*command, "--out", str(self.folder), *flags])

    @property
    def rows(self) -> list[dict]:
        results = self.folder / "results.jsonl"
        return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    write_launch_file(tmp_path, prompts=200, limit=32)
    (tmp_path / "target").mkdir()
    monkeypatch.chdir(tmp_path)
    made = Bench(folder=tmp_path, asked=[], options=[], slower=1.0)

    def run(file: Path, options, progress) -> dict:
        made.asked.append(list(options.steps))
        made.options.append(options)
        row = bench_row(*options.steps, concurrency=tuple(options.concurrency), config=str(file))
        if options.tree:
            topk, steps = options.tree
            chain = next(m for m in row["measurements"] if m["steps"] == steps)
            found = {"topk": topk, "draft_tokens": 12, "tok_s": 50.0, "accept_length": 9.9}
            found |= {"accept_positions": [1.0, 1.0, 0.9, 0.4, 0.2]}
            row["measurements"].append(chain | found)
        if len(made.asked) > 1:
            for m in row["measurements"]:
                m |= {key: m[key] * made.slower for key in ("tok_s", "tok_s_min", "tok_s_max")}
        return row

    monkeypatch.setattr(tune_command, "comparable_row", run)
    return made


def test_measures_two_counts_then_the_best_three(bench: Bench) -> None:
    done = bench.tune()
    assert done.exit_code == 0, done.stderr
    best = sorted(sorted(range(1, 6), key=lambda k: -speed(1, k))[:3])
    assert bench.asked == [[1, 5], best]
    row = json.loads(done.stdout.splitlines()[-1])
    assert bench.rows == [row] and row["benchmark"] == "tune"
    assert [(m["concurrency"], m["steps"]) for m in row["checked"]] == [(b, k) for b in (1, 8, 32) for k in best]
    assert all(m["within"] for m in row["checked"])
    assert "Fastest by prediction: at 1 at once 5 steps, 1.94x; at 8" in done.stdout
    assert "throughout, at 14 (interpolated within 1..32)" in done.stdout
    assert "would have to accept" in done.stdout and "a plain step 20.8 ms" in done.stdout


def test_what_was_measured_slower_is_said_to_be_outside(bench: Bench) -> None:
    bench.slower = 0.7
    done = bench.tune("--at", "32", "--check", "2")
    assert done.exit_code == 0 and bench.asked[1] == [1, 2]
    (checked,) = [row["checked"] for row in bench.rows]
    assert done.stdout.count("outside") == 3 and done.stdout.count("measured twice") == 3, "1 step is no prediction"
    assert not any(m["within"] for m in checked) and all(not m["off_rebased"] for m in checked if m["steps"] == 2)
    assert bench.rows[0]["at"] == 32


def test_the_time_left_and_the_batches_of_the_first_run(bench: Bench) -> None:
    """The second run is that of a baseline and three chains, each started twice; 6 and 12 tokens are verified."""
    assert bench.tune().exit_code == 0
    first, second = bench.options
    assert list(first.later).count("start") == 8 and list(first.batches) == [6, 12]
    assert not second.later and not second.batches
    assert (first.rounds, second.rounds) == (2, 2)


def test_the_row_that_the_guide_predicts_from() -> None:
    """README's command, on the file in the tree: the last row with two step counts, whatever came after it."""
    results = Path(__file__).parents[1] / "benchmarks" / "results.jsonl"
    done = CliRunner().invoke(app, ["tune", str(results), "--row"])
    assert done.exit_code == 0, done.stderr
    assert "of draftwire bench configs/tiny-cpu.yaml" in done.stdout and "the other counts predict" in done.stdout


def test_a_file_of_tunes_own_rows_and_none(bench: Bench) -> None:
    """The last row of bench goes first, whatever came after it."""
    assert bench.tune().exit_code == 0
    results = bench.folder / "results.jsonl"
    done = CliRunner().invoke(app, ["tune", str(results), "--row"])
    assert done.exit_code == 0 and "of draftwire bench a.yaml, 2026-11-30" in done.stdout, done.stderr
    made = bench_row(2, 3, command="the older"), bench_row(1, 4, command="the newer"), bench.rows[0]
    results.write_text("".join(json.dumps(row) + "\n" for row in made))
    assert "of the newer, " in CliRunner().invoke(app, ["tune", str(results), "--row"]).stdout
    done = CliRunner().invoke(app, ["tune", str(bench.folder / "none"), "--row"])
    assert done.exit_code == 2 and "found No such file or directory in" in done.stderr and "--steps 1,5" in done.stderr


def test_a_tree_in_the_launch_flags_is_refused_where_it_was_said(bench: Bench) -> None:
    done = bench.tune("--", "--speculative-eagle-topk", "2", "--speculative-num-draft-tokens", "8")
    assert done.exit_code == 2 and "found 2 in the command line" in done.stderr and not bench.asked


def test_launch_flags_and_the_concurrency_tuned_for(bench: Bench) -> None:
    done = bench.tune("--most", "2", "--at", "8", "--", "--dp-size", "2")
    assert done.exit_code == 0, done.stderr
    first, second = bench.options
    assert list(first.flags) == list(second.flags) == ["--dp-size", "2"] and list(first.batches) == [24, 48]


def test_a_tree_is_measured_beside_the_best_chain(bench: Bench) -> None:
    done = bench.tune("--tree")
    assert done.exit_code == 0, done.stderr
    (row,) = bench.rows
    steps = row["tree"]["steps"]
    assert bench.options[0].tree is None and bench.options[1].tree == (2, steps)
    assert bench.options[0].later.count("start") == 10
    assert row["tree"]["measured"]["tok_s"] == 50.0
    assert row["tree"]["measured"]["chain_tok_s"] == pytest.approx(speed(1, steps))
    assert "Measured, it accepts 4.50 and makes 50.0 (" in done.stdout
    assert {m["steps"] for m in row["checked"]} == set(bench.asked[1]) and len(row["checked"]) == 9


def test_what_a_tree_must_accept_is_of_its_own_cost() -> None:
    """The made-up server's batches cost 0.8 ms a token, so 12 tokens cost 4.8 ms more than the chain's 6."""
    found = Study(bench_row(1, 5), 5).tree()
    assert (found["steps"], found["draft_tokens"], found["at_least"]) == (5, 12, False)
    step = PLAIN + 2 * TOKEN * 6 + (FORWARD + 0.1) * 5 + 2
    assert found["must_accept"] == pytest.approx(found["chain"] * (step + 2 * TOKEN * 6) / step, rel=2e-3)


def test_what_was_accepted_is_compared_as_it_was_predicted() -> None:
    """1 + c_1 + ..., without the outputs' last steps, which are cut short."""
    row = bench_row(1, 5)
    for m in row["measurements"]:
        m["accept_length"] = m["accept_length"] and 9.9
    said = compare(Study(row, 5).findings()["predictions"], row["measurements"])
    assert {m["accept_length"] for m in said if m["steps"] == 1} == {1.75}


def test_a_tree_alone_is_refused(bench: Bench) -> None:
    done = bench.tune("--tree", "--check", "0")
    assert done.exit_code == 2 and "expected --check of at least 1 with --tree" in done.stderr and not bench.asked


def test_no_check_measures_once(bench: Bench) -> None:
    assert bench.tune("--check", "0", "--most", "3").exit_code == 0
    assert bench.asked == [[1, 3]] and bench.rows[0]["checked"] == []
    assert max(p["steps"] for p in bench.rows[0]["predictions"]) == 3


def test_a_row_is_read_and_none_is_added(bench: Bench) -> None:
    results = bench.folder / "results.jsonl"
    old = bench_row(1, 5, date="2026-01-01")
    alone = bench_row(3, date="2027-01-01")
    alone["measurements"] = alone["measurements"][1:2]
    results.write_text("".join(json.dumps(r) + "\n" for r in ({"benchmark": "x"}, old, bench_row(1, 2, 5), alone)))
    before = results.read_text()
    done = CliRunner().invoke(app, ["tune", str(results), "--row"])
    assert done.exit_code == 0 and bench.asked == [] and results.read_text() == before
    assert "1 at once, 2 steps: the other counts predict" in done.stdout
    assert json.loads(done.stdout.splitlines()[-1])["date"] == "2026-11-30", "the last row with a baseline"


@pytest.mark.parametrize(
    "flags, said",
    [
        (["--concurrency", "1,64"], "expected 1 to 32 requests at once"),
        (["--concurrency", "one"], "expected numbers such as 1,4"),
        (["--at", "4"], r"expected a concurrency of [1, 8, 32], found 4 in --at"),
        (["--requests", "999"], "expected 999 prompts, found 200"),
        (["--row"], "expected a JSON object with a benchmark's name"),
        (["--row", "--", "--dp-size", "2"], "expected no launch flags with --row"),
    ],
)
def test_refused_before_anything_is_measured(bench: Bench, flags: list[str], said: str) -> None:
    done = bench.tune(*flags)
    assert done.exit_code == 2 and bench.asked == []
    assert done.stderr.count("\n") == 1 and said in done.stderr, done.stderr


def test_a_tree_is_refused_before_anything_is_measured(bench: Bench) -> None:
    file = bench.folder / "serve.yaml"
    file.write_text(file.read_text().replace("topk: 1", "topk: 4"))
    done = bench.tune()
    assert done.exit_code == 2 and "expected speculative-eagle-topk 1, found 4 in" in done.stderr and not bench.asked


@pytest.mark.parametrize("error, status", [(RatioRefused("expected as long"), 1), (BenchError("a", "b", "c", "d"), 2)])
def test_a_run_that_fails_leaves_no_row(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(tune_command, "comparable_row", fail)
    done = bench.tune()
    assert done.exit_code == status and str(error) in done.stderr and done.stderr.count("\n") == 1
    assert bench.rows == []
