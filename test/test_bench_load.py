"""What a benchmark asks of a server, and what it makes of the client's record and of the machine."""

import hashlib
import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from bench_rows import bench_row
from rich.console import Console

from draftwire.acceptance import Acceptance
from draftwire.bench import provenance as module
from draftwire.bench import run as running
from draftwire.bench import schedule, upstream
from draftwire.bench.client import Client, Load, Run
from draftwire.bench.deployment import Deployment
from draftwire.bench.prompts import Prompts
from draftwire.bench.refusals import BenchError, RatioRefused
from draftwire.bench.schedule import Measured, Plan, Visit
from draftwire.bench.stages import Stages
from draftwire.bench.warmup import Pass, probe, warm


class Asked:
    """A server that writes down what it is asked: bodies, and "flush"."""

    port, log = 30000, Path("log")

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def post(self, path: str, body: dict, timeout: float) -> dict:
        self.seen.append(body)
        tokens = body["sampling_params"]["max_new_tokens"]
        meta = {"completion_tokens": tokens, "prompt_tokens": len(body["text"])}
        return {"output_ids": list(range(tokens)), "meta_info": meta}

    def flush_cache(self) -> None:
        self.seen.append("flush")

    def require_alive(self, patience: float = 0) -> None:
        pass


def flags_of(load: Load, tmp_path: Path) -> list[str]:
    client = Client(tmp_path, "tokenizer", "model")
    return client.command(Asked(), load, "requests.jsonl", tmp_path / "out.jsonl")  # type: ignore[arg-type]


def value(flags: list[str], name: str) -> str:
    return flags[flags.index(name) + 1]


def test_the_clients_command(tmp_path: Path) -> None:
    """Both arms are asked alike: from an empty cache, sampling as said, the end of sequence respected unless fixed."""
    flags = flags_of(Load(8, 2, 64, False, 0.7, 0.9), tmp_path)
    assert "--flush-cache" in flags and "--disable-ignore-eos" in flags
    wanted = {"--num-prompts": "8", "--max-concurrency": "2", "--sharegpt-output-len": "64", "--temperature": "0.7",
              "--top-p": "0.9", "--warmup-requests": "0", "--port": "30000"}  # fmt: skip
    assert {name: value(flags, name) for name in wanted} == wanted
    fixed = flags_of(Load(8, 2, 64, True), tmp_path)
    assert not {"--disable-ignore-eos", "--temperature", "--top-p"} & set(fixed)


def test_a_client_that_died_before_it_was_asked(tmp_path: Path) -> None:
    """What was written to it and never read does not hide why."""
    client = Client(tmp_path, "tokenizer", "model")
    with pytest.raises(BenchError, match="expected upstream's client to run, found it ended by signal 9"), client:
        assert client.process is not None
        client.process.kill()
        client.process.wait()
        client.render(["a"], "requests.jsonl", 10)


def test_every_figure_of_the_record_has_its_place() -> None:
    record = {
        "duration": 1.0, "output_throughput": 2.0, "median_ttft_ms": 3.0, "median_tpot_ms": 4.0, "median_itl_ms": 5.0,
        "p99_itl_ms": 6.0, "input_lens": [7], "output_lens": [8], "generated_texts": ["a"], "errors": [""],
        "accept_length": 9.0,
    }  # fmt: skip
    assert Run.of(Load(1, 1, 8, False), record)[1:] == (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, [7], [8], ["a"], 0, "", 9.0)


def test_every_batch_size_is_warmed_and_the_cache_then_empty() -> None:
    """Three at once of other lengths: they end one by one, so three, two and one are decoded together."""
    server = Asked()
    warm(server, ["a", "bb"], 3, 10, lambda: None)  # type: ignore[arg-type]
    lengths = sorted(body["sampling_params"]["max_new_tokens"] for body in server.seen[:-1])
    assert len(lengths) == len(set(lengths)) == 3 and server.seen[-1] == "flush"


def test_the_untimed_pass_asks_as_the_client_does_and_leaves_no_cache() -> None:
    server = Asked()
    seen = probe(server, ["a", "bb", "ccc"], Load(2, 1, 4, False, 0.7, 0.9), 10, lambda: None)  # type: ignore[arg-type]
    sampling = {"temperature": 0.7, "max_new_tokens": 4, "ignore_eos": False, "top_p": 0.9}
    assert server.seen == [*({"text": text, "sampling_params": sampling} for text in ("a", "bb")), "flush"]
    assert seen.outputs == [[0, 1, 2, 3]] * 2 and seen.tokens_in == [1, 2]


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    table = {"model-path": "org/target", "tp-size": 4, "max-running-requests": 8, "cuda-graph-max-bs-decode": 8,
             "speculative-algorithm": "EAGLE3", "speculative-draft-model-path": str(tmp_path),
             "speculative-num-steps": 3, "speculative-eagle-topk": 1, "speculative-num-draft-tokens": 4}  # fmt: skip
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "serve.yaml").write_text(yaml.safe_dump(table))
    return Deployment(tmp_path / "serve.yaml")


def test_a_row_says_where_it_comes_from(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_device", lambda: "a GPU")
    monkeypatch.setattr(module, "find_delivery", lambda release, environment: f"delivery of {release}")
    monkeypatch.setattr(module, "installed_release", lambda: "0.5.20")
    monkeypatch.setattr(module.shutil, "which", lambda tool: f"/bin/{tool}")
    monkeypatch.setattr(
        module.subprocess, "run", lambda *_, **__: SimpleNamespace(stdout="580.1\n580.1\n", returncode=0)
    )
    row = module.provenance(deployment, Prompts(Path("p"), "hash", [1, 2]), "weights")
    assert row | {"command": "", "date": "", "draftwire": ""} == {
        "benchmark": "bench", "command": "", "date": "", "config": str(deployment.file), "sglang": "0.5.20",
        "config_sha256": hashlib.sha256(deployment.file.read_bytes()).hexdigest(), "tp_size": 4, "draftwire": "",
        "flags": [], "speculative_flags": [], "dp_size": 1,
        "commit": "580.1\n580.1", "delivery": "delivery of 0.5.20", "draft_sha256": "weights", "device": "a GPU",
        "draft_config_sha256": hashlib.sha256(b"{}").hexdigest(), "driver": "580.1",
        "prompts": {"file": "p", "sha256": "hash", "count": 2},
    }  # fmt: skip
    assert row["date"] and row["command"].startswith("draftwire ")


@pytest.mark.parametrize(("changed", "said"), [(0, "abc1234"), (1, "abc1234+")])
def test_a_changed_checkout_is_marked(changed: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(command: list[str], **_: object) -> SimpleNamespace:
        return SimpleNamespace(stdout="abc1234\n", returncode=changed if "diff" in command else 0)

    monkeypatch.setattr(module.shutil, "which", lambda tool: f"/bin/{tool}")
    monkeypatch.setattr(module.subprocess, "run", git)
    assert module.commit() == said


def test_what_changes_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tools and the overlay do; what stands beside them does not. As git itself says."""

    def git(*said: str) -> str:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *said]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    files = [tmp_path / name for name in ("python/draftwire/bench/a.py", "python/sglang/b.py", "README.md")]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("as committed")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "first")
    monkeypatch.setattr(module, "__file__", str(files[0]))
    head = git("rev-parse", "--short=7", "HEAD")
    assert module.commit() == head
    for file, mark in zip(files, ("+", "+", ""), strict=True):
        file.write_text("changed")
        assert module.commit() == head + mark, file
        file.write_text("as committed")


def test_chats_leave_out_the_token_that_a_server_adds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def written(messages: list, tokenize: bool, add_generation_prompt: bool) -> str:
        return f"<s>[{messages[0]['content']}]"

    tokenizer = SimpleNamespace(bos_token="<s>", apply_chat_template=written)
    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", lambda *_, **__: tokenizer)
    texts = upstream.render([[{"role": "user", "content": "Hi"}], "<s>as it is"], "tokenizer", str(tmp_path / "out"))
    assert texts == ["[Hi]", "<s>as it is"]


def test_token_ids_that_do_not_come_back_from_their_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is asked by text: other tokens than were given would be measured."""
    tokenizer = SimpleNamespace(decode=bytes, encode=lambda text: list(text.removesuffix(b"!")))
    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", lambda *_, **__: tokenizer)
    job = {"render": [[65, 66], [65, 33]], "tokenizer": "tokenizer", "out": str(tmp_path / "out")}
    said = upstream.answer(job, None)
    assert said == {"error": "ValueError: token ids of prompt 2 do not come back from their text; give the text"}
    assert not (tmp_path / "out").exists()


LOADS = [Load(2, users, 40, False) for users in (1, 3)]
FIXED = [load._replace(fixed=True) for load in LOADS]


@pytest.mark.parametrize("loads", [LOADS, LOADS[::-1]])
def test_a_visit_warms_as_many_at_once_as_its_widest_load(
    deployment: Deployment, tmp_path: Path, loads: list[Load], monkeypatch: pytest.MonkeyPatch
) -> None:
    arms = deployment.arms(["baseline"], [])
    plan = Plan(arms, loads, [], 1, 10)
    stages = Stages(list(plan.stages()), dict.fromkeys(("start", "warm", "probe", "run"), 1.0), Console(quiet=True))
    stages.skip()
    client = SimpleNamespace(measure=lambda *_: "run")
    warmed: list[int] = []
    monkeypatch.setattr(schedule, "warm", lambda server, texts, users, *_: warmed.append(users))
    visit = Visit(plan, Asked(), client, ["a"], stages, Measured(arms[0]))  # type: ignore[arg-type]
    visit.run(first=False, same=False)
    assert warmed == [3]


def made_up(monkeypatch: pytest.MonkeyPatch, tokens: dict[str, int]) -> None:
    """In the place of servers and of the client: answers of so many tokens by the name of the arm, whole at fixed
    length.
    """

    class Server(Asked):
        def __init__(self, flags: list[str], *_: object, **__: object) -> None:
            super().__init__()
            self.arm = Path(flags[1]).name

        def __enter__(self) -> "Server":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def wait_ready(self, *_: object) -> None:
            pass

        def get(self, path: str) -> str:
            return "{}"

        def said(self, load: Load) -> list[int]:
            length = next(length for name, length in tokens.items() if self.arm.startswith(name))
            return list(range(load.tokens if load.fixed else length))

    def measured(client: Client, server: Server, load: Load, *_: object) -> Run:
        lengths = [len(server.said(load))] * load.requests
        return Run(load, *[1.0] * 6, [9] * load.requests, lengths, ["a"] * load.requests, 0, "", None)

    def probed(server: Server, texts: list[str], load: Load, *_: object) -> Pass:
        return Pass(Acceptance(80), [server.said(load)] * load.requests, [9] * load.requests)

    monkeypatch.setattr(schedule, "Server", Server)
    monkeypatch.setattr(schedule, "probe", probed)
    monkeypatch.setattr(Client, "__enter__", lambda self: self)
    monkeypatch.setattr(Client, "__exit__", lambda *_: None)
    monkeypatch.setattr(Client, "render", lambda self, items, *_: list(items))
    monkeypatch.setattr(Client, "measure", measured)


@pytest.mark.parametrize(("tokens", "always"), [
    ({"baseline": 40, "eagle3": 40}, True),
    ({"baseline": 39, "eagle3": 40}, False),
    ({"baseline": 40, "eagle3": 39}, False),
])  # fmt: skip
def test_fixed_length_is_left_out_only_where_every_arm_was_always_cut(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokens: dict[str, int], always: bool
) -> None:
    made_up(monkeypatch, tokens)
    monkeypatch.setattr(module, "find_device", lambda: "a GPU")
    (tmp_path / "prompts").write_text(json.dumps([f"prompt {i}" for i in range(8)]))
    options = running.Options(prompts=tmp_path / "prompts", out=tmp_path / "out", concurrency=(1, 3), tokens=40)
    row = running.measured_row(deployment.file, options, Console(quiet=True))
    assert row["always_cut"] is always
    found = {(entry["arm"], entry["length"]) for entry in row["measurements"]}
    assert found == {(arm, length) for arm in tokens for length in (("eos",) if always else ("eos", "fixed"))}


@pytest.mark.parametrize("length", ["eos", "fixed"])
def test_a_ratio_at_fixed_length_is_refused_by_itself(
    tmp_path: Path, length: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """The row with the ratio until the end of sequence is kept; that ratio refused, there is none."""
    row = bench_row(3, concurrency=(1,), always_cut=False)
    plain, drafted = row["measurements"]
    refused = {"length": "fixed", "speedup": None, "outputs_equal": None, "step_cost_ratio": None, "refused": "loops"}
    row["measurements"] += [plain | {"length": "fixed"}, drafted | refused]
    row["measurements"][1 if length == "eos" else 3] |= refused | {"length": length}
    monkeypatch.setattr(running, "measured_row", lambda *_, **__: row)
    progress = Console(record=True, quiet=False, file=(tmp_path / "progress").open("w"))
    options = running.Options(out=tmp_path)
    if length == "eos":
        with pytest.raises(RatioRefused, match="no speed-up is given, and no row was written"):
            running.bench(tmp_path / "a.yaml", options, progress=progress)
        assert not (tmp_path / "results.jsonl").exists()
        return
    assert running.bench(tmp_path / "a.yaml", options, progress=progress) is row
    assert [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()] == [row]
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == row
    assert "draftwire: no ratio at 1 at once, length fixed: loops" in progress.export_text()


def test_prompts_that_need_a_tokenizer_are_written_before_a_server_starts(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> list[str]:
        raise BenchError("a tokenizer", "none", "here", "mend it")

    monkeypatch.setattr(Client, "render", refuse)
    monkeypatch.setattr(schedule, "Server", None)
    plan = Plan(deployment.arms(["baseline"], []), [], [], 1, 10)
    with pytest.raises(BenchError, match="expected a tokenizer"):
        schedule.measure(plan, deployment, [[1, 2]], tmp_path, Console(quiet=True))


def test_the_doctors_verdict_stands_in_the_row(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """And the row is kept where standard output is closed."""
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps({"prompt": f"prompt {i}"}) + "\n" for i in range(8)))
    monkeypatch.setattr(running, "measure", lambda *_: [])
    monkeypatch.setattr(module, "find_device", lambda: "a GPU")
    options = running.Options(prompts=tmp_path / "prompts.jsonl", out=tmp_path / "out", concurrency=(1,))
    row = running.bench(deployment.file, options, doctor="WIRED")
    assert row["doctor"] == "WIRED" and json.loads(capsys.readouterr().out.splitlines()[-1]) == row

    def closed(*_: object, **__: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("builtins.print", closed)
    with pytest.raises(BrokenPipeError):
        running.bench(deployment.file, options)
    assert len((tmp_path / "out" / "results.jsonl").read_text().splitlines()) == 2
