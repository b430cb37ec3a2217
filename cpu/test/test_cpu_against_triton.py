"""SGLang's own Triton kernels are the oracle of the slot, token, tree and cache-row functions."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ORACLE = Path(__file__).with_name("triton_oracle.py")


@pytest.mark.skipif(importlib.util.find_spec("sglang") is None, reason="SGLang is not installed")
def test_functions_equal_sglangs_triton_kernels():
    environment = {"TRITON_INTERPRET": "1", "SGLANG_USE_CPU_ENGINE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(ORACLE)]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    tests = len(re.findall(r"^def test_", ORACLE.read_text(), re.MULTILINE))
    assert f"{tests} passed" in done.stdout, done.stdout
