"""Launch SGLang's own server, wait for it, ask it, and end it with every process it started."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

_NAMES_AN_ERROR = re.compile(r"draftwire: expected|([\w.]*\.)?\w*(Error|Exception)\b(: .|$)")


_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class ServerError(RuntimeError):
    """The server did not come up or did not answer; one line with the cause that its log names."""


def directly() -> dict[str, str]:
    """Variables for a process that asks a server on this machine, whatever proxy the environment names for the rest.

    SGLang asks itself before it says that it is ready.
    """
    said = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
    return dict.fromkeys(("no_proxy", "NO_PROXY"), ",".join(filter(None, (said, "127.0.0.1"))))


def free_port() -> int:
    """A TCP port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def require_free(port: int) -> int:
    """`port`, on which nothing listens. Raises ServerError where something does."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as failure:
            raise ServerError(f"expected port {port} free, found {failure.strerror}; name another") from None
    return port


def end_with_parent() -> None:
    """In a child, before it runs: SIGTERM when the process that launched it ends, however it does (Linux)."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


class Server:
    """`python -m sglang.launch_server` in a process group of its own; a context manager.

    flags: upstream's own. env: added to this process's environment. log: file that takes both streams.
    """

    def __init__(
        self,
        flags: Sequence[str],
        log: Path,
        *,
        env: Mapping[str, str] | None = None,
        python: str = sys.executable,
        module: Sequence[str] = ("-m", "sglang.launch_server"),
        port: int | None = None,
    ):
        self.port = require_free(port) if port else free_port()
        self.command = [python, *module, *flags, "--host", "127.0.0.1", "--port", str(self.port)]
        self.env = {**os.environ, **directly(), "PYTHONUNBUFFERED": "1", **(env or {})}
        self.log = log
        self.process: subprocess.Popen | None = None

    def start(self) -> Server:
        with self.log.open("w") as file:
            self.process = subprocess.Popen(
                self.command,
                env=self.env,
                stdout=file,
                stderr=file,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        return self

    def wait_ready(self, timeout: float = 180, tick: Callable[[float], None] = lambda seconds: None) -> float:
        """Seconds until /health answers. Raises ServerError when the process ends or `timeout` runs out."""
        assert self.process is not None
        start = time.monotonic()
        while (passed := time.monotonic() - start) < timeout:
            self.require_alive()
            try:
                self.get("/health", timeout=2)
                return passed
            except (urllib.error.URLError, OSError):
                tick(passed)
                time.sleep(0.25)
        raise ServerError(f"server not ready after {timeout:.0f} s: {self.cause()} (log: {self.log})")

    def require_alive(self, patience: float = 0) -> None:
        """Raises ServerError with the cause where the server has ended, or does within `patience` seconds."""
        assert self.process is not None
        end = time.monotonic() + patience
        while (status := self.process.poll()) is None and time.monotonic() < end:
            time.sleep(0.05)
        if status is not None:
            how = f"by signal {-status}" if status < 0 else f"with status {status}"
            raise ServerError(f"server ended {how}: {self.cause()} (log: {self.log})")

    def cause(self) -> str:
        """The log's last line that names an error, else its last line: SGLang says much after it has failed."""
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        named = [line for line in lines if _NAMES_AN_ERROR.match(line)]
        return (named or lines or ["no output"])[-1]

    def get(self, path: str, timeout: float = 30) -> bytes:
        with _DIRECT.open(f"http://127.0.0.1:{self.port}{path}", timeout=timeout) as answer:
            return answer.read()

    def post(self, path: str, body: Mapping[str, Any], timeout: float = 600) -> Any:
        """POST JSON, return the decoded answer (None where it is empty).

        Raises ServerError with the server's words on an HTTP error.
        """
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        try:
            with _DIRECT.open(request, timeout=timeout) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise ServerError(f"{path} answered {error.code}: {error.read()[:300].decode(errors='replace')}") from None

    def generate(self, prompt: Sequence[int], tokens: int, **fields: Any) -> Any:
        """Greedy continuation of `prompt` (token ids) by `tokens` tokens, upstream's /generate answer."""
        sampling = {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}
        return self.post("/generate", {"input_ids": list(prompt), "sampling_params": sampling, **fields})

    def flush_cache(self, patience: float = 10) -> None:
        """Empty the radix cache, as soon as nothing runs. Raises ServerError after `patience` seconds."""
        end = time.monotonic() + patience
        while True:
            try:
                self.get("/flush_cache")
                return
            except urllib.error.HTTPError as error:
                if time.monotonic() > end:
                    raise ServerError(f"/flush_cache answered {error.code} for {patience:.0f} s") from None
                time.sleep(0.1)

    def wait(self, timeout: float) -> int:
        """The exit status of a server that ends by itself. Raises subprocess.TimeoutExpired."""
        assert self.process is not None
        return self.process.wait(timeout)

    def stop(self) -> None:
        """End the server and its process group: SIGTERM to it, and SIGKILL to all that is left after 10 s.

        Only 1 s where it has ended already and left processes behind. An interrupt meanwhile (a second Ctrl-C) ends
        the patience, not the clean-up.
        """
        if self.process is None:
            return
        try:
            patience = 10 if self.process.poll() is None else 1
            self.process.terminate()
            end = time.monotonic() + patience
            while self.is_alive() and time.monotonic() < end:
                time.sleep(0.05)
        finally:
            if self.is_alive():
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def is_alive(self) -> bool:
        """Whether any process of the server's group still runs."""
        assert self.process is not None
        self.process.poll()
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
