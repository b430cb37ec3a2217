"""The servers that a benchmark derives from a launch file, and the files that it refuses."""

import json
import re
from pathlib import Path

import pytest
import yaml
from bench_files import DRAFT, PLAIN, ROOT, deployment
from typer.testing import CliRunner

from draftwire.bench.deployment import Deployment, tree_tokens
from draftwire.bench.refusals import BenchError
from draftwire.bench.run import Options, prepare
from draftwire.cli import app
from draftwire.headers import DraftError
from draftwire.pair import Pair


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
