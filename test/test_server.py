"""`Server` as a client of the server it started."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from draftwire.server import Server, directly


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._say({"path": self.path})

    def do_POST(self) -> None:
        self._say(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _say(self, answer: dict) -> None:
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), Answer) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield listening.server_address[1]
        listening.shutdown()


def test_a_server_asks_itself_directly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SGLang warms itself up by HTTP before it says that it is ready."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert {Server([], tmp_path / "log").env[name] for name in ("no_proxy", "NO_PROXY")} == {"127.0.0.1"}
    monkeypatch.setenv("NO_PROXY", "example.org")
    assert Server([], tmp_path / "log").env["no_proxy"] == "example.org,127.0.0.1" == directly()["NO_PROXY"]


def test_a_proxy_is_not_asked_for_our_own_server(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    server = Server([], tmp_path / "log")
    server.port = port
    assert json.loads(server.get("/health", timeout=5)) == {"path": "/health"}
    assert server.post("/generate", {"a": 1}, timeout=5) == {"a": 1}
