"""Cases for the doctor's checks: the small trained pair, healthy, and damaged in one place by a test."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from small_drafts import Tensor, pack

from draftwire.doctor import collect, examine
from draftwire.finding import Finding
from draftwire.headers import read_header
from draftwire.release import has

EXAMPLE = Path(__file__).parent.parent / "examples" / "tiny-deepseek-v3"
IDS = "eagle_aux_hidden_state_layer_ids"
FLAGS = (
    "--speculative-algorithm", "EAGLE3", "--speculative-num-steps", "3", "--speculative-eagle-topk", "1",
    "--speculative-num-draft-tokens", "4", "--max-running-requests", "4",
)  # fmt: skip


def read_config(kind: str = "draft") -> dict[str, Any]:
    return json.loads((EXAMPLE / kind / "config.json").read_text())


def read_weights(kind: str = "draft") -> dict[str, Tensor]:
    stored = read_header(EXAMPLE / kind / "model.safetensors")
    return {name: (tensor.dtype, tensor.shape, tensor.read()) for name, tensor in stored.items()}


def write(folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor] | None = None) -> Path:
    """A draft directory; with the example's weights, linked, where none are given."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    file = folder / "model.safetensors"
    if tensors is None:
        file.symlink_to((EXAMPLE / "draft" / "model.safetensors").resolve())
    else:
        file.write_bytes(pack(tensors))
    return folder


def damage(folder: Path, ids: Any = "as trained", tensors: Mapping[str, Tensor] | None = None, **keys: Any) -> Path:
    """The example's draft with other nested ids (None: none), tensors and top-level keys (None deletes one)."""
    config = read_config() | keys
    if ids != "as trained":
        nested = {key: value for key, value in config["eagle_config"].items() if key != IDS}
        config["eagle_config"] = nested if ids is None else nested | {IDS: ids}
    return write(folder, {key: value for key, value in config.items() if value is not None}, tensors)


def write_target(folder: Path, **keys: Any) -> Path:
    """The example's target with other keys in its config, its weights linked."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(read_config("target") | keys))
    (folder / "model.safetensors").symlink_to((EXAMPLE / "target" / "model.safetensors").resolve())
    return folder


def copy_example(folder: Path) -> Path:
    shutil.copytree(EXAMPLE / "draft", folder)
    return folder


def look(
    name: str,
    draft: Path = EXAMPLE / "draft",
    *flags: str,
    target: Path | None = EXAMPLE / "target",
    launch: Sequence[str] | None = FLAGS,
    release: str = "0.5.23",
    delivery: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> list[Finding]:
    """What one check says. `flags` are added to the launch; `launch` None: no launch flags are named."""
    command = [*(launch or ()), *flags]
    case = collect(
        str(draft), str(target) if target else None, None, command, release,
        delivery or ("overlay" if has(release, "layer_captures") else "stock"), environment or {},
    )  # fmt: skip
    return [finding for _, finding in examine(case, [name]).findings]


def only(findings: list[Finding], level: str, *words: str) -> Finding:
    """The one finding, which has this level and says all of `words` somewhere."""
    assert [finding.level for finding in findings] == [level], findings
    told = " ".join([findings[0].text, *findings[0].evidence, findings[0].remedy])
    for word in words:
        assert word in told, f"{word!r} is not in {told!r}"
    return findings[0]
