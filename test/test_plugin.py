"""`plugin.activate`: when it wires, stands aside or refuses, and what it costs a process that needs none of it."""

from __future__ import annotations

import json
import logging
import os
import statistics
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest
from packaging.specifiers import SpecifierSet
from refused import assert_says, refusal_of

from draftwire import plugin, seams
from draftwire.plugin import activate, is_patched, known, supported

ROOT = Path(__file__).parent.parent


@pytest.fixture
def release(monkeypatch, tmp_path):
    """`release(name)`: an SGLang of that name and nothing else in it; gives the list of what was installed."""

    def stand_in(name: str) -> list:
        package, version, installed = ModuleType("sglang"), ModuleType("sglang.version"), []
        package.__path__, version.__version__ = [str(tmp_path)], name
        monkeypatch.setitem(sys.modules, "sglang", package)
        monkeypatch.setitem(sys.modules, "sglang.version", version)
        monkeypatch.setattr(seams, "find_seams", lambda: ["a seam"])
        monkeypatch.setattr(seams, "install", installed.append)
        return installed

    for name in ("DRAFTWIRE", "DRAFTWIRE_UNTESTED"):
        monkeypatch.delenv(name, raising=False)
    return stand_in


@pytest.mark.parametrize("name", ["0.5.14", "0.5.15.post1", "0.5.23", "0.5.23+cu130"])
def test_a_supported_release_is_wired(name, release, caplog):
    installed = release(name)
    activate()
    assert installed == [["a seam"]]
    assert not caplog.records


@pytest.mark.parametrize("name", ["0.5.13.post1", "0.5.24", "0.5.23.post1", "0.5.20rc1", "0.0.0.dev0", "main", ""])
def test_an_unknown_release_is_refused(name, release):
    installed = release(name)
    line = refusal_of(activate)
    assert_says(line, f"SGLang {supported()}", f"found {name};", "DRAFTWIRE_UNTESTED=1", "DRAFTWIRE=off")
    assert installed == []


@pytest.mark.parametrize("value", ["0", "", "yes", "true"])
def test_only_a_1_tries_an_unknown_release(value, release, monkeypatch):
    installed = release("0.5.24")
    monkeypatch.setenv("DRAFTWIRE_UNTESTED", value)
    refusal_of(activate)
    assert installed == []


def test_an_unknown_release_may_be_tried_and_says_so(release, monkeypatch, caplog):
    installed = release("0.5.24")
    monkeypatch.setenv("DRAFTWIRE_UNTESTED", "1")
    activate()
    assert installed == [["a seam"]]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "not tested with SGLang 0.5.24" in caplog.text


@pytest.mark.parametrize("value", ["off", "OFF", " off", "0", "false", "False"])
@pytest.mark.parametrize("name", ["0.5.23", "0.5.24"])
def test_the_off_switch_says_so(value, name, release, monkeypatch, caplog):
    installed = release(name)
    monkeypatch.setenv("DRAFTWIRE", value)
    activate()
    assert installed == []
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert f"draftwire is off (DRAFTWIRE=off): layer ids mean what SGLang {name} makes of them" in caplog.text


@pytest.mark.parametrize("value", ["no", "disabled", "none"])
def test_a_value_that_means_neither_is_refused(value, release, monkeypatch):
    release("0.5.23")
    monkeypatch.setenv("DRAFTWIRE", value)
    assert_says(refusal_of(activate), "DRAFTWIRE=off or nothing", repr(value))


@pytest.mark.parametrize("value", ["", "on", "1"])
def test_on_leaves_it_on(value, release, monkeypatch, caplog):
    installed = release("0.5.23")
    monkeypatch.setenv("DRAFTWIRE", value)
    activate()
    assert installed == [["a seam"]]
    assert not caplog.records


@pytest.mark.parametrize("name", ["0.5.13.post1", "0.5.23"])
def test_a_patched_tree_is_left_alone_and_says_so(name, release, tmp_path, caplog):
    installed = release(name)
    (tmp_path / "srt" / "speculative").mkdir(parents=True)
    assert not is_patched(tmp_path)
    (tmp_path / "srt" / "speculative" / "aux_boundaries.py").touch()
    assert is_patched(tmp_path)
    activate()
    assert installed == []
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert f"this SGLang {name} holds draftwire's patch already" in caplog.text


@pytest.mark.parametrize("error", [ImportError("no module\nnamed x"), ValueError("y"), OSError("z")])
def test_what_goes_wrong_in_it_stops_the_server(error, release, monkeypatch):
    """Upstream logs the exception of a plugin and serves on: stock, and wrong for this draft."""
    release("0.5.23")

    def fail() -> list:
        raise error

    monkeypatch.setattr(seams, "find_seams", fail)
    line = refusal_of(activate)
    assert_says(line, "draftwire's overlay", type(error).__name__, "DRAFTWIRE=off")


# The range of releases.


def test_the_range_is_what_the_metadata_says():
    """pyproject.toml is the one statement of it."""
    stated = [line for line in (ROOT / "pyproject.toml").read_text().splitlines() if line.startswith("sglang = [")]
    assert len(stated) == 1
    assert SpecifierSet(stated[0].split('"')[1].removeprefix("sglang")) == SpecifierSet(supported())


def test_the_range_is_read_and_not_known_by_heart(monkeypatch):
    monkeypatch.setattr(plugin, "requires", lambda name: ["rich>=13", 'sglang<2,>=1.5; extra == "sglang"'])
    assert SpecifierSet(supported()) == SpecifierSet(">=1.5,<2")
    assert known("1.7") and not known("0.5.23")


@pytest.mark.parametrize("found", [None, [], ["rich>=13"], ["sglang>=0.5.14"]])
def test_metadata_without_a_range_is_refused(found, monkeypatch):
    """A plain requirement is none: it would make pip install SGLang beside a person's own build."""
    monkeypatch.setattr(plugin, "requires", lambda name: found)
    line = refusal_of(supported)
    assert "expected the supported SGLang releases" in line
    assert "found none" in line
    assert "reinstall" in line


def test_sglang_is_told_of_it():
    from importlib.metadata import entry_points

    found = [point for point in entry_points(group="sglang.srt.plugins") if point.name == "draftwire"]
    assert found
    assert {point.load() for point in found} == {activate}


# What it costs, in a process of its own.

COST = """
    import json, sys, time
    import sglang, sglang.version
    before = set(sys.modules)
    start = time.process_time()
    from draftwire.plugin import activate
    activate()
    seconds = time.process_time() - start
    print(json.dumps([seconds, sorted(set(sys.modules) - before)]))
"""


def measure(path: str | None = None) -> tuple[float, list[str]]:
    """(CPU seconds, modules imported) of activate, in a process that holds `sglang` and no model."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "SGLANG_USE_CPU_ENGINE": "1"}
    paths = [path, os.environ.get("PYTHONPATH")]
    env["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(COST)]
    out = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    seconds, modules = json.loads(out.splitlines()[-1])
    return seconds, modules


def assert_cheap(runs: list[tuple[float, list[str]]]) -> None:
    assert statistics.median(seconds for seconds, _ in runs) < 0.1
    for _, modules in runs:
        assert "draftwire.seams" in modules
        heavy = {"torch", "numpy", "transformers", "rich", "typer", "yaml", "sglang"}
        assert not heavy & {module.split(".")[0] for module in modules}
        assert not any(module.startswith("draftwire.convert") for module in modules)


def test_a_process_without_a_model_pays_under_a_tenth_of_a_second(tmp_path):
    """With an SGLang that holds its version and nothing to import, so that torch is not there before."""
    package = tmp_path / "sglang"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "version.py").write_text("__version__ = '0.5.23'")
    assert_cheap([measure(str(tmp_path)) for _ in range(5)])


@pytest.mark.slow
def test_the_same_beside_the_real_sglang():
    assert_cheap([measure() for _ in range(5)])
