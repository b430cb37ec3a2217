"""Upstream's own client against a running server, and what it measured."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from draftwire.bench.refusals import BenchError
from draftwire.server import Server, directly, end_with_parent

# Seconds in which a server that fails requests ends, if it is about to.
DYING = 3.0


class Load(NamedTuple):
    """What is asked of a server in one run; equal for all arms.

    tokens: the most that an answer has. fixed: exactly so many, the end of sequence ignored. temperature: 0 is greedy.
    """

    requests: int
    concurrency: int
    tokens: int
    fixed: bool
    temperature: float = 0.0
    top_p: float = 1.0

    @property
    def length(self) -> str:
        return "fixed" if self.fixed else "eos"

    def flags(self) -> list[str]:
        """The part of the client's command that the load decides."""
        flags = ["--num-prompts", str(self.requests), "--max-concurrency", str(self.concurrency)]
        flags += ["--sharegpt-output-len", str(self.tokens)]
        flags += [] if self.fixed else ["--disable-ignore-eos"]
        flags += ["--temperature", str(self.temperature)] if self.temperature else []
        return flags + (["--top-p", str(self.top_p)] if self.top_p < 1 else [])


class Run(NamedTuple):
    """One run of upstream's client: its own figures (tok/s and ms, medians over requests unless named), and per
    request in the order asked: tokens in and out, and text. `failed`: requests without an answer.
    `accept_length`: the server's own running mean, None without speculation.
    """

    load: Load
    duration: float
    tok_s: float
    ttft_ms: float
    tpot_ms: float
    itl_p50_ms: float
    itl_p99_ms: float
    tokens_in: list[int]
    tokens_out: list[int]
    texts: list[str]
    failed: int
    error: str
    accept_length: float | None

    @classmethod
    def of(cls, load: Load, record: dict[str, Any]) -> Run:
        """From the record that upstream writes with --output-details.

        An answer without text counts as failed: upstream credits it with all tokens that were asked for.
        """
        texts, errors = record["generated_texts"], record["errors"]
        missing = load.requests - len(texts)
        failed = sum(not text or bool(error) for text, error in zip(texts, errors, strict=True))
        error = next((e for e in errors if e), "" if all(texts) else "an answer without text")
        return cls(
            load,
            record["duration"],
            record["output_throughput"],
            record["median_ttft_ms"],
            record["median_tpot_ms"],
            record["median_itl_ms"],
            record["p99_itl_ms"],
            record["input_lens"],
            record["output_lens"],
            texts,
            failed + missing,
            " ".join(error.split())[-200:],
            record.get("accept_length"),
        )


class Client:
    """A process that runs upstream's client; a context manager. It starts to import at once and is awaited later."""

    def __init__(self, folder: Path, tokenizer: str, model: str, python: str = sys.executable):
        self.folder, self.tokenizer, self.model, self.python = folder, tokenizer, model, python
        self.log = folder / "client.log"
        self.process: subprocess.Popen | None = None
        self._answers = -1
        self._number = 0

    def __enter__(self) -> Client:
        self._answers, theirs = os.pipe()
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [self.python, "-m", "draftwire.bench.upstream", str(theirs)],
                env={**os.environ, **directly(), "PYTHONUNBUFFERED": "1", "TOKENIZERS_PARALLELISM": "false"},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[theirs],
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        os.close(theirs)
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process is not None and self.process.stdin is not None
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):  # What a client that was killed had not read yet.
            self.process.stdin.close()
        os.close(self._answers)

    def render(self, items: Sequence[Any], name: str, timeout: float) -> list[str]:
        """The prompts as text; the client reads them from the file `name`."""
        job = {"render": list(items), "tokenizer": self.tokenizer, "out": str(self.folder / name)}
        return self._ask(job, timeout, lambda: None)["texts"]

    def command(self, server: Server, load: Load, dataset: str, out: Path) -> list[str]:
        """Arguments of `python -m sglang.bench_serving`. The server is warm by then, and its cache is flushed."""
        fixed = ["--backend", "sglang", "--host", "127.0.0.1", "--port", str(server.port)]
        fixed += ["--model", self.model, "--tokenizer", self.tokenizer]
        fixed += ["--dataset-name", "custom", "--dataset-path", str(self.folder / dataset), "--seed", "1"]
        fixed += ["--warmup-requests", "0", "--flush-cache", "--disable-tqdm"]
        return [*fixed, *load.flags(), "--output-file", str(out), "--output-details"]

    def measure(self, server: Server, load: Load, dataset: str, timeout: float, tick: Callable[[], None]) -> Run:
        """Raises BenchError when the client or the server ends, or `timeout` seconds pass."""
        self._number += 1
        out = self.folder / f"run-{self._number}.jsonl"

        def watch() -> None:
            server.require_alive()
            tick()

        try:
            self._ask({"argv": self.command(server, load, dataset, out)}, timeout, watch)
        except BenchError:
            server.require_alive(DYING)
            raise
        run = Run.of(load, json.loads(out.read_text().splitlines()[-1]))
        server.require_alive(DYING if run.failed else 0)
        return run

    def _ask(self, job: dict[str, Any], timeout: float, watch: Callable[[], None]) -> dict[str, Any]:
        assert self.process is not None and self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None
        end, line = time.monotonic() + timeout, b""
        while not line.endswith(b"\n"):
            if select.select([self._answers], [], [], 0.25)[0]:
                chunk = os.read(self._answers, 65536)
                if not chunk:
                    raise self._ended()
                line += chunk
                continue
            watch()
            if time.monotonic() > end:
                raise BenchError("upstream's client to end", f"it running after {timeout:.0f} s", self.log,
                                 "look at the server, or give more time with --timeout")  # fmt: skip
        said = json.loads(line)
        if "error" in said:
            raise BenchError("upstream's client to measure", said["error"], self.log, "see its last lines")
        return said

    def _ended(self) -> BenchError:
        assert self.process is not None
        status = self.process.wait(10)
        by = f"ended by signal {-status}" if status < 0 else f"ended with status {status}"
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return BenchError("upstream's client to run", f"it {by}: {(lines or ['no output'])[-1]}", self.log, "see there")
