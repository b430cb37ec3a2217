"""What goes wrong around a benchmark: one line, no process left, no half row. SGLang is played by fake_engine."""

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_deployment import FakeDeployment

from draftwire.pair import Pair

STAGES = ["starting SGLang,", "warming up,", "2 at once, untimed,", "2 at once, about", "2 at once, length fixed,"]


@pytest.fixture
def bench(tmp_path: Path) -> FakeDeployment:
    return FakeDeployment(tmp_path, "bench", "serve.yaml", "--concurrency", "2", "--tokens", "40")


def test_a_row(bench: FakeDeployment) -> None:
    status, out, err = bench.run("--steps", "1,3", "--concurrency", "1,2")
    assert status == 0, err
    row = json.loads(out[-1])
    assert json.loads(bench.out.read_text()) == row
    assert row["order"] == ["baseline", "eagle3 1/1/2", "eagle3 3/1/4", "eagle3 3/1/4", "eagle3 1/1/2", "baseline"]
    assert len(bench.pids.read_text().splitlines()) == 6, "each visit by a server of its own"
    assert row["server_differs"]["eagle3 3/1/4"] == {"effective_max_running_requests_per_dp": [4, 3]}
    entries = row["measurements"]
    assert [(e["arm"], e["steps"], e["concurrency"], e["length"]) for e in entries] == [
        (arm, steps, users, length)
        for arm, steps in (("baseline", None), ("eagle3", 1), ("eagle3", 3))
        for length in ("eos", "fixed")
        for users in (1, 2)
    ]
    for entry in entries:
        assert entry["repeats"] == (2 if entry["length"] == "eos" else 1) and entry["refused"] is None
        assert entry["tok_s_min"] <= entry["tok_s"] <= entry["tok_s_max"]
        if entry["arm"] == "eagle3":
            baseline = next(e for e in entries if e["steps"] is None and e["concurrency"] == entry["concurrency"])
            assert 1.2 < entry["speedup"] < 2.5 and entry["outputs_equal"] == 1.0
            assert (entry["accept_length"], entry["accept_positions"]) == (2.0, [0.5, 0.5, 0.5])
            cost = entry["accept_length"] * baseline["tok_s"] / entry["tok_s"]
            assert entry["length"] == "fixed" or entry["step_cost_ratio"] == pytest.approx(cost, rel=1e-3)
        assert entry["mean_output_tokens"] == (40 if entry["length"] == "fixed" else 39.5)
    assert row["always_cut"] is False
    differs = "eagle3 1/1/2, eagle3 3/1/4 differ from the baseline by SGLang's own choice: "
    differs += "effective_max_running_requests_per_dp 4 -> 3"
    assert any(differs in line for line in out)
    assert err[0].startswith("[1/") and err[0].endswith("left")
    assert not list(bench.folder.glob("draftwire-bench-*"))
    assert bench.run()[0] == 0 and len(bench.out.read_text().splitlines()) == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux")
def test_a_row_is_kept_where_nothing_can_be_printed(bench: FakeDeployment) -> None:
    with open("/dev/full", "w") as full:
        process = bench.start("--requests", "3", stdout=full)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 2 and "No space left on device" in err.splitlines()[-1]
    assert json.loads(bench.out.read_text())["benchmark"] == "bench"


def test_nothing_is_left_of_a_run_that_never_started(bench: FakeDeployment) -> None:
    (bench.folder / "draft" / "model.safetensors").unlink()
    (bench.folder / "draft").rmdir()
    status, _, err = bench.run()
    assert status == 2 and not list(bench.folder.glob("draftwire-bench-*")), err


def test_answers_that_are_always_cut(bench: FakeDeployment) -> None:
    """Fixed length would ask for the same: said, and not measured."""
    status, out, err = bench.run("--requests", "3", "--temperature", "0.7", "--top-p", "0.9")
    assert status == 0, err
    row = json.loads(out[-1])
    assert row["always_cut"] is True and {e["length"] for e in row["measurements"]} == {"eos"}
    assert any("every answer was cut at the most tokens" in line for line in out)
    assert all(e["outputs_equal"] is None for e in row["measurements"]), "drawn by chance"


def test_launch_flags_reach_every_server(bench: FakeDeployment) -> None:
    """The row names them; a speculative one goes to the drafted server only."""
    said = ("--dp-size", "2", "--speculative-num-steps", "2", "--speculative-num-draft-tokens", "3")
    status, out, err = bench.run("--requests", "3", "--", *said)
    assert status == 0, err
    row = json.loads(out[-1])
    assert (row["flags"], row["dp_size"]) == (["--dp-size", "2"], 2)
    assert row["order"] == ["baseline", "eagle3 2/1/3", "eagle3 2/1/3", "baseline"]
    commands = [line.split() for line in bench.commands.read_text().splitlines()]
    assert len(commands) == 4 and all(line[2:4] == ["--dp-size", "2"] for line in commands)
    assert all("--speculative-num-steps" not in line for line in commands), "it is in the file"


AT_ONCE = {
    "loop": (1, "found 100% in baseline"),
    "answer_nothing": (2, "expected no failed requests, found 8 in eagle3 3/1/4: an answer without text"),
}


@pytest.mark.parametrize("fault", AT_ONCE)
def test_what_leaves_no_ratio_ends_the_run_at_once(bench: FakeDeployment, fault: str) -> None:
    """After the visit that shows it, not after the last one."""
    servers, said = AT_ONCE[fault]
    status, out, err = bench.run(fault=fault)
    assert (status, out) == (1, []) and len(bench.commands.read_text().splitlines()) == servers
    assert err[-1].startswith("draftwire: no ratio at 2 at once, length eos: expected") and said in err[-1]
    assert err[-1].endswith("; nothing further was measured, and no row was written") and not bench.out.exists()


def test_without_a_baseline_there_is_no_ratio_to_refuse(bench: FakeDeployment) -> None:
    status, out, err = bench.run("--arms", "eagle3", fault="loop")
    assert status == 0, err
    assert all(entry["refused"] is None for entry in json.loads(out[-1])["measurements"])


REFUSED = {
    "other_length": "expected outputs as long within 5%, found 39.5 and 34.6 tokens in eagle3 3/1/4",
    "other_sampling": "expected the same sampling, found sampling_defaults model and openai in eagle3 3/1/4",
}


@pytest.mark.parametrize("fault", REFUSED)
def test_a_refused_ratio(bench: FakeDeployment, fault: str) -> None:
    """The table without a gain, one line why, no row."""
    status, out, err = bench.run(fault=fault)
    assert status == 1
    assert err[-1] == "draftwire: no speed-up is given, and no row was written"
    assert sum(REFUSED[fault] in line for line in err) >= 1
    assert any("eagle3 3/1/4" in line and " - " in line for line in out) and "{" not in "".join(out)
    assert not bench.out.exists()


ENDS = {
    "die_loading": "draftwire: server ended with status 1: RuntimeError: no memory for the weights",
    "die_serving": "draftwire: server ended with status 1: RuntimeError: CUDA error",
    "hang": "draftwire: server not ready after 2 s",
}


@pytest.mark.parametrize("fault", ENDS)
def test_a_server_that_fails(bench: FakeDeployment, fault: str) -> None:
    """While it loads, while it serves, at its health check."""
    status, out, err = bench.run(*(["--timeout", "2"] if fault == "hang" else []), fault=fault)
    assert (status, out) == (2, [])
    assert err[-1].startswith(ENDS[fault]) and "Traceback" not in "".join(err)
    log = Path(err[-1].rpartition("(log: ")[2].rstrip(")"))
    assert log.is_file()
    assert not bench.out.exists()


def test_a_taken_port(bench: FakeDeployment) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        status, out, err = bench.run("--port", str(port))
    assert (status, out) == (2, [])
    assert err[-1] == f"draftwire: expected port {port} free, found Address already in use; name another"


def wait_for(bench: subprocess.Popen, arm: str, stage: str) -> None:
    """Until the progress says that this stage begins."""
    assert bench.stderr
    if not any(f"] {arm}" in line and stage in line for line in iter(bench.stderr.readline, "")):
        raise AssertionError(f"{stage} was never reached")


@pytest.mark.parametrize("arm", ["baseline", "eagle3"])
@pytest.mark.parametrize("stage", STAGES)
def test_ctrl_c(bench: FakeDeployment, stage: str, arm: str) -> None:
    process = bench.start()
    wait_for(process, arm, stage)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    bench.assert_no_orphan()
    assert process.returncode == 130 and out == ""
    assert err.splitlines()[-1] == "draftwire: interrupted, and every server that it started is ended"
    assert not bench.out.exists() and not list(bench.folder.glob("draftwire-bench-*"))


def children(process: subprocess.Popen, module: str) -> list[int]:
    """Ids of the process's children that run a module."""
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(pid) for pid in found if module in Path(f"/proc/{pid}/cmdline").read_text()]


@pytest.mark.parametrize(("module", "said"), [
    ("draftwire.bench.upstream", "draftwire: expected upstream's client to run, found it ended by signal 9"),
    ("sglang.launch_server", "draftwire: server ended by signal 9"),
])  # fmt: skip
def test_killed(bench: FakeDeployment, module: str, said: str) -> None:
    """The client, and a server, while requests are measured."""
    process = bench.start("--tokens", "500")
    wait_for(process, "baseline", "2 at once, about")
    (victim,) = children(process, module)
    os.kill(victim, signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    bench.assert_no_orphan()
    assert process.returncode == 2 and err.splitlines()[-1].startswith(said)
    assert not bench.out.exists()


def test_killed_itself(bench: FakeDeployment) -> None:
    """SIGTERM ends the servers, and so does SIGKILL, by the kernel's hand."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        process = bench.start("--tokens", "500")
        wait_for(process, "baseline", "2 at once, about")
        process.send_signal(number)
        process.communicate(timeout=60)
        assert process.returncode != 0
        bench.assert_no_orphan()


@pytest.fixture
def limit_files() -> Callable[[int], Callable[[], None]]:
    """For Popen: no file of the process may grow past some bytes; writing on gives an error as a full disk does."""

    def limit(size: int) -> Callable[[], None]:
        def set_limit() -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

        return set_limit

    return limit


def test_a_full_disk_leaves_no_half_row(bench: FakeDeployment, limit_files: Callable) -> None:
    """The old rows stay as they are; the new one is on standard output."""
    bench.out.parent.mkdir()
    old = json.dumps({"benchmark": "other", "filler": "x" * 99_500}) + "\n"
    bench.out.write_text(old)
    status, out, err = bench.run(preexec_fn=limit_files(100_000))
    assert status == 2
    assert err[-1].startswith("draftwire: expected to add a row, found ") and "it is the last line printed" in err[-1]
    assert bench.out.read_text() == old
    assert json.loads(out[-1])["measurements"][0]["arm"] == "baseline"


def test_what_is_seen_before_a_server_starts(bench: FakeDeployment) -> None:
    started = time.monotonic()
    for flags, said in (
        (["--concurrency", "8"], "expected 1 to 4 requests at once (max-running-requests), found 8 in --concurrency"),
        (["--requests", "13"], "expected 13 prompts, found 12 in prompts.jsonl"),
        (["--arms", "medusa"], "expected arms of baseline, eagle3, mtp, found medusa in --arms"),
        (["--out", "serve.yaml"], "expected to add a row, found"),
        (["--concurrency", "one"], "expected numbers such as 1,4; found 'one' in --concurrency"),
        (["--prompts", "none.jsonl"], "expected prompts, found No such file or directory in none.jsonl"),
        (["--", "--model-path", "./none"], "expected model-path of a directory, or a hub id such as org/name, found"),
        (["--", "--speculative-num-steps", "0"], "expected speculative-num-steps of at least 1, found 0 in"),
    ):
        status, out, err = bench.run(*flags)
        assert (status, out) == (2, []) and err[-1].startswith(f"draftwire: {said}"), err
    status, _, err = bench.run(env={"SGLANG_SIMULATE_ACC_LEN": "3.5"})
    assert status == 2 and "expected SGLANG_SIMULATE_ACC_LEN unset, found 3.5 in the environment" in err[-1]
    assert not bench.pids.exists() and time.monotonic() - started < 60


def test_a_row_is_not_glued_to_half_a_line(bench: FakeDeployment) -> None:
    bench.out.parent.mkdir()
    bench.out.write_text('{"benchmark": "oth')
    status, _, err = bench.run()
    assert status == 2 and "expected whole lines" in err[-1]
    shutil.rmtree(bench.out.parent)


@pytest.mark.slow
def test_the_doctor_goes_first(bench: FakeDeployment, pair: Pair) -> None:
    """With training samples: a mis-wired draft is not measured, unless it is asked for."""
    crossed = pair.rewire(bench.folder / "crossed", [3, 6, 9])
    samples = ["--samples", str(pair.directory / "samples")]
    written = (bench.folder / "serve.yaml").read_text()
    for draft, flags, verdict in (
        (crossed, [], None),
        (crossed, ["--anyway"], "MISWIRED"),
        (pair.draft, [], "WIRED"),
    ):
        table = written.replace("path: target", f"path: {pair.target}").replace("path: draft", f"path: {draft}")
        (bench.folder / "serve.yaml").write_text(table)
        status, out, err = bench.run(*samples, *flags)
        if verdict is None:
            said = "draftwire: not measured: the draft is mis-wired; mend it, or add --anyway"
            assert (status, out, err[-1]) == (1, [], said)
            assert not bench.pids.exists()
        else:
            assert status == 0 and json.loads(out[-1])["doctor"] == verdict
            assert any(verdict in line for line in err)
