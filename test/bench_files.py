"""Launch files that the tests of the benchmark write."""

from pathlib import Path
from typing import Any

import yaml

from draftwire.bench.client import Load
from draftwire.bench.deployment import Deployment

ROOT = Path(__file__).resolve().parents[1]
DRAFT = {"speculative-algorithm": "EAGLE3", "speculative-draft-model-path": "draft", "speculative-num-steps": 3,
         "speculative-eagle-topk": 1, "speculative-num-draft-tokens": 4}  # fmt: skip
PLAIN = {"model-path": "org/target", "tp-size": 2, "max-running-requests": 8, "cuda-graph-max-bs-decode": 8}
LOAD = Load(requests=4, concurrency=2, tokens=40, fixed=False)


def deployment(folder: Path, **changes: Any) -> Deployment:
    table = {**PLAIN, **DRAFT, **changes}
    file = folder / "serve.yaml"
    file.write_text(yaml.safe_dump({key: value for key, value in table.items() if value is not None}))
    return Deployment(file)
