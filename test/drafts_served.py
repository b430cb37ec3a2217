"""A server whose draft can be exchanged, and what its draft computed, by way of `test/probe`."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from draftwire.engine import small_engine
from draftwire.server import Server, ServerError

PROBE = Path(__file__).parent / "probe"
ROOT = Path(__file__).parent.parent
TARGET = ROOT / "examples" / "tiny-deepseek-v3" / "target"


class Drafted(NamedTuple):
    """hidden [T, K x hidden] and tokens [T + 2] that the draft was fed; logits [3, draft vocabulary] by step."""

    hidden: Any
    tokens: Any
    logits: Any


class DraftServer:
    """Serves the small target in float32 with one draft after another. A context manager."""

    def __init__(self, draft: Path, folder: Path, *, python_path: Sequence[Path] = (), env: dict | None = None):
        self.folder = folder
        engine = small_engine("cpu")
        flags = ["--model-path", str(TARGET), "--dtype", "float32", "--speculative-algorithm", "EAGLE3",
                 "--speculative-draft-model-path", str(draft), "--speculative-num-steps", "3",
                 "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4", "--disable-radix-cache",
                 *engine.flags]  # fmt: skip
        paths = [*map(str, python_path), str(PROBE), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.server = Server(
            flags, folder / "server.log",
            env={**engine.env, "DRAFT_PROBE": str(folder), "PYTHONPATH": os.pathsep.join(paths), **(env or {})},
        )  # fmt: skip

    def __enter__(self) -> DraftServer:
        self.server.__enter__()
        self.server.wait_ready(240)
        return self

    def __exit__(self, *failure: object) -> None:
        self.server.__exit__(*failure)

    def exchange(self, draft: Path) -> str | None:
        """Serve `draft` from now on. The refusal, where it was refused: the server then ends, as it should."""
        for name in ("swapped", "refused"):
            (self.folder / name).unlink(missing_ok=True)
        (self.folder / "swap").write_text(str(draft))
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and self.server.process.poll() is None:
            if (self.folder / "swapped").exists():
                return None
            if (self.folder / "refused").exists() and (line := (self.folder / "refused").read_text()):
                return line
            time.sleep(0.05)
        raise ServerError(f"draft not exchanged: {self.server.cause()}")

    def draft(self, prompt: Sequence[int]) -> Drafted:
        """What the draft was fed and answered at the end of `prompt`, over its three test-time steps."""
        import torch

        for file in self.folder.glob("call-*.pt"):
            file.unlink()
        self.server.generate(prompt, 2)
        calls = [torch.load(self.folder / f"call-{i:04d}.pt") for i in range(3)]
        extend, *steps = calls
        assert extend["hidden"].shape[0] == len(prompt), (extend["hidden"].shape, len(prompt))
        tokens = torch.cat([extend["tokens"], *(step["tokens"] for step in steps)])
        logits = torch.cat([call["logits"][-1:] for call in calls])
        return Drafted(extend["hidden"], tokens, logits)
