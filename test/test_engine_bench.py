"""Benchmarks of the example pair on the real engine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import pytest
import yaml
from built_in_head import with_built_in_head
from processes import descendants, is_alive

from draftwire.bench.client import Client, Load
from draftwire.bench.deployment import Deployment
from draftwire.bench.prompts import default_prompts, read_prompts
from draftwire.pair import Pair
from draftwire.server import Server

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]
CONFIG = ROOT / "configs" / "tiny-cpu.yaml"


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    """The config's paths are relative to it; it is for the CPU engine."""
    if device != "cpu":
        pytest.skip("configs/tiny-cpu.yaml is for a machine without a GPU")
    monkeypatch.chdir(ROOT)


def bench(config: Path, out: Path, *flags: str) -> tuple[dict, str]:
    command = [sys.executable, "-m", "draftwire", "bench", str(config), "--out", str(out), *flags]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert ran.returncode == 0, ran.stderr
    row = json.loads(ran.stdout.splitlines()[-1])
    assert json.loads((out / "results.jsonl").read_text().splitlines()[-1]) == row
    return row, ran.stdout


def entry(row: dict, arm: str, concurrency: int) -> dict:
    """The one measurement of that kind."""
    (found,) = [e for e in row["measurements"] if (e["arm"], e["concurrency"]) == (arm, concurrency)]
    return found


def test_the_example(tmp_path: Path, pair: Pair) -> None:
    """Wired it gains, at equal outputs, in less than 5 minutes; mis-wired, in the same place, it is slower."""
    start = time.monotonic()
    row, text = bench(CONFIG, tmp_path, "--concurrency", "1,4")
    seconds = time.monotonic() - start
    wired = entry(row, "eagle3", 1)
    print(text, f"{seconds:.0f} s")
    assert row["always_cut"] and {e["length"] for e in row["measurements"]} == {"eos"}
    for users in (1, 4):
        drafted, plain = entry(row, "eagle3", users), entry(row, "baseline", users)
        assert drafted["outputs_equal"] == 1.0
        assert drafted["looping"] == plain["looping"] == 0.0
        assert drafted["mean_output_tokens"] == plain["mean_output_tokens"] == 64.0
        assert drafted["accept_length"] == pytest.approx(2.55, abs=0.1)
        assert 1 > drafted["accept_positions"][0] > drafted["accept_positions"][2] > 0.3
    assert (row["sglang"], row["tp_size"], row["delivery"], row["driver"]) == ("0.5.23", 1, "overlay", None)
    table = yaml.safe_load(CONFIG.read_text())
    crossed = pair.rewire(tmp_path / "crossed", [3, 6, 9])
    table["speculative-draft-model-path"] = str(crossed)
    (tmp_path / "crossed.yaml").write_text(yaml.safe_dump(table))
    miswired = entry(bench(tmp_path / "crossed.yaml", tmp_path, "--concurrency", "1")[0], "eagle3", 1)
    assert miswired["accept_length"] < 1.9 and miswired["outputs_equal"] == 1.0
    assert miswired["speedup_max"] < wired["speedup_min"]
    assert wired["speedup"] >= 1.4
    assert seconds < 300


HAND = [
    *("--backend", "sglang", "--host", "127.0.0.1", "--dataset-name", "custom", "--sharegpt-output-len", "64"),
    *("--disable-ignore-eos", "--num-prompts", "12", "--seed", "1", "--warmup-requests", "2", "--flush-cache"),
    "--disable-tqdm",
]
PRINTED = {
    "tok_s": r"Output token throughput \(tok/s\): +([\d.]+)",
    "ttft_ms": r"Median TTFT \(ms\): +([\d.]+)",
    "tpot_ms": r"Median TPOT \(ms\): +([\d.]+)",
    "itl_p50_ms": r"Median ITL \(ms\): +([\d.]+)",
    "itl_p99_ms": r"P99 ITL \(ms\): +([\d.]+)",
}


def by_hand(port: int, folder: Path, concurrency: int) -> tuple[dict[str, float], list[str]]:
    """What `python -m sglang.bench_serving` prints, and the texts that it got. The `datasets` that it imports, and
    needs for other prompts than ours, does not belong to the CPU engine.
    """
    (folder / "shim").mkdir(exist_ok=True)
    (folder / "shim" / "datasets.py").write_text("load_dataset = None\n")
    command = [sys.executable, "-m", "sglang.bench_serving", *HAND, "--port", str(port), "--output-details"]
    command += ["--dataset-path", str(folder / "hand.jsonl"), "--output-file", str(folder / "hand-out.jsonl")]
    command += ["--max-concurrency", str(concurrency)]
    ran = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": f"{folder}/shim"})
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"Successful requests: +12\b", ran.stdout)
    assert re.search(r"Total generated tokens: +768\b", ran.stdout)
    record = json.loads((folder / "hand-out.jsonl").read_text().splitlines()[-1])
    printed = {name: re.search(pattern, ran.stdout) for name, pattern in PRINTED.items()}
    return {name: float(found[1]) for name, found in printed.items() if found}, record["generated_texts"]


@pytest.mark.parametrize("arm", ["baseline", "eagle3"])
def test_the_figures_are_upstreams(tmp_path: Path, arm: str) -> None:
    """Asked in turn, four times each, of the same server: the same texts, and medians that differ by less than the two
    spreads, which happens by chance in 1 of 1,000 figures of equal clients.
    """
    from transformers import AutoTokenizer

    deployment = Deployment(CONFIG)
    tokenizer = AutoTokenizer.from_pretrained(deployment.target)
    prompts = read_prompts(default_prompts(deployment.target)).items[:12]
    lines = [{"conversation": [{"value": tokenizer.decode(p)}, {"value": "-"}]} for p in prompts]
    (tmp_path / "hand.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (served,) = deployment.arms([arm], [])
    flags = ["--config", str(served.write(tmp_path))]
    with (
        Client(tmp_path, deployment.tokenizer, deployment.target) as client,
        Server(flags, tmp_path / "server.log", env=deployment.environment()) as server,
    ):
        server.wait_ready(300)
        client.render(prompts, "set.jsonl", 300)
        for users in (1, 4):
            ours: dict[str, list[float]] = {name: [] for name in PRINTED}
            theirs: dict[str, list[float]] = {name: [] for name in PRINTED}
            by_hand(server.port, tmp_path, users)  # Warms up.
            for _ in range(4):
                run = client.measure(server, Load(12, users, 64, False), "set.jsonl", 300, lambda: None)
                assert run.failed == 0 and sum(run.tokens_out) == 768
                printed, texts = by_hand(server.port, tmp_path, users)
                assert run.texts == texts
                for name in PRINTED:
                    ours[name].append(getattr(run, name))
                    theirs[name].append(printed[name])
            for name, mine in ours.items():
                spread = max(mine) - min(mine) + max(theirs[name]) - min(theirs[name])
                shown = " ".join(f"{value:.1f}" for value in mine), " ".join(f"{v:.1f}" for v in theirs[name])
                print(f"{arm}, {users} at once, {name}: {shown[0]} by us, {shown[1]} by hand")
                assert abs(median(mine) - median(theirs[name])) <= spread, name


def test_the_built_in_head(tmp_path: Path, pair: Pair) -> None:
    """All three arms in one row: the target's own MTP layer, here an untrained one, accepts little."""
    table = yaml.safe_load(CONFIG.read_text())
    table["model-path"] = str(with_built_in_head(pair.target, tmp_path / "target"))
    (tmp_path / "three.yaml").write_text(yaml.safe_dump(table))
    arms = ("--arms", "baseline,eagle3,mtp", "--prompts", str(default_prompts(str(pair.target))))
    row, text = bench(tmp_path / "three.yaml", tmp_path, *arms, "--concurrency", "1", "--requests", "4")
    print(text)
    assert row["order"] == [*(three := ["baseline", "eagle3 3/1/4", "mtp 3/1/4"]), *reversed(three)]
    drafted, head = entry(row, "eagle3", 1), entry(row, "mtp", 1)
    assert head["outputs_equal"] == drafted["outputs_equal"] == 1.0
    assert 1 <= head["accept_length"] < 1.5 < 2.3 < drafted["accept_length"]
    assert head["speedup"] < drafted["speedup"] and head["refused"] is None


@pytest.mark.parametrize("stage", ["starting SGLang", "untimed", "1 at once, about"])
def test_ctrl_c(tmp_path: Path, stage: str) -> None:
    """No process of the real server and the real client is left, and no row."""
    command = [sys.executable, "-m", "draftwire", "bench", str(CONFIG), "--concurrency", "1", "--out", str(tmp_path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # fmt: skip
    assert process.stderr
    assert any(stage in line for line in iter(process.stderr.readline, ""))
    time.sleep(5 if stage == "starting SGLang" else 1)
    started = descendants(process.pid)
    assert len(started) >= (2 if stage == "starting SGLang" else 4)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "draftwire: interrupted, and every server that it started is ended"
    assert not [pid for pid in started if is_alive(pid)]
    assert not (tmp_path / "results.jsonl").exists()
