"""The demo's table, its JSON line and its verdict."""

import io
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from draftwire import demo
from draftwire.acceptance import Acceptance
from draftwire.cli import app
from draftwire.demo import Arm, is_near_tie, table_of
from draftwire.server import ServerError

KEYS = ["baseline_tok_s", "wired_tok_s", "miswired_tok_s", "wired_accept_length", "miswired_accept_length"]
KEYS += ["outputs_equal", "sglang", "device"]


def arms(wired_length: float = 2.6, wired_output: int = 5) -> list[Arm]:
    verifies = 100
    tokens = round(wired_length * verifies)
    return [
        Arm("no draft", 50.0, Acceptance(384, 0, []), [[5]]),
        Arm("wired [-1, 2, 5]", 75.0, Acceptance(tokens, verifies, [40, 0, 20, 40]), [[wired_output]]),
        Arm("mis-wired [3, 6, 9]", 45.0, Acceptance(160, verifies, [60, 25, 10, 5]), [[5]]),
    ]


def run_with(monkeypatch: pytest.MonkeyPatch, measured: list[Arm], device: str = "cpu") -> int:
    queue = iter(measured)
    monkeypatch.setattr(demo, "run_arm", lambda *_: next(queue))
    monkeypatch.setattr(demo, "find_device", lambda: device)
    return demo.run(Console(file=io.StringIO()), Console(file=io.StringIO()))


def test_last_line_is_the_row(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    assert run_with(monkeypatch, arms()) == 0
    row = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert list(row) == KEYS
    assert row["wired_accept_length"] == 2.6 and row["baseline_tok_s"] == 50.0 and row["outputs_equal"] is True


@pytest.mark.parametrize("measured", [arms(wired_length=2.4), arms(wired_output=6)], ids=["mis-wired", "other output"])
def test_fails_where_the_wired_run_is_not_wired(monkeypatch: pytest.MonkeyPatch, measured: list[Arm]) -> None:
    assert run_with(monkeypatch, measured) == 1


def test_table_fits_80_columns() -> None:
    out = io.StringIO()
    Console(file=out, width=80).print(table_of(arms()))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    row = next(line for line in lines if "wired [-1, 2, 5]" in line)
    assert "2.60" in row and "0.60 0.60 0.40" in row and "1 of 1" in row


class Target:
    """A server whose two best next tokens are 5 and 6, `gap` nats apart."""

    def __init__(self, gap: float):
        self.gap = gap

    def generate(self, prompt: list[int], tokens: int, **fields: object) -> dict:
        self.prompt = prompt
        return {"meta_info": {"output_top_logprobs": [[[-0.7, 5, None], [-0.7 - self.gap, 6, None]]]}}


def test_near_tie() -> None:
    target = Target(gap=0.01)
    assert is_near_tie(target, [1, 2], [3, 6, 9], [3, 5, 9])
    assert target.prompt == [1, 2, 3]
    assert not is_near_tie(target, [1, 2], [3, 7, 9], [3, 5, 9])
    assert not is_near_tie(Target(gap=0.5), [1, 2], [3, 6, 9], [3, 5, 9])


def test_a_tie_counts_in_16_bit_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    measured = arms(wired_output=6)
    measured[1] = measured[1]._replace(ties=1)
    assert run_with(monkeypatch, measured) == 1
    assert run_with(monkeypatch, measured, device="a GPU") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["outputs_equal"] is False


def test_acceptance_of_answers() -> None:
    meta = {"completion_tokens": 7, "spec_verify_ct": 3, "spec_correct_drafts_histogram": [1, 0, 2]}
    total = Acceptance.of([{"meta_info": meta}, {"meta_info": {"completion_tokens": 4}}])
    assert (total.tokens, total.verifies, total.histogram) == (11, 3, [1, 0, 2])
    assert total.positions == [2 / 3, 2 / 3]
    assert Acceptance.of([{"meta_info": {"completion_tokens": 4}}]).length == 1.0


@pytest.mark.slow
def test_the_demo_itself() -> None:
    ran = subprocess.run([sys.executable, "-m", "draftwire", "demo"], capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    row = json.loads(ran.stdout.splitlines()[-1])
    assert row["outputs_equal"] and row["wired_accept_length"] >= 2.5 > 2.0 > row["miswired_accept_length"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_ends_the_servers_too(number: signal.Signals, tmp_path: Path) -> None:
    """A launcher that is ended however, while its server (here a process that sleeps) still starts."""
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)  # A background job ignores it.\n"
        "from pathlib import Path; from draftwire.cli import one_line; from draftwire.server import Server\n"
        "with one_line(), Server([], Path('server.log'), module=('-c', 'import time; time.sleep(60)')) as server:\n"
        "    print(server.process.pid, flush=True)\n"
        "    server.wait_ready()\n"
    )
    launcher = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert launcher.stdout
    server = int(launcher.stdout.readline())
    launcher.send_signal(number)
    assert launcher.wait(30) != 0
    end = time.monotonic() + 10
    while (alive := Path(f"/proc/{server}/cmdline").exists()) and time.monotonic() < end:
        time.sleep(0.05)
    assert not alive


def test_a_verdict_is_the_exit_status(monkeypatch: pytest.MonkeyPatch) -> None:
    for status in (0, 1):
        monkeypatch.setattr(demo, "run", lambda status=status: status)
        result = CliRunner().invoke(app, ["demo"])
        assert (result.exit_code, result.output) == (status, "")
    monkeypatch.setattr(demo, "run", lambda: (_ for _ in ()).throw(ServerError("server ended")))
    result = CliRunner().invoke(app, ["demo"])
    assert (result.exit_code, result.output) == (2, "draftwire: server ended\n")
