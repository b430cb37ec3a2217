"""`draftwire launch`: the checks first, then upstream's server; errors stop it, and --anyway is said."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from cases import EXAMPLE, damage, read_weights, write_target
from typer.testing import CliRunner

from draftwire.cli import app
from draftwire.engine import small_engine
from draftwire.pair import example_pair
from draftwire.server import Server, free_port

FLAGS = {
    "speculative-algorithm": "EAGLE3", "speculative-num-steps": 3, "speculative-eagle-topk": 1,
    "speculative-num-draft-tokens": 4, "max-running-requests": 4, "disable-cuda-graph": True,
}  # fmt: skip


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Command lines that would have been run in place of this process, which goes on."""
    lines: list[list[str]] = []
    monkeypatch.setattr("os.execv", lambda program, command: lines.append(command))
    for name in ("SGLANG_PLUGINS", "DRAFTWIRE"):
        monkeypatch.delenv(name, raising=False)
    return lines


def write_yaml(folder: Path, draft: Path | None = EXAMPLE / "draft", **flags: object) -> Path:
    named = {"speculative-draft-model-path": str(draft)} if draft else {}
    file = folder / "serve.yaml"
    file.write_text(
        yaml.safe_dump({"model-path": str(EXAMPLE / "target"), **(FLAGS if draft else {}), **named, **flags})
    )
    return file


def launch(*arguments: object):
    return CliRunner().invoke(app, ["launch", *map(str, arguments)])


def test_a_healthy_config_starts(tmp_path: Path, started: list) -> None:
    file = write_yaml(tmp_path)
    result = launch(file, "--port", "1", "--tp=2")
    assert result.exit_code == 0, result.stderr
    assert started == [[sys.executable, "-m", "sglang.launch_server", "--config", str(file), "--port", "1", "--tp=2"]]
    assert "WIRED" in result.stderr and result.stdout == ""


def test_an_error_stops_it(tmp_path: Path, started: list) -> None:
    file = write_yaml(tmp_path, damage(tmp_path / "draft", [5, 2, -1]))
    result = launch(file)
    assert result.exit_code == 1 and started == [] and "ids_ascending" in result.stderr


@pytest.mark.parametrize("place", ["before", "after"])
def test_anyway_is_said(tmp_path: Path, started: list, place: str) -> None:
    file = write_yaml(tmp_path, damage(tmp_path / "draft", [5, 2, -1]))
    result = launch("--anyway", file) if place == "before" else launch(file, "--tp", "1", "--anyway")
    assert result.exit_code == 0 and len(started) == 1 and "--anyway" not in started[0]
    assert "starting anyway (--anyway)" in result.stderr and "MISWIRED" in result.stderr


def test_the_command_line_goes_before_the_file(tmp_path: Path, started: list) -> None:
    file = write_yaml(tmp_path)
    assert launch(file, "--speculative-num-draft-tokens", "24").exit_code == 1
    assert launch(file, "--pp-size", "2").exit_code == 1
    assert launch(write_yaml(tmp_path, **{"pp-size": 2}), "--pp-size", "1").exit_code == 0
    other = write_target(tmp_path / "target", vocab_size=2048)
    assert launch(file, "--model-path", other).exit_code == 1
    assert len(started) == 1


def test_the_doctor_reads_the_same_file(tmp_path: Path, started: list) -> None:
    file = write_yaml(tmp_path)
    doctor = CliRunner().invoke(app, ["doctor", "--serve", str(file), "--sglang", "0.5.23"])
    assert doctor.exit_code == 0 and doctor.stdout.splitlines()[-1].endswith("WIRED"), doctor.output
    worse = CliRunner().invoke(app, ["doctor", "--serve", str(file), "--", "--speculative-algorithm", "EAGLE"])
    assert worse.exit_code == 1 and "--speculative-algorithm EAGLE in the command line" in worse.stdout


def test_what_cannot_be_looked_at_does_not_start(tmp_path: Path, started: list) -> None:
    file = write_yaml(tmp_path, tmp_path / "nothing")
    result = launch(file)
    assert result.exit_code == 2 and started == [] and len(result.stderr.splitlines()) == 1
    assert launch(tmp_path / "none.yaml").exit_code == 2
    assert launch(write_yaml(tmp_path, **{"pp-size": "two"})).exit_code != 0
    assert launch("--anyway", file).exit_code == 0 and len(started) == 1


def test_underscores_are_no_flags_to_upstream(tmp_path: Path, started: list) -> None:
    result = launch(write_yaml(tmp_path, tp_size=2))
    assert result.exit_code == 2 and started == [] and "tp_size" in result.stderr and "dashes" in result.stderr


def test_no_draft_no_checks(tmp_path: Path, started: list) -> None:
    result = launch(write_yaml(tmp_path, draft=None))
    assert result.exit_code == 0 and len(started) == 1 and "nothing to check" in result.stderr


def test_upstream_reads_the_same_file_alike(tmp_path: Path) -> None:
    """SGLang's own merger, on the flags that are read here."""
    from sglang.srt.utils.server_args_config_parser import ConfigArgumentMerger

    from draftwire.flags import read_flags

    file = write_yaml(tmp_path, **{"pp-size": 2, "enable-two-batch-overlap": False, "cuda-graph-bs": [1, 2]})
    merger = ConfigArgumentMerger(boolean_actions=["disable_cuda_graph", "enable_two_batch_overlap"])
    command_line = ["--pp-size", "4", "--trust-remote-code"]
    merged = merger.merge_config_with_args([*command_line, "--config", str(file)])
    theirs, mine = read_flags(None, merged), read_flags(file, command_line)
    assert "--enable-two-batch-overlap" not in merged and not mine.said("enable-two-batch-overlap")
    for name, value in theirs.values.items():
        found = mine.values[name]
        assert value == ([str(i) for i in found] if isinstance(found, list) else found if found is True else str(found))
    assert mine.number("pp-size") == 4


@pytest.mark.slow
def test_it_really_serves(tmp_path: Path, device: str) -> None:
    pair, engine = example_pair(), small_engine(device)
    file = write_yaml(tmp_path, dtype="float32")
    file.write_text(file.read_text().replace("disable-cuda-graph: true\n", ""))
    module = (sys.executable, "-m", "draftwire", "launch", str(file))
    with Server(engine.flags, tmp_path / "log", port=free_port(), env=engine.env, module=module[1:]) as server:
        server.wait_ready(300)
        assert server.generate(pair.prompts[0], 16)["meta_info"]["spec_verify_ct"] <= 12
        log = (tmp_path / "log").read_text()
    assert "WIRED" in log and "aux hidden states at boundaries [0, 3, 6]" in log


@pytest.mark.slow
def test_nothing_is_started_for_an_error(tmp_path: Path) -> None:
    file = write_yaml(tmp_path, damage(tmp_path / "draft", [0, 3]))
    ran = subprocess.run([sys.executable, "-m", "draftwire", "launch", str(file)], capture_output=True, text=True)
    assert ran.returncode == 1 and "MISWIRED" in ran.stderr and "launch_server" not in ran.stderr


@pytest.mark.parametrize(
    ("tokens", "word"),
    [
        (["--tp_size", "2"], "--tp-size"),
        (["stray"], "stray"),
        (["--config"], "--config"),
        (["--config", "a.txt"], "a.txt"),
    ],
)
def test_command_lines_that_are_none(tokens: list[str], word: str) -> None:
    from draftwire.draft import DraftError
    from draftwire.flags import read_flags

    with pytest.raises(DraftError, match=word):
        read_flags(None, tokens)


@pytest.mark.parametrize(
    ("algorithm", "draft"), [("NGRAM", None), ("NEXTN", None), ("STANDALONE", "/a/llm"), ("dflash", "/a/b")]
)
def test_drafts_of_another_kind_are_let_through(
    tmp_path: Path, started: list, algorithm: str, draft: str | None
) -> None:
    named = {"speculative-draft-model-path": draft} if draft else {}
    result = launch(write_yaml(tmp_path, draft=None, **{"speculative-algorithm": algorithm}, **named))
    assert result.exit_code == 0 and len(started) == 1 and "nothing to check" in result.stderr


def test_eagle3_without_a_draft(tmp_path: Path, started: list) -> None:
    result = launch(write_yaml(tmp_path, draft=None, **{"speculative-algorithm": "EAGLE3"}))
    assert (result.exit_code, started) == (2, []) and "--speculative-draft-model-path" in result.stderr


def test_names_cut_short_are_refused_as_argparse_would_complete_them() -> None:
    """Every name that SGLang's parser completes to one that is read here; and no name of its own is refused."""
    import argparse

    from sglang.srt.server_args import ServerArgs

    from draftwire.draft import DraftError
    from draftwire.flags import ALIASES, READ, canonical

    parser = argparse.ArgumentParser(exit_on_error=False)
    ServerArgs.add_cli_args(parser)
    names = {option.removeprefix("--") for action in parser._actions for option in action.option_strings}
    assert set(READ) <= names
    assert {canonical(name, "the command line") for name in names - {"-h"} if "_" not in name}
    read = {name for name in names if ALIASES.get(name, name) in READ}
    for name in read:
        for end in range(1, len(name)):
            cut = name[:end]
            if cut not in names | ALIASES.keys() and len({n for n in names if n.startswith(cut)}) == 1:
                with pytest.raises(DraftError, match="whole name"):
                    canonical(cut, "the command line")


def test_every_flag_that_is_read_is_in_the_list() -> None:
    import re

    from draftwire import checks
    from draftwire.flags import READ

    root = Path(checks.__file__).parent.parent
    text = "".join(file.read_text() for file in [*root.glob("checks/*.py"), root / "launch_command.py"])
    said = set(re.findall(r'flags\.(?:said|text|number)\("([\w-]+)"', text))
    said |= set(re.findall(r'"((?:speculative|enable|enforce|disable)-[\w-]+)"', text))
    assert said <= set(READ), said - set(READ)


def test_a_pipe_is_no_config(tmp_path: Path, started: list) -> None:
    import os

    os.mkfifo(tmp_path / "serve.yaml")
    result = launch(tmp_path / "serve.yaml")
    assert (result.exit_code, started) == (2, []) and "a pipe" in result.stderr


def other_kind(folder: Path, config: dict, weights: str = "pytorch_model.bin") -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / weights).write_bytes(b"")
    return folder


@pytest.mark.parametrize(
    ("algorithm", "config"),
    [
        ("NEXTN", {"architectures": ["DeepseekV3ForCausalLMNextN"], "model_type": "deepseek_v3"}),
        ("NEXTN", {"architectures": ["DeepseekV3ForCausalLM"], "num_nextn_predict_layers": 1}),
        ("EAGLE", {"architectures": ["LlamaForCausalLMEagle"], "model_type": "llama", "num_hidden_layers": 1}),
    ],
)
def test_valid_drafts_of_another_kind_start(tmp_path: Path, started: list, algorithm: str, config: dict) -> None:
    draft = other_kind(tmp_path / "draft", config)
    result = launch(write_yaml(tmp_path, draft, **{"speculative-algorithm": algorithm}))
    assert (result.exit_code, len(started)) == (0, 1) and "nothing to check" in result.stderr


def test_an_eagle_3_draft_is_looked_at_whatever_the_algorithm(tmp_path: Path, started: list) -> None:
    result = launch(write_yaml(tmp_path, **{"speculative-algorithm": "EAGLE"}))
    assert (result.exit_code, started) == (1, []) and "algorithm_is_eagle3" in result.stderr
    for number, sign in enumerate(({"architectures": ["LlamaForCausalLMEagle3"]}, {"draft_vocab_size": 32000},
                                   {"eagle_config": {}}, {"eagle_aux_hidden_state_layer_ids": [1, 2, 3]},
                                   {"speculators_model_type": "eagle3"})):  # fmt: skip
        draft = other_kind(tmp_path / str(number), {"architectures": ["LlamaForCausalLM"]} | sign)
        for algorithm in ("EAGLE", "EAGLE3"):
            result = launch(write_yaml(tmp_path, draft, **{"speculative-algorithm": algorithm}))
            assert (result.exit_code, started) == (2, []), (sign, result.stderr)
    assert "pytorch_model.bin" in result.stderr


def test_what_was_not_looked_at_does_not_start(tmp_path: Path, started: list) -> None:
    """No error, but part of the wiring that nobody saw: the report is printed, and the status is the doctor's."""
    weights = read_weights() | {"fc.weight": ("I32", (192, 72), bytes(192 * 72 * 4))}
    draft = damage(tmp_path / "draft", tensors=weights, quantization_config={"quant_method": "awq"})
    file = write_yaml(tmp_path, draft)
    result = launch(file)
    assert (result.exit_code, started) == (2, []), result.stderr
    assert "UNKNOWN" in result.stderr and "I32" in result.stderr
    assert launch("--anyway", file).exit_code == 0 and len(started) == 1


def test_a_flag_of_many_values() -> None:
    from draftwire.draft import DraftError
    from draftwire.flags import read_flags

    flags = read_flags(None, ["--cuda-graph-bs", "1", "2", "4", "8", "--tp", "2"])
    assert flags.values["cuda-graph-bs"] == ["1", "2", "4", "8"] and flags.number("tp-size") == 2
    with pytest.raises(DraftError, match="one value"):
        flags.text("cuda-graph-bs")
