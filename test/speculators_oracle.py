"""speculators of PyPI, 0.9.0 and before, in an interpreter of its own: it makes drafts, and says what they compute."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from draftwire.pair import Pair

HERE = Path(__file__).parent / "oracle"
SCRIPT, REQUIREMENTS = HERE / "speculators_drafts.py", HERE / "requirements.txt"
VERSION = "0.9.0"
TRANSFORMERS_4 = ["transformers==4.57.6", "huggingface_hub==0.36.0", "tokenizers==0.22.1"]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "draftwire"


@functools.cache
def interpreter() -> str:
    """Its Python; built once, some minutes and 1.5 GB, in a folder named by the pins."""
    pins = hashlib.sha256(REQUIREMENTS.read_bytes() + VERSION.encode()).hexdigest()[:12]
    folder = CACHE / f"speculators-{VERSION}-{pins}"
    python, whole = folder / "bin" / "python", folder / "whole"
    if not whole.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [python, "-m", "pip", "install", "-q"]
        subprocess.run([*pip, "-r", REQUIREMENTS], check=True)
        subprocess.run([*pip, "--no-deps", f"speculators=={VERSION}"], check=True)
        whole.touch()
    return str(python)


@functools.cache
def older(version: str) -> str:
    """A folder with an older speculators, to be imported before 0.9.0; up to 0.7 with the transformers 4 of its day."""
    wanted = [f"speculators=={version}", *(TRANSFORMERS_4 if version < "0.8" else [])]
    pins = hashlib.sha256("\n".join(wanted).encode()).hexdigest()[:12]
    folder = CACHE / f"speculators-{version}-{pins}"
    if not (folder / "whole").exists():
        shutil.rmtree(folder, ignore_errors=True)
        pip = [interpreter(), "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder)]
        subprocess.run([*pip, *wanted], check=True)
        (folder / "whole").touch()
    return str(folder)


def make_drafts(cases: list[dict[str, Any]], target: Path, out: Path, version: str = VERSION) -> None:
    """One directory `out/<name>` a case, saved by speculators itself. See the script for a case's keys."""
    _run(["make", str(target.absolute()), str(out)], cases, version)


def compute_logits(requests: list[tuple[Path, Path, Path]], version: str = VERSION) -> None:
    """For (draft, states, out): write to `out` what speculators' forward answers to `states`."""
    _run(["logits"], [list(map(str, request)) for request in requests], version)


def _run(arguments: list[str], given: Any, version: str) -> None:
    path = "" if version == VERSION else older(version)
    ran = subprocess.run(
        [interpreter(), SCRIPT, *arguments], input=json.dumps(given), text=True, capture_output=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]


def made_once(cases: Iterable[dict[str, Any]]) -> Any:
    """A fixture of its module: the folder in which speculators has made the cases' drafts, by their names."""

    @pytest.fixture(scope="module")
    def made(tmp_path_factory: pytest.TempPathFactory, pair: Pair) -> Path:
        folder = tmp_path_factory.mktemp("made")
        make_drafts(list(cases), pair.target, folder)
        return folder

    return made
