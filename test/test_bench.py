"""What a benchmark derives, refuses, computes and keeps; nothing is served here."""

import json
import os
import re
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import yaml
from bench_rows import bench_row
from rich.console import Console
from typer.testing import CliRunner
from upstream import download, given, installed

from draftwire.acceptance import Acceptance
from draftwire.bench.client import Load, Run
from draftwire.bench.deployment import Deployment, tree_tokens
from draftwire.bench.ledger import append, require_writable
from draftwire.bench.loops import distinct_share, looping_share
from draftwire.bench.measurement import measurement
from draftwire.bench.panels import setting
from draftwire.bench.prompts import default_prompts, read_prompts
from draftwire.bench.provenance import hash_config, hash_weights
from draftwire.bench.ratios import differences, reason_against, require_honest_acceptance
from draftwire.bench.refusals import BenchError
from draftwire.bench.run import Options, prepare
from draftwire.bench.schedule import Measured, Plan
from draftwire.bench.stages import Stages
from draftwire.bench.table import table_of
from draftwire.bench.warmup import Pass
from draftwire.cli import app
from draftwire.headers import DraftError
from draftwire.pair import Pair, example_pair

ROOT = Path(__file__).resolve().parents[1]
DRAFT = {"speculative-algorithm": "EAGLE3", "speculative-draft-model-path": "draft", "speculative-num-steps": 3,
         "speculative-eagle-topk": 1, "speculative-num-draft-tokens": 4}  # fmt: skip
PLAIN = {"model-path": "org/target", "tp-size": 2, "max-running-requests": 8, "cuda-graph-max-bs-decode": 8}
LOAD = Load(requests=4, concurrency=2, tokens=40, fixed=False)


def deployment(folder: Path, **changes: Any) -> Deployment:
    table = {**PLAIN, **DRAFT, **changes}
    file = folder / "serve.yaml"
    file.write_text(yaml.safe_dump({key: value for key, value in table.items() if value is not None}))
    return Deployment(file)


def test_the_baseline_is_the_file_without_speculation(tmp_path: Path) -> None:
    (baseline, eagle3) = deployment(tmp_path).arms(["eagle3", "baseline"], [])
    assert (baseline.name, baseline.label, baseline.steps) == ("baseline", "baseline", None)
    assert baseline.table == PLAIN
    assert eagle3.table == PLAIN | DRAFT and eagle3.label == "eagle3 3/1/4"
    assert yaml.safe_load(eagle3.write(tmp_path).read_text()) == PLAIN | DRAFT


@pytest.mark.parametrize(
    ("topk", "said", "steps", "tokens"), [(1, 4, 1, 2), (1, 4, 5, 6), (4, 16, 1, 5), (4, 16, 3, 16), (2, 99, 3, 11)]
)
def test_steps_are_arms_of_their_own(tmp_path: Path, topk: int, said: int, steps: int, tokens: int) -> None:
    """A chain verifies steps + 1 tokens, a tree no more than it has: 1 + topk + (steps - 1) topk^2."""
    changes = {"speculative-eagle-topk": topk, "speculative-num-draft-tokens": said}
    (arm,) = deployment(tmp_path, **changes).arms(["eagle3"], [steps, steps])
    assert (arm.steps, arm.topk, arm.draft_tokens) == (steps, topk, tokens)
    assert arm.table["speculative-num-steps"] == steps and arm.table["speculative-num-draft-tokens"] == tokens


def test_the_built_in_head(tmp_path: Path, pair: Pair) -> None:
    """The same file by DeepSeek's own MTP layer; refused where the target has none, as the example's."""
    target = tmp_path / "target"
    target.mkdir()
    (target / "config.json").write_text(json.dumps({"text_config": {"num_nextn_predict_layers": 1}}))
    changes = {"model-path": str(target), "speculative-draft-window-size": 512}
    changes["speculative-draft-attention-backend"] = "flashinfer"  # For a Llama-type draft's heads.
    (arm,) = deployment(tmp_path, **changes).arms(["mtp"], [])
    kept = {key: DRAFT[key] for key in list(DRAFT)[2:]}
    assert arm.table == PLAIN | kept | {"model-path": str(target), "speculative-algorithm": "EAGLE"}
    with pytest.raises(BenchError, match=r"built-in MTP head.*found 0 in .*config\.json; leave mtp out of --arms"):
        deployment(tmp_path, **{"model-path": str(pair.target)}).arms(["mtp"], [])


@pytest.mark.parametrize("text", ["[1]", "{bad", ""])
def test_the_built_in_head_of_a_broken_target(tmp_path: Path, text: str) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "config.json").write_text(text)
    with pytest.raises(DraftError, match=r"expected (JSON|a JSON object); found \w+ in .*/config\.json;"):
        deployment(tmp_path, **{"model-path": str(tmp_path / "target")}).arms(["mtp"], [])


def test_a_tree_beside_the_chains(tmp_path: Path) -> None:
    *chains, tree = deployment(tmp_path).arms(["eagle3"], [1, 5], tree=(2, 5))
    assert [arm.label for arm in chains] == ["eagle3 1/1/2", "eagle3 5/1/6"]
    assert tree_tokens(2, 1) == 3 and tree_tokens(2, 2) == 6 and tree_tokens(4, 1) == 5, "no more than its nodes"
    assert tree.label == "eagle3 5/2/12" and tree.table["speculative-eagle-topk"] == 2


def test_launch_flags_beside_the_file(tmp_path: Path) -> None:
    """They go to every server as they are and before the file; those of speculation to the servers that speculate."""
    file = deployment(tmp_path).file
    said = ["--dp", "8", "--speculative-num-steps=2", "--enable-dp-attention", "--speculative-num-draft-tokens", "3",
            "--max-running-requests", "64"]  # fmt: skip
    mine = Deployment(file, said)
    assert mine.beside == ("--dp", "8", "--enable-dp-attention", "--max-running-requests", "64")
    assert (mine.limit, mine.replicas, mine.ranks) == (64, 8, 2)
    baseline, drafted = mine.arms(["baseline", "eagle3"], [])
    in_file = {key: value for key, value in PLAIN.items() if key != "max-running-requests"}
    assert baseline.table == in_file
    assert drafted.table == in_file | DRAFT | {"speculative-num-steps": "2", "speculative-num-draft-tokens": 3}
    assert drafted.label == "eagle3 2/1/3"
    for flags in (["--port", "1"], ["--host=0.0.0.0"]):
        with pytest.raises(BenchError, match=r"expected no --\w+ among the launch flags"):
            Deployment(file, flags)


@pytest.mark.parametrize(("change", "said"), [
    ({"max-running-requests": None}, r"expected max-running-requests, found none in .*speculation alone would"),
    ({"cuda-graph-max-bs-decode": None}, r"expected cuda-graph-bs-decode or .* speculation changes the graphs"),
    ({"speculative-algorithm": None}, "expected speculative-algorithm, found none"),
    ({"speculative-algorithm": "EAGLE"}, "expected speculative-algorithm EAGLE3, found EAGLE in .*serve.yaml;"),
    ({"speculative-eagle-topk": None}, "expected speculative-eagle-topk, found none"),
    ({"max-running-requests": 0}, "expected max-running-requests of at least 1, found 0 in .*serve.yaml; correct it"),
    ({"max-running-requests": -8}, "expected max-running-requests of at least 1, found -8 in .*serve.yaml;"),
    ({"speculative-num-steps": 0}, "expected speculative-num-steps of at least 1, found 0 in .*serve.yaml; correct it"),
    ({"speculative-num-steps": -1}, "expected speculative-num-steps of at least 1, found -1 in .*serve.yaml;"),
    ({"speculative-eagle-topk": 0}, "expected speculative-eagle-topk of at least 1, found 0 in .*serve.yaml;"),
    ({"speculative-num-draft-tokens": 0}, "expected speculative-num-draft-tokens of at least 2, found 0 in .*yaml;"),
    ({"speculative-num-draft-tokens": 1}, "expected speculative-num-draft-tokens of at least 2, found 1 in .*yaml;"),
])  # fmt: skip
@pytest.mark.parametrize("steps", [[], [1, 5]])
def test_a_file_that_cannot_be_compared(tmp_path: Path, change: dict, said: str, steps: list[int]) -> None:
    """Also where other steps than the file's are asked for."""
    with pytest.raises(BenchError, match=said):
        deployment(tmp_path, **change).arms(["baseline", "eagle3"], steps)


@pytest.mark.parametrize(("flag", "value", "said"), [
    ("speculative-algorithm", "EAGLE", "expected speculative-algorithm EAGLE3, found EAGLE"),
    ("max-running-requests", "0", "expected max-running-requests of at least 1, found 0"),
    ("speculative-num-steps", "0", "expected speculative-num-steps of at least 1, found 0"),
    ("model-path", "./none", r"expected model-path of a directory, or a hub id such as org/name, found \./none"),
])  # fmt: skip
@pytest.mark.parametrize("command", ["bench", "tune"])
def test_a_flag_is_named_where_it_was_said(tmp_path: Path, command: str, flag: str, value: str, said: str) -> None:
    """On the command line; and no remedy is an option that only one of the commands has."""
    file = deployment(tmp_path).file
    (tmp_path / "prompts").write_text(json.dumps([f"prompt {i}" for i in range(40)]))
    flags = ["--prompts", str(tmp_path / "prompts"), "--out", str(tmp_path / "out"), "--", f"--{flag}", value]
    ended = CliRunner().invoke(app, [command, str(file), *flags])
    assert ended.exit_code == 2 and ended.stderr.count("\n") == 1
    assert re.search(f"{said} in the command line; correct it", ended.stderr) and "--arms" not in ended.stderr


TARGETS = ["./target", "../org/target", "/none/target", "~/target", "target", "a/b/c", "org/target/", "folder/target",
           "build/tiny-wide-target", "two words/target", "file"]  # fmt: skip


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_that_is_not_there(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its prompts are looked for, and before a server is started; with a remedy for the relative ones."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    file = deployment(tmp_path).file
    file.write_text(file.read_text().replace("model-path: org/target", f"model-path: {name}"))
    said = f"expected model-path of a directory, or a hub id such as org/name, found {name} in {file}; "
    with pytest.raises(BenchError) as refused:
        prepare(file, Options(out=tmp_path))
    assert str(refused.value).startswith(said)
    remedy = str(refused.value).removeprefix(said)
    where = f"relative paths start at {tmp_path}, and those of draftwire's configs at the root of its checkout"
    assert remedy == "correct the path" if name.startswith("/") else remedy.endswith(where)


def test_targets_that_may_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hub ids, for which SGLang asks the network; directories however they are named; URLs of SGLang's connectors."""
    monkeypatch.chdir(tmp_path)
    for here in ("target", "build/target", "a/b/c"):
        (tmp_path / here).mkdir(parents=True)
    for name in ("moonshotai/Kimi-K2.5", "org/a_b-c.1", "target", "./target", "build/target", "a/b/c", "a/../target/",
                 str(tmp_path), "s3://bucket/a/b"):  # fmt: skip
        assert deployment(tmp_path, **{"model-path": name}).target == name


@pytest.mark.parametrize("name", ["tiny-cpu", "tiny-gpu", "tiny-tp2"])
@pytest.mark.parametrize("prompts", [[], ["--prompts", str(ROOT / "examples/tiny-deepseek-v3/bench.json")]])
def test_a_config_of_ours_elsewhere(
    tmp_path: Path, name: str, prompts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In no checkout: what is missing is the target, whatever follows from it."""
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(app, ["bench", str(ROOT / f"configs/{name}.yaml"), "--out", "out", *prompts])
    assert ended.exit_code == 2 and ended.stderr.count("\n") == 1
    assert "expected model-path of a directory" in ended.stderr and f"start at {tmp_path}, " in ended.stderr


def test_graphs_may_be_off(tmp_path: Path) -> None:
    for off in ({"disable-cuda-graph": True}, {"cuda-graph-backend-decode": "disabled"}):
        assert deployment(tmp_path, **{"cuda-graph-max-bs-decode": None}, **off).limit == 8


def test_the_cpu_engine_gets_its_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    for name in ("SGLANG_USE_CPU_ENGINE", "SGLANG_CPU_OMP_THREADS_BIND"):
        monkeypatch.delenv(name, raising=False)
    said = deployment(tmp_path, device="cpu").environment()
    assert said["SGLANG_USE_CPU_ENGINE"] == "1" and said["SGLANG_CPU_OMP_THREADS_BIND"] == "0|1"
    assert "OMP_NUM_THREADS" not in said
    assert deployment(tmp_path).environment() == {}


def test_every_config_of_ours_can_be_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the root of a checkout, the GPU's target built."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "build" / "tiny-wide-target").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    for file in (ROOT / "configs").glob("*.yaml"):
        assert Deployment(file).arms(["baseline", "eagle3"], [1, 3])[0].name == "baseline", file


def test_the_order(tmp_path: Path) -> None:
    arms = deployment(tmp_path).arms(["baseline", "eagle3"], [1, 3])
    plan = Plan(arms, [LOAD], [LOAD._replace(fixed=True)], 1, 60)
    visits = [(arm.label, first) for arm, first in plan.visits()]
    order = ["baseline", "eagle3 1/1/2", "eagle3 3/1/4", "eagle3 3/1/4", "eagle3 1/1/2", "baseline"]
    assert visits == list(zip(order, [True] * 3 + [False] * 3, strict=True))
    stages = list(plan.stages())
    assert [text.split(":")[0] for kind, text in stages if kind == "start"] == order
    assert [text.split(":")[0] for kind, text in stages if kind == "run" and "fixed" not in text] == order
    assert [text.split(":")[0] for _, text in stages if "fixed" in text] == order[3:]


def test_batches_of_the_baseline_alone(tmp_path: Path) -> None:
    wide = LOAD._replace(concurrency=6)
    plan = Plan(deployment(tmp_path).arms(["baseline", "eagle3"], []), [LOAD], [], 1, 60, batches=[wide])
    assert [plan.of(arm) for arm in plan.arms] == [[LOAD, wide], [LOAD]]
    assert [text.split(":")[0] for _, text in plan.stages() if "6 at once" in text] == ["baseline"] * 3


def test_prompts(tmp_path: Path) -> None:
    file = tmp_path / "prompts"
    messages = [{"role": "user", "content": "Hi"}]
    for content, items in (
        ("[[1, 2], [3, 4]]", [[1, 2], [3, 4]]),
        ('{"prompt": "one"}\n\n{"text": "two"}\n', ["one", "two"]),
        (json.dumps({"messages": messages}), [messages]),
        ('{"max_tokens": 64, "prompts": [{"input_ids": [5, 6]}, "three"]}', [[5, 6], "three"]),
    ):
        file.write_text(content)
        assert read_prompts(file).items == items
    assert read_prompts(file).max_tokens == 64
    with pytest.raises(BenchError, match="expected 3 prompts, found 2"):
        read_prompts(file).first(3)
    file.write_text('{"prompt": "a\u2028separator"}\n{"prompt": "second"}\n', encoding="utf-8")
    assert read_prompts(file).items == ["a\u2028separator", "second"]
    os.mkfifo(tmp_path / "pipe")
    for odd in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(BenchError, match="expected a regular file of prompts, found a pipe or device in"):
            read_prompts(odd)
    for content in ("", "[]", "[" * 200_000, "[[1, -2]]", "[1, 2]",
                    '{"prompt": ""}', "{", '{"max_tokens": 1, "prompts": ["aa"]}',
                    '["same", "same"]', "\x80"):  # fmt: skip
        file.write_bytes(content.encode("latin-1"))
        with pytest.raises(BenchError):
            read_prompts(file)


@pytest.mark.parametrize(("lines", "said"), [
    (['{"prompt": "one"}', "", '{"prompt": "two",}'], r"line 3 column \d+"),
    (['{"prompt": "one"}', '{"prompt": "two"}', '{"prompt"'], "line 3 column 10"),
    (["", '{"prompt" "one"}', '{"prompt": "two"}'], "line 2 column 11"),
    (["[", ' "one",', ' "two"', ' "three"', "]"], "line 4 column 2"),
    (['{"prompt": "one"}', '{"prompt": ' + "9" * 5000 + "}"], "line 2"),
])  # fmt: skip
def test_the_line_of_broken_prompts(tmp_path: Path, lines: list[str], said: str) -> None:
    """The file's, of JSONL as of one JSON value over lines."""
    file = tmp_path / "prompts"
    file.write_text("\n".join(lines))
    with pytest.raises(BenchError, match=rf"^expected JSONL of .*, found .*: {said}.* in {file}; correct it$"):
        read_prompts(file)


def test_a_report_without_rows(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "results.jsonl").write_bytes(b"\xff")
    for out, said in (
        ("nope", r"expected rows of draftwire bench, found No such file or directory in .*/nope/results\.jsonl; name"),
        ("file", r"expected rows of draftwire bench, found Not a directory in .*/file/results\.jsonl; name"),
        (".", r"expected rows in UTF-8, found other bytes in .*/results\.jsonl; mend it"),
    ):
        ended = CliRunner().invoke(app, ["report", "--out", str(tmp_path / out)])
        assert ended.exit_code == 2 and re.fullmatch(rf"draftwire: {said}.*\n", ended.stderr), ended.stderr


def test_the_examples_prompts_are_cuts_of_its_others(pair: Pair) -> None:
    """Each the beginning of one of prompts.json, so that no two share a prefix in the cache."""
    found = read_prompts(default_prompts(str(pair.target)))
    cut_of = [[i for i, whole in enumerate(pair.prompts) if whole[: len(cut)] == cut] for cut in found.items]
    assert all(len(i) == 1 for i in cut_of) and len({i[0] for i in cut_of}) == len(found.items) == 24
    assert found.max_tokens == 64


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


def test_time_left() -> None:
    plan = [("start", "a"), ("run", "b"), ("start", "c"), ("run", "d")]
    stages = Stages(plan, {"start": 40.0, "run": 10.0}, Console(file=open(os.devnull, "w")))  # noqa: SIM115
    assert stages.left() == pytest.approx(100.0, abs=0.1)
    with stages.next():
        pass
    assert stages.seconds["start"] < 1 and stages.left() == pytest.approx(20.0, abs=1.1)
    assert stages.line().startswith("[2/4] b, about 2")
    stages.skip()
    assert stages.line().startswith("[3/4] c, about 1")


def test_time_left_of_a_second_run() -> None:
    quiet = Console(file=open(os.devnull, "w"))  # noqa: SIM115
    stages = Stages([("start", "a")], {"start": 40.0, "run": 10.0}, quiet, later=["start", "run", "run"])
    assert stages.left() == pytest.approx(100.0, abs=0.1)


@pytest.mark.parametrize("flag", ["--temperature", "--top-p"])
@pytest.mark.parametrize("value", ["nan", "inf", "-1"])
def test_sampling_that_is_no_number(tmp_path: Path, flag: str, value: str) -> None:
    ended = CliRunner().invoke(app, ["bench", str(ROOT / "configs/tiny-cpu.yaml"), "--out", str(tmp_path), flag, value])
    assert ended.exit_code == 2 and not list(tmp_path.iterdir())


def test_rows_are_added(tmp_path: Path) -> None:
    file = tmp_path / "new" / "results.jsonl"
    require_writable(file)
    assert not file.exists()
    for number in (1, 2):
        append(file, {"number": number})
    assert [json.loads(line)["number"] for line in file.read_text().splitlines()] == [1, 2]
    synced: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", synced.append)
        append(file, {"number": 3})
    assert len(synced) == 1, "a row that is said to be kept is on the disk"
    (tmp_path / "folder").mkdir()
    with pytest.raises(BenchError, match="expected to add a row, found Is a directory"):
        require_writable(tmp_path / "folder")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux")
def test_a_full_disk() -> None:
    with pytest.raises(BenchError, match="expected to add a row, found No space left on device in /dev/full"):
        append(Path("/dev/full"), {"number": 1})


def test_the_drafts_hash(tmp_path: Path) -> None:
    """As `cat *.safetensors | sha256sum` prints."""
    for name in ("b", "a"):
        (tmp_path / f"{name}.safetensors").write_bytes(name.encode() * 3_000_000)
    said = subprocess.run(f"cat {tmp_path}/*.safetensors | sha256sum", shell=True, capture_output=True, text=True)
    assert hash_weights(str(tmp_path)) == said.stdout.split()[0]


def test_the_hash_of_a_draft_without_safetensors(tmp_path: Path) -> None:
    """Of the weights that are served, whatever a trainer left beside them; None where there are none."""
    for name, weights in (("a", b"one"), ("b", b"two")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pytorch_model.bin").write_bytes(weights)
        (tmp_path / name / "training_args.bin").write_bytes(name.encode())
        assert hash_weights(str(tmp_path / name)) == sha256(weights).hexdigest()
    (tmp_path / "a" / "other.pt").write_bytes(b"three")
    assert hash_weights(str(tmp_path / "a")) == sha256(b"one").hexdigest()
    (tmp_path / "a" / "pytorch_model.bin").unlink()
    assert hash_weights(str(tmp_path / "a")) == sha256(b"three").hexdigest()
    (tmp_path / "a" / "model.safetensors").write_bytes(b"four")
    assert hash_weights(str(tmp_path / "a")) == sha256(b"four").hexdigest()
    (tmp_path / "b" / "pytorch_model.bin").unlink()
    assert hash_weights(str(tmp_path / "b")) is None


def test_defaults(tmp_path: Path, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1, 8 and 32 at once those that the file serves; 4 requests a user, at least 8; the prompt file's tokens."""
    monkeypatch.chdir(tmp_path)
    file = deployment(tmp_path, **{"model-path": str(pair.target)}).file
    _, _, plan = prepare(file, Options(out=tmp_path))
    assert [(load.concurrency, load.requests, load.tokens) for load in plan.loads] == [(1, 8, 64), (8, 24, 64)]
    assert [load.fixed for load in plan.fixed] == [True, True]
    wide = deployment(tmp_path, **{"model-path": str(pair.target), "max-running-requests": 32}).file
    assert [load.concurrency for load in prepare(wide, Options(out=tmp_path))[2].loads] == [1, 8], "of 24 prompts"
    said = r"expected a prompt for each of 32 requests at once, found 24 in .*bench\.json; add some, or"
    with pytest.raises(BenchError, match=said):
        prepare(wide, Options(out=tmp_path, concurrency=[32]))
    assert prepare(wide, Options(out=tmp_path, concurrency=[4], requests=2))[2].loads[0].requests == 4
    batches = prepare(wide, Options(out=tmp_path, concurrency=[1, 8], batches=[8, 12, 24, 25, 48]))[2].batches
    assert [(load.concurrency, load.requests) for load in batches] == [(12, 24), (24, 24)]
    with pytest.raises(BenchError, match="expected --prompts, found none in the command; name a file of your own"):
        prepare(deployment(tmp_path).file, Options(out=tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("release", ["0.5.14", "0.5.17", "installed"])
def test_upstreams_client(tmp_path: Path, release: str) -> None:
    """The client of three releases takes our command and writes what we read; the server is the fake one."""
    from draftwire.bench.client import Client
    from draftwire.server import Server

    tree = installed() if release == "installed" else given(release) or download(release)
    # An older client beside a newer transformers, which by now has what SGLang would register.
    beside = "import transformers; r = transformers.AutoConfig.register\n"
    beside += "transformers.AutoConfig.register = lambda *a, **k: r(*a, **{**k, 'exist_ok': True})\n"
    (tmp_path / "sitecustomize.py").write_text(beside if release != "installed" else "")
    (tmp_path / "pids").touch()
    shutil.copy(ROOT / "test" / "fake_engine" / "sglang" / "launch_server.py", tmp_path / "fake_server.py")
    env = {"PYTHONPATH": f"{tmp_path}:{tree.parent}", "FAKE_PIDS": str(tmp_path / "pids")}
    (baseline, drafted) = deployment(tmp_path).arms(["baseline", "eagle3"], [])
    pair = Pair(ROOT / "examples" / "tiny-deepseek-v3")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in env.items():
            patch.setenv(name, value)
        with Client(tmp_path, str(pair.target), str(pair.target)) as client:
            for arm in (baseline, drafted):
                flags = ["--config", str(arm.write(tmp_path))]
                with Server(flags, tmp_path / "log", module=(str(tmp_path / "fake_server.py"),)) as server:
                    server.wait_ready(20)
                    client.render(pair.prompts[:5], "set", 120)
                    runs = [client.measure(server, load, "set", 120, lambda: None)
                            for load in (LOAD, LOAD._replace(fixed=True))]  # fmt: skip
                for run in runs:
                    assert run.failed == 0 and run.tokens_out == [40] * 4 and run.texts == ["40 tokens"] * 4
                    assert median(run.tokens_in) > 100
                    assert 20 < run.tok_s < (1100 if arm is baseline else 2100)
    said = (tmp_path / "client.log").read_text()
    assert "disable_ignore_eos=True" in said and "disable_ignore_eos=False" in said
    assert (tree / "benchmark" / "serving.py").exists() == (release != "0.5.14")


def test_a_row_tells_a_wiring_from_another(tmp_path: Path) -> None:
    """The weights are the same, the ids are not."""
    pair = example_pair()
    crossed = pair.rewire(tmp_path / "crossed", [3, 6, 9])
    assert hash_weights(str(crossed)) == hash_weights(str(pair.draft))
    assert hash_config(str(crossed)) != hash_config(str(pair.draft))
    assert hash_config(str(tmp_path)) is None


def test_settings_are_told_apart() -> None:
    """Another draft config, sampling, prompts or speculative flag is another measurement."""
    row = bench_row(3, draft_config_sha256="one", temperature=0.0, top_p=1.0)
    others = [{"draft_config_sha256": "two"}, {"draft_sha256": "ab"}, {"temperature": 1.0}, {"top_p": 0.9},
              {"prompts": {"sha256": "aa"}}, {"flags": ["--dp-size", "8"]},
              {"speculative_flags": ["speculative-num-steps=2"]}, {"device": "gpu"}]  # fmt: skip
    assert len({setting(row | other) for other in ({}, *others)}) == len(others) + 1
    assert setting(row | {"commit": "other", "date": "2027-01-01"}) == setting(row)
    first = {key: value for key, value in row.items() if key != "always_cut"}
    assert setting(first) != setting(row), "its arms shared a server"


def test_the_speculative_flags_of_a_row(tmp_path: Path) -> None:
    said = Deployment(deployment(tmp_path).file, ["--dp-size", "2", "--speculative-num-steps", "2"])
    assert said.said_of_speculation == ["speculative-num-steps=2"]
    (arm,) = said.arms(["eagle3"], [])
    assert (arm.label, arm.table["speculative-num-draft-tokens"]) == ("eagle3 2/1/3", 3), "as SGLang sets it"


@pytest.mark.parametrize(
    "flags", [["--port", "99999"], ["--requests", "-5"], ["--tokens", "-5"], ["--concurrency", ","], ["--tokens", "3"]]
)
@pytest.mark.parametrize("command", ["bench", "tune"])
def test_numbers_that_make_no_sense(command: str, flags: list[str], tmp_path: Path) -> None:
    ended = CliRunner().invoke(app, [command, str(ROOT / "configs/tiny-cpu.yaml"), "--out", str(tmp_path), *flags])
    assert ended.exit_code == 2 and not list(tmp_path.iterdir())
