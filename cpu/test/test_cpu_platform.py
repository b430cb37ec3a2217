"""The plugin keeps `intel_amx`, does nothing where it is not wanted, and never fails in silence."""

import importlib.util
import os
import subprocess
import sys
import types

import pytest
import sgl_kernel
import torch

from draftwire_cpu import platform

LOADED_BY_SGLANG = """
from types import SimpleNamespace
from sglang.srt import plugins, runtime_context
from sglang.srt.arg_groups.overrides import _attention_backend_platform_fallbacks as fall_back

asked = SimpleNamespace(attention_backend="intel_amx", device="cpu")
override = runtime_context.override_platform
del runtime_context.override_platform
try:
    plugins.load_plugins()
    print("served on")
except SystemExit as stopped:
    print(stopped)
print(runtime_context.get_platform().has_amx, fall_back(asked))
runtime_context.override_platform = override
plugins._plugins_loaded = False
plugins.load_plugins()
print(runtime_context.get_platform().has_amx, fall_back(asked))
"""


def run(script: str, **environment: str) -> subprocess.CompletedProcess:
    variables = os.environ | {"SGLANG_PLUGINS": "draftwire_cpu", "OMP_NUM_THREADS": "1"} | environment
    return subprocess.run([sys.executable, "-c", script], env=variables, capture_output=True, text=True, check=False)


@pytest.mark.skipif(importlib.util.find_spec("sglang") is None, reason="SGLang is not installed")
def test_sglangs_own_loader_is_stopped_by_a_failure_and_else_keeps_intel_amx():
    done = run(LOADED_BY_SGLANG, SGLANG_USE_CPU_ENGINE="1")
    stopped, before, after = done.stdout.splitlines()[-3:]
    assert stopped.startswith("draftwire-cpu: expected sglang.srt.runtime_context.override_platform to accept has_amx")
    assert before == "False {'attention_backend': 'torch_native'}"
    assert after == "True {}"


@pytest.mark.parametrize("value", ["", "0", "true"])
def test_nothing_is_imported_unless_the_cpu_engine_is_asked_for(value):
    script = (
        "import sys; from draftwire_cpu.platform import activate; activate()\n"
        "print(sorted({'torch', 'sglang', 'sgl_kernel'} & set(sys.modules)))"
    )
    assert run(script, SGLANG_USE_CPU_ENGINE=value).stdout.strip() == "[]"


@pytest.fixture
def asked(monkeypatch):
    """A process that asks for the CPU engine, with a recording override and no CUDA device."""
    calls = []
    context = types.ModuleType("sglang.srt.runtime_context")
    context.override_platform = lambda **facts: types.SimpleNamespace(install=lambda: calls.append(facts))
    monkeypatch.setitem(sys.modules, "sglang.srt.runtime_context", context)
    monkeypatch.setitem(sys.modules, "sgl_kernel", sgl_kernel)
    monkeypatch.setenv("SGLANG_USE_CPU_ENGINE", "1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "synchronize", torch.cuda.synchronize)
    return calls


def test_the_override_is_installed_where_the_cpu_engine_is_asked_for(asked):
    platform.activate()
    assert asked == [{"has_amx": True}]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU to wait for")
def test_no_gpu_is_waited_for(asked):
    with pytest.raises((RuntimeError, AssertionError)):
        torch.cuda.synchronize()
    platform.activate()
    torch.cuda.synchronize()
    torch.cuda.synchronize("cuda:0")


def test_nothing_is_done_where_cuda_is_present(asked, monkeypatch):
    before = torch.cuda.synchronize
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    platform.activate()
    assert asked == [] and torch.cuda.synchronize is before


def test_another_sgl_kernel_stops_the_server(asked, monkeypatch):
    other = types.ModuleType("sgl_kernel")
    other.__file__ = "/elsewhere/sgl_kernel/__init__.py"
    monkeypatch.setitem(sys.modules, "sgl_kernel", other)
    with pytest.raises(SystemExit, match=r"expected its own sgl_kernel, found /elsewhere/sgl_kernel/__init__.py"):
        platform.activate()
    assert asked == []


def test_an_sgl_kernel_that_does_not_import_stops_the_server_in_one_line(asked, monkeypatch):
    monkeypatch.setitem(sys.modules, "sgl_kernel", None)
    with pytest.raises(SystemExit, match="expected a working sgl_kernel, found ") as caught:
        platform.activate()
    assert "\n" not in str(caught.value) and asked == []


def test_an_override_that_fails_stops_the_server_in_one_line(asked, monkeypatch):
    def refuse(**facts):
        raise ValueError("unknown platform fact:\nhas_amx")

    monkeypatch.setattr(sys.modules["sglang.srt.runtime_context"], "override_platform", refuse)
    with pytest.raises(SystemExit, match="to accept has_amx, found ValueError") as caught:
        platform.activate()
    assert "\n" not in str(caught.value)
