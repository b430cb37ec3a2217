"""Launch flags of SGLang's server, from its own `--config` YAML and a command line. Needs neither SGLang nor torch."""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from draftwire.headers import DraftError

LARGEST_FILE = 1024 * 1024
COMMAND_LINE = "the command line"
ALIASES = {
    "config": "config",
    "model": "model-path",
    "speculative-algo": "speculative-algorithm",
    "speculative-draft-model": "speculative-draft-model-path",
    "tp": "tp-size",
    "tensor-parallel-size": "tp-size",
    "pp": "pp-size",
    "pipeline-parallel-size": "pp-size",
    "dp": "dp-size",
    "data-parallel-size": "dp-size",
}
# What is read of a launch, by the checks and elsewhere.
READ = (
    "attention-backend", "config", "context-length", "decode-attention-backend", "disable-cuda-graph",
    "disaggregation-mode", "dp-size", "enable-attn-tp-input-scattered", "enable-dp-attention", "enable-mixed-chunk",
    "enable-two-batch-overlap", "enforce-disable-flashinfer-allreduce-fusion", "max-running-requests", "model-path",
    "moe-a2a-backend", "page-size", "pp-size", "prefill-attention-backend", "quantization", "revision",
    "speculative-algorithm", "speculative-draft-attention-backend", "speculative-draft-model-path",
    "speculative-draft-model-quantization", "speculative-draft-model-revision", "speculative-draft-window-size",
    "speculative-eagle-topk", "speculative-num-draft-tokens", "speculative-num-steps", "tp-size",
)  # fmt: skip


class Flags:
    """Flags by their first long name, without dashes before it; a flag without a value is True.

    The command line goes before the file, as upstream has it. `where(name)` says which of them it came from.
    """

    def __init__(self, values: Mapping[str, Any], sources: Mapping[str, str]):
        self.values, self.sources = dict(values), dict(sources)

    def where(self, name: str) -> str:
        return self.sources.get(name, "no flag")

    def said(self, name: str) -> bool:
        """Whether it is given and not false."""
        return self.values.get(name) not in (None, False)

    def text(self, name: str, default: str = "") -> str:
        """One value as text. Raises DraftError on a list or a table."""
        value = self.values.get(name)
        if isinstance(value, (list, dict)):
            raise DraftError(
                f"one value of --{name}", f"a {type(value).__name__}", self.where(name), "correct the flag"
            )
        return default if value is None else str(value)

    def number(self, name: str) -> int | None:
        """A whole number, None where the flag is not given. Raises DraftError on anything else."""
        text = self.text(name)
        if self.values.get(name) is None:
            return None
        if re.fullmatch(r"[+-]?\d{1,18}", text, re.ASCII):
            return int(text)
        raise DraftError(f"--{name} with a whole number", repr(text)[:60], self.where(name), "correct the flag")


def read_flags(config: Path | None, command_line: Sequence[str]) -> Flags:
    """Flags of a YAML file and of a command line, in which `--config FILE` may name the file instead.

    Raises DraftError on a file that upstream would not read either, and on a command line that is none.
    """
    given = _read_command_line(command_line)
    named = given.pop("config", None)
    if named is not None and config is not None:
        raise DraftError("one config file", f"{config} and {named}", "the launch flags", "name one of them")
    if named is True or isinstance(named, list):
        raise DraftError("one file after --config", repr(named), "the launch flags", "name the file")
    file = config or (Path(str(named)) if named is not None else None)
    values = _read_file(file) if file else {}
    sources = {**dict.fromkeys(values, str(file and file.name)), **dict.fromkeys(given, COMMAND_LINE)}
    return Flags({**values, **given}, sources)


def canonical(name: str, where: object) -> str:
    """The first long name. Raises DraftError on underscores, for which SGLang's parser ends with a usage message, and
    on a name that is cut short: argparse completes it, and it would not be looked at here."""
    if "_" in name:
        raise DraftError(f"--{name.replace('_', '-')}"[:80], name[:80], where, "write dashes, SGLang takes no others")
    if name in READ or name in ALIASES:
        return ALIASES.get(name, name)
    if name and (whole := next((n for n in (*READ, *ALIASES) if n.startswith(name)), None)):
        raise DraftError(f"--{whole}", f"--{name}", where, "write the whole name, as SGLang would complete it")
    return name


def _read_command_line(tokens: Sequence[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    name = None
    for token in tokens:
        if token.startswith("--") and len(token) > 2:
            raw, equals, value = token[2:].partition("=")
            name = canonical(raw, COMMAND_LINE)
            values[name] = value if equals else True
        elif name is None:
            raise DraftError("launch flags such as --tp-size 8", repr(token)[:60], COMMAND_LINE, "name the flag")
        elif values[name] is True:
            values[name] = token
        elif isinstance(values[name], list):
            values[name].append(token)
        else:
            values[name] = [values[name], token]
    return values


def _read_file(file: Path) -> dict[str, Any]:
    import yaml

    try:
        if file.suffix.lower() not in (".yaml", ".yml"):
            raise DraftError(
                "a .yaml or .yml file, as SGLang's --config", file.suffix or "no suffix", file, "rename it"
            )
        if not stat.S_ISREG(file.stat().st_mode) and not file.is_dir():
            raise DraftError("a regular file", "a pipe or device", file, "write the flags to a file")
        with file.open("rb") as stream:
            content = stream.read(LARGEST_FILE + 1)
    except OSError as failure:
        raise DraftError("a YAML file", failure.strerror or type(failure).__name__, file, "check the path") from None
    if len(content) > LARGEST_FILE:
        raise DraftError(f"at most {LARGEST_FILE} bytes of YAML", "more", file, "check the path")
    try:
        table = yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError, LookupError, TypeError) as failure:
        mark = getattr(failure, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark else ""
        raise DraftError("YAML", f"{type(failure).__name__}{line}", file, "correct the file") from None
    if table is None:
        return {}
    if not isinstance(table, dict) or not all(isinstance(key, str) for key in table):
        raise DraftError("a table of flags", type(table).__name__, file, "write one `flag: value` a line")
    if deep := [k for k, v in table.items() if isinstance(v, list) and any(isinstance(i, (list, dict)) for i in v)]:
        raise DraftError(f"a flat list for {deep[0]}", "a nested one", file, "correct the file")
    return {canonical(key, file): value for key, value in table.items() if value is not None}
