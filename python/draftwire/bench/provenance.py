"""Where a row comes from: releases, commit, hashes, device."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

from draftwire.bench.deployment import Deployment
from draftwire.bench.prompts import Prompts
from draftwire.delivery import find_delivery, installed_release
from draftwire.draft import find_directory
from draftwire.engine import find_device

WEIGHTS = ("*.safetensors", "*.bin", "*.pt")
# What a trainer leaves beside the weights.
TRAINERS = {"training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt", "scaler.pt"}


def provenance(deployment: Deployment, prompts: Prompts, draft_sha256: str | None) -> dict[str, Any]:
    """The row's keys beside its measurements. `commit`: of draftwire's checkout, `+` behind it where files differ from
    it, None where draftwire is installed from a wheel. `driver`: None without an NVIDIA GPU.
    """
    release = installed_release()
    return {
        "benchmark": "bench",
        "command": shlex.join(["draftwire", *sys.argv[1:]]),
        "date": datetime.now(timezone.utc).date().isoformat(),
        "config": str(deployment.file),
        "config_sha256": hashlib.sha256(deployment.file.read_bytes()).hexdigest(),
        "sglang": release,
        "flags": list(deployment.beside),
        "speculative_flags": deployment.said_of_speculation,
        "tp_size": deployment.ranks,
        "dp_size": deployment.replicas,
        "draftwire": version("draftwire"),
        "commit": commit(),
        "delivery": find_delivery(release, os.environ),
        "draft_sha256": draft_sha256,
        "draft_config_sha256": hash_config(deployment.draft) if deployment.draft else None,
        "device": f"cpu, {os.cpu_count()} cores" if deployment.on_cpu else find_device(),
        "driver": driver(),
        "prompts": {"file": str(prompts.file), "sha256": prompts.sha256, "count": len(prompts.items)},
    }


def hash_weights(directory: str) -> str | None:
    """SHA-256 over the draft's files of weights in the order of their names: safetensors, else .bin, else .pt, as
    SGLang chooses among them; None where there are none.
    """
    here = find_directory(directory)
    kinds = ([file for file in here.glob(kind) if file.name not in TRAINERS] for kind in WEIGHTS)
    files = next(filter(None, kinds), None)
    if not files:
        return None
    digest = hashlib.sha256()
    for file in sorted(files):
        with file.open("rb") as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()


def hash_config(directory: str) -> str | None:
    """SHA-256 of the draft's config.json, which holds its wiring; None where there is none."""
    file = find_directory(directory) / "config.json"
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None


def commit() -> str | None:
    here = Path(__file__).parents[1]
    if not shutil.which("git"):
        return None
    asked = subprocess.run(
        ["git", "-C", str(here), "rev-parse", "--short=7", "HEAD"], capture_output=True, text=True, check=False
    )
    if asked.returncode:
        return None
    # The tools and, beside them in a checkout, the overlay.
    changed = subprocess.run(["git", "-C", str(here), "diff", "--quiet", "HEAD", "--", str(here.parent)], check=False)
    return asked.stdout.strip() + ("+" if changed.returncode else "")


def driver() -> str | None:
    tool = shutil.which("nvidia-smi")
    if not tool:
        return None
    asked = subprocess.run([tool, "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True,
                           text=True, check=False)  # fmt: skip
    return asked.stdout.splitlines()[0].strip() if asked.stdout and not asked.returncode else None
