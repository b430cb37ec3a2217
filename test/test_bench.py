"""What a benchmark plans, asks and says; nothing is served here."""

import json
import os
import re
import shutil
from pathlib import Path
from statistics import median

import pytest
from bench_files import LOAD, ROOT, deployment
from rich.console import Console
from typer.testing import CliRunner
from upstream import download, given, installed

from draftwire.bench.prompts import default_prompts, read_prompts
from draftwire.bench.refusals import BenchError
from draftwire.bench.run import Options, prepare
from draftwire.bench.schedule import Plan
from draftwire.bench.stages import Stages
from draftwire.cli import app
from draftwire.pair import Pair


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


@pytest.mark.parametrize(
    "flags", [["--port", "99999"], ["--requests", "-5"], ["--tokens", "-5"], ["--concurrency", ","], ["--tokens", "3"]]
)
@pytest.mark.parametrize("command", ["bench", "tune"])
def test_numbers_that_make_no_sense(command: str, flags: list[str], tmp_path: Path) -> None:
    ended = CliRunner().invoke(app, [command, str(ROOT / "configs/tiny-cpu.yaml"), "--out", str(tmp_path), *flags])
    assert ended.exit_code == 2 and not list(tmp_path.iterdir())
