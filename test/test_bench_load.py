"""What a benchmark asks of a server, and what it makes of the client's record and of the machine."""

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from rich.console import Console

from draftwire.bench import provenance as module
from draftwire.bench import run as running
from draftwire.bench import schedule, upstream
from draftwire.bench.client import Client, Load, Run
from draftwire.bench.deployment import Deployment
from draftwire.bench.prompts import Prompts
from draftwire.bench.refusals import BenchError
from draftwire.bench.warmup import probe, warm


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
    table = {"model-path": "target", "tp-size": 4, "max-running-requests": 8, "cuda-graph-max-bs-decode": 8,
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


def test_chats_leave_out_the_token_that_a_server_adds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def written(messages: list, tokenize: bool, add_generation_prompt: bool) -> str:
        return f"<s>[{messages[0]['content']}]"

    tokenizer = SimpleNamespace(bos_token="<s>", apply_chat_template=written)
    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", lambda *_, **__: tokenizer)
    texts = upstream.render([[{"role": "user", "content": "Hi"}], "<s>as it is"], "tokenizer", str(tmp_path / "out"))
    assert texts == ["[Hi]", "<s>as it is"]


def test_prompts_that_need_a_tokenizer_are_written_before_a_server_starts(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> list[str]:
        raise BenchError("a tokenizer", "none", "here", "mend it")

    monkeypatch.setattr(Client, "render", refuse)
    monkeypatch.setattr(schedule, "Server", None)
    plan = schedule.Plan(deployment.arms(["baseline"], []), [], [], 1, 10)
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
