"""The tests fail when the kernels are wrong: each mutation, made in a copy of the package, must be caught."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
ATTENTION, ORACLE, REFUSALS, PLATFORM, IMPORT = (
    ["test/test_cpu_attention.py"],
    ["test/triton_oracle.py"],
    ["test/test_cpu_refusals.py"],
    ["test/test_cpu_platform.py", "-k", "not sglang"],
    ["test/test_cpu_import.py", "-k", "refused"],
)
MUTATIONS = [
    ("softmax.py", "alpha=rule.scale", "alpha=1", ATTENTION),
    ("softmax.py", ".div_(rule.cap).tanh_()", ".tanh_()", ATTENTION),
    ("softmax.py", ".permute(0, 2, 3, 1, 4)", ".permute(0, 3, 2, 1, 4)", ATTENTION),
    ("softmax.py", "else hidden[:, block]", "else hidden", ATTENTION),
    ("masks.py", "ahead > 0 if causal", "ahead > 1 if causal", ATTENTION),
    ("masks.py", "ahead <= -window", "ahead < -window", ATTENTION),
    ("masks.py", "= ~tree", "= tree", ATTENTION),
    ("masks.py", "return ~tree", "return tree", ATTENTION),
    ("softmax.py", "groups > 1", "groups > 2", ATTENTION),
    ("softmax.py", "if by_head else 2", "if by_head else 1", ATTENTION),
    ("masks.py", "unseen | padding", "unseen", ATTENTION),
    ("kv_cache.py", "position < 0", "position < 1", ATTENTION),
    ("kv_cache.py", ".clamp_(min=0)", "", ATTENTION),
    ("kv_cache.py", "if not self.values_in_keys():", "if False:", ATTENTION),
    ("batching.py", "window + new - 1", "window", ATTENTION),
    ("batching.py", "new[i] == new[begin]", "True", ATTENTION),
    ("batching.py", "(length == new[i]) == (lens[begin] == new[begin])", "True", ATTENTION),
    ("batching.py", "starts[i] == starts[i - 1] + new[i]", "True", ATTENTION),
    ("batching.py", "* row <= GATHERED", "* row <= 1 << 62", ATTENTION),
    ("batch_attention.py", "cell += batch * new * new", "cell += new * new", ATTENTION),
    ("batch_attention.py", "keys[:, -new:] = given[0]", "pass", ATTENTION),
    ("attention.py", "if sinks is not None:", "if False:", ATTENTION),
    ("attention.py", "Tensor(b!) v_buffer", "Tensor v_buffer", ATTENTION),
    ("tree.py", "entry == 0, 0", "entry == 0, 1", ORACLE),
    ("tree.py", "found & (parent >= 0)", "found", ORACLE),
    ("tree.py", "(node > node[:, None])", "(node >= node[:, None])", ORACLE),
    ("tree.py", "level += current > 0", "level += 1", ORACLE),
    ("tree.py", "block[:, None] + seq_lens[:, None]", "block[:, None]", ORACLE),
    ("verify.py", "node = sibling[node]", "node = -1", ORACLE),
    ("verify.py", "len(path) < steps", "len(path) <= steps", ORACLE),
    ("verify.py", "len(path) - 1", "len(path)", ORACLE),
    ("slots.py", "(counts.cumsum(0) - counts)", "counts.cumsum(0)", ORACLE),
    ("slots.py", "branch * (column >= length)", "branch", ORACLE),
    ("slots.py", "if end > pool_len:", "if end > pool_len + 1:", REFUSALS),
    ("slots.py", "if any(e < s", "if any(False and e < s", REFUSALS),
    ("tokens.py", "+ accept_lens - 1", "+ accept_lens", ORACLE),
    ("tokens.py", "accept_index > -1", "accept_index > 0", ORACLE),
    ("tokens.py", "input_ids[kept + 1]", "input_ids[kept]", ORACLE),
    ("tokens.py", "filled = extend_seq_lens > 0", "filled = extend_seq_lens > -1", ORACLE),
    ("cache_rows.py", "tgt_loc.long(), buffer.index_select(0, src_loc)", "src_loc.long(), buffer[tgt_loc]", ORACLE),
    ("cache_rows.py", "if low < 0:", "if False:", REFUSALS),
    ("refusals.py", "tensor.shape != shape", "False", REFUSALS),
    ("platform.py", '!= "1"', '== "0"', PLATFORM),
    ("platform.py", "if torch.cuda.is_available():", "if False:", PLATFORM),
    ("platform.py", 'raise SystemExit(_line(f"{expected}', 'raise ValueError(_line(f"{expected}', PLATFORM),
    ("platform.py", "torch.cuda.synchronize = ", "waits = ", PLATFORM),
    ("installed.py", '"sgl-kernel")', ")", IMPORT),
]


def copied(copy: Path) -> Path:
    for name in ("draftwire_cpu", "test"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    for name in ("sgl_kernel.py", "pyproject.toml"):
        shutil.copy(ROOT / name, copy)
    return copy


def run_tests(copy: Path, tests: list[str]) -> subprocess.CompletedProcess:
    environment = {"PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1"}
    if tests == ORACLE:
        environment |= {"TRITON_INTERPRET": "1", "SGLANG_USE_CPU_ENGINE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    return subprocess.run(
        command, cwd=copy, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.parametrize("tests", [ATTENTION, ORACLE, REFUSALS, PLATFORM, IMPORT], ids=lambda tests: tests[0])
def test_the_tests_pass_on_a_copy_and_test_that_copy(tmp_path, tests):
    copy = copied(tmp_path)
    with (copy / "draftwire_cpu" / "__init__.py").open("a") as file:
        file.write("open(__file__ + '.imported', 'w').close()\n")
    done = run_tests(copy, tests)
    assert done.returncode == 0, done.stdout
    assert (copy / "draftwire_cpu" / "__init__.py.imported").exists()


@pytest.mark.parametrize(("name", "old", "new", "tests"), MUTATIONS, ids=lambda value: str(value)[:40])
def test_the_tests_catch(tmp_path, name, old, new, tests):
    file = copied(tmp_path) / "draftwire_cpu" / name
    text = file.read_text()
    assert text.count(old) == 1, f"expected {old!r} once in {name}, found {text.count(old)} times"
    file.write_text(text.replace(old, new))
    done = run_tests(tmp_path, tests)
    assert done.returncode == 1, done.stdout
