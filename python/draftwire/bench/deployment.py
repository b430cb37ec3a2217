"""A launch file and the arms that follow from it: the file itself, and the file without its draft."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from draftwire.bench.refusals import BenchError
from draftwire.draft import find_directory, read_config
from draftwire.engine import small_engine
from draftwire.flags import COMMAND_LINE, Flags, canonical, read_flags

ARMS = ("baseline", "eagle3", "mtp")
GRAPHS = ("cuda-graph-bs-decode", "cuda-graph-max-bs-decode", "cuda-graph-bs", "cuda-graph-max-bs",
          "cuda-graph-config")  # fmt: skip
STEPS, TOPK, TOKENS = "speculative-num-steps", "speculative-eagle-topk", "speculative-num-draft-tokens"
LEAST = {STEPS: 1, TOPK: 1, TOKENS: 2}  # What a verification looks at: the last token and a draft.
# The folder of a checkout into which targets are written: no organisation's name, also before it is there.
BUILT = "build"
# Keys of a separate draft, which DeepSeek's built-in head does not have.
OF_A_DRAFT = (
    "speculative-draft-model-path", "speculative-draft-model-revision", "speculative-draft-model-quantization",
    "speculative-draft-load-format", "speculative-draft-window-size", "speculative-token-map",
    "speculative-draft-attention-backend",
)  # fmt: skip


class Arm(NamedTuple):
    """One server to measure. `table`: its launch flags as in upstream's `--config`.

    `steps`, `topk`, `draft_tokens`: None without speculation.
    """

    name: str
    table: Mapping[str, Any]
    steps: int | None = None
    topk: int | None = None
    draft_tokens: int | None = None

    @property
    def label(self) -> str:
        return self.name if self.steps is None else f"{self.name} {self.steps}/{self.topk}/{self.draft_tokens}"

    def write(self, folder: Path) -> Path:
        """The arm's launch file, made from the deployment's for one run and never kept."""
        file = folder / f"{self.label.replace(' ', '-').replace('/', '-')}.yaml"
        file.write_text(yaml.safe_dump(dict(self.table), sort_keys=False))
        return file


class Deployment:
    """What a launch file says, and the launch flags beside it, which go before it as upstream has it.

    `beside`: those of the flags that every arm gets on its command line as they are; speculative ones go into the arms'
    files. Raises DraftError or BenchError, one line, on what cannot be compared.
    """

    def __init__(self, file: Path, flags: Sequence[str] = ()):
        self.file = file
        self.flags = read_flags(file, flags)
        self.beside = _without_speculative(flags)
        for name in ("speculative-algorithm", "model-path"):
            if not self.flags.said(name):
                raise BenchError(f"{name}", "none", file, "name what is to be served")
        if ours := next((name for name in ("host", "port") if self.flags.sources.get(name) == COMMAND_LINE), None):
            raise BenchError(f"no --{ours} among the launch flags", f"--{ours}", COMMAND_LINE,
                             "the servers are local; name a port with bench's own --port")  # fmt: skip
        _require_target(self.target, self.where("model-path"))
        _require_equal_limits(self.flags, file, self.where("max-running-requests"))

    def where(self, name: str) -> object:
        """The file, or the command line, which goes before it."""
        return COMMAND_LINE if self.flags.sources.get(name) == COMMAND_LINE else self.file

    @property
    def target(self) -> str:
        return self.flags.text("model-path")

    @property
    def tokenizer(self) -> str:
        return self.flags.text("tokenizer-path") or self.target

    @property
    def draft(self) -> str:
        return self.flags.text("speculative-draft-model-path")

    @property
    def ranks(self) -> int:
        return self.flags.number("tp-size") or 1

    @property
    def said_of_speculation(self) -> list[str]:
        """name=value of the speculative flags beside the file."""
        sources = self.flags.sources
        return [f"{key}={value}" for key, value in self.flags.values.items()
                if key.startswith("speculative-") and sources[key] == COMMAND_LINE]  # fmt: skip

    @property
    def replicas(self) -> int:
        """Of data parallelism."""
        return self.flags.number("dp-size") or 1

    @property
    def on_cpu(self) -> bool:
        return self.flags.text("device") == "cpu"

    @property
    def limit(self) -> int:
        """The most requests that run at once."""
        return self.flags.number("max-running-requests") or 0

    def environment(self) -> dict[str, str]:
        """Variables that the CPU engine needs and upstream's file has no keys for; what the user set goes first."""
        wanted = small_engine("cpu", self.ranks).env if self.on_cpu else {}
        return {name: value for name, value in wanted.items() if name not in os.environ}

    def arms(self, names: Sequence[str], steps: Sequence[int], tree: tuple[int, int] | None = None) -> list[Arm]:
        """In the order measured first. steps: of each speculative arm, one server each; none: as the file says.

        tree: topk and steps of one more EAGLE-3 arm.
        """
        if wrong := [name for name in names if name not in ARMS] or (["none"] if not names else []):
            raise BenchError(f"arms of {', '.join(ARMS)}", wrong[0], "--arms", "name some of them")
        if bad := [number for number in steps if not 1 <= number <= 64]:
            raise BenchError("1 to 64 speculative steps", bad[0], "--steps", "correct it")
        arms = []
        for name in dict.fromkeys(names):
            if name == "baseline":
                arms.append(Arm(name, {k: v for k, v in self._table().items() if not k.startswith("speculative-")}))
                continue
            table = self._table() if name == "eagle3" else self._with_built_in_head()
            if name == "eagle3" and self.flags.text("speculative-algorithm") != "EAGLE3":
                found = self.flags.text("speculative-algorithm")
                raise BenchError("speculative-algorithm EAGLE3", found, self.where("speculative-algorithm"),
                                 "correct it: the arm eagle3 is served by no other")  # fmt: skip
            arms += [self._speculative(name, table, number) for number in dict.fromkeys(steps) or [None]]
            if tree and name == "eagle3":
                arms.append(_tree(table, *tree))
        return sorted(arms, key=lambda arm: arm.name != "baseline")

    def _speculative(self, name: str, table: dict[str, Any], steps: int | None) -> Arm:
        said: dict[str, int] = {}
        for key, least in LEAST.items():
            number = self.flags.number(key)
            if number is None:
                raise BenchError(key, "none", self.file, "write it: SGLang's own choice depends on the model")
            if number < least:
                raise BenchError(f"{key} of at least {least}", number, self.where(key), "correct it")
            said[key] = number
        topk, tokens = said[TOPK], said[TOKENS]
        if steps is None:
            steps = said[STEPS]
            tokens = steps + 1 if topk == 1 else tokens  # As SGLang sets it, with a warning.
            return Arm(name, table | {TOKENS: tokens}, steps, topk, tokens)
        tokens = steps + 1 if topk == 1 else min(tokens, nodes(topk, steps))
        return Arm(name, table | {STEPS: steps, TOKENS: tokens}, steps, topk, tokens)

    def _table(self) -> dict[str, Any]:
        """The file's own keys, and of the flags beside it those that decide about speculation."""
        sources = self.flags.sources
        return {
            key: value
            for key, value in self.flags.values.items()
            if key.startswith("speculative-") or sources[key] != COMMAND_LINE
        }

    def _with_built_in_head(self) -> dict[str, Any]:
        directory = find_directory(self.target)
        said = read_config(directory)
        inner = said.get("text_config")
        text = inner if isinstance(inner, dict) else said
        layers = text.get("num_nextn_predict_layers") or 0
        if not layers:
            raise BenchError("a target with a built-in MTP head (num_nextn_predict_layers 1)", layers,
                             directory / "config.json", "leave mtp out of --arms")  # fmt: skip
        kept = {key: value for key, value in self._table().items() if key not in OF_A_DRAFT}
        return kept | {"speculative-algorithm": "EAGLE"}


def nodes(topk: int, steps: int) -> int:
    """The most that a tree verifies: the root, topk in its first step, topk * topk in each further one."""
    return 1 + topk + (steps - 1) * topk * topk


def tree_tokens(topk: int, steps: int) -> int:
    """What a tree of `topk` is given to verify where nobody says: topk chains' worth, as far as it has nodes."""
    return min(topk * (steps + 1), nodes(topk, steps))


def _tree(table: Mapping[str, Any], topk: int, steps: int) -> Arm:
    tokens = tree_tokens(topk, steps)
    return Arm("eagle3", {**table, STEPS: steps, TOPK: topk, TOKENS: tokens}, steps, topk, tokens)


def _without_speculative(command_line: Sequence[str]) -> tuple[str, ...]:
    """Flags with their values, those of speculation left out."""
    kept: list[str] = []
    keeps = True
    for token in command_line:
        if token.startswith("--"):
            name = canonical(token[2:].partition("=")[0], COMMAND_LINE)
            keeps = not name.startswith("speculative-")
        kept += [token] if keeps else []
    return tuple(kept)


def _require_target(name: str, where: object) -> None:
    """SGLang takes what is no directory for a hub id, and looks for it on the network once a server is started.

    Raises BenchError where it can be none: a hub id is org/name, and org no folder here. URLs are left to SGLang.
    """
    if Path(name).is_dir() or "://" in name:
        return
    first = name.partition("/")[0]
    hub = re.fullmatch(r"\w[\w.-]*/[\w.-]+", name, re.ASCII)
    if hub and first != BUILT and not Path(first).is_dir():
        return
    remedy = "correct the path"
    if not Path(name).is_absolute():
        remedy = (
            "correct it, make it if the file's comment says how, or run elsewhere: relative paths start at "
            f"{Path.cwd()}, and those of draftwire's configs at the root of its checkout"
        )
    raise BenchError("model-path of a directory, or a hub id such as org/name", name, where, remedy)


def _require_equal_limits(flags: Flags, file: Path, where: object) -> None:
    """Speculation sets 48 running requests and other graph sizes by default: an unfair comparison unless both say."""
    limit = flags.number("max-running-requests")
    if limit is None:
        raise BenchError("max-running-requests", "none", file, "write it: speculation alone would change it to 48")
    if limit < 1:
        raise BenchError("max-running-requests of at least 1", limit, where, "correct it")
    off = flags.said("disable-cuda-graph") or flags.text("cuda-graph-backend-decode") == "disabled"
    if not off and not any(flags.said(key) for key in GRAPHS):
        raise BenchError("cuda-graph-bs-decode or cuda-graph-max-bs-decode", "neither", file,
                         "write one: speculation changes the graphs' batch sizes")  # fmt: skip
