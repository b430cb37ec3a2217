"""Every hook and every check has a test that fails without it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mutations import MUTATIONS, OVERLAY, Mutation

ROOT = Path(__file__).parent.parent
HEADERS = "python/draftwire/headers.py"
# Copied under the names that they are imported by; a copy comes before the installed package on the path.
PACKAGES = {"python/draftwire": "draftwire", "python/sglang": "draftwire_overlay"}


@pytest.fixture(scope="module")
def run_tests():
    """`run_tests(tests, folder, mutation=None)`: (pytest's status, its output) on a copy of the package in `folder`."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-W", "ignore", str(ROOT / "test" / "warm_pytest.py")]
    warm = subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(tests: list[str], folder: Path, mutation: Mutation | None = None) -> tuple[int, str]:
        copy_package(folder, mutation)
        options = ["-x", "-m", "not slow", "-p", "no:cacheprovider", "-W", "ignore", "--tb=line"]
        arguments = [*options, *(str(ROOT / "test" / test) for test in tests)]
        output = folder / "output.txt"
        print(json.dumps({"path": str(folder), "arguments": arguments, "output": str(output)}), file=warm.stdin)
        warm.stdin.flush()
        return int(warm.stdout.readline()), output.read_text(errors="replace")

    yield run
    warm.stdin.close()
    warm.wait(timeout=60)


def copy_package(folder: Path, mutation: Mutation | None) -> None:
    """Both packages under `folder`, with one text replaced."""
    for source, name in PACKAGES.items():
        shutil.copytree(ROOT / source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        if mutation and mutation.file.startswith(f"{source}/"):
            file = folder / name / mutation.file.removeprefix(f"{source}/")
            text = file.read_text()
            assert mutation.old in text, f"{mutation.old!r} is not in {mutation.file}"
            file.write_text(text.replace(mutation.old, mutation.new))


@pytest.mark.parametrize("mutation", MUTATIONS, ids=str)
def test_each_mutation_still_finds_its_place(mutation):
    text = (ROOT / mutation.file).read_text()
    assert text.count(mutation.old) == 1, f"{mutation.old!r} stands {text.count(mutation.old)} times in {mutation.file}"
    changed = text.replace(mutation.old, mutation.new)
    compile(changed, mutation.file, "exec")
    assert changed != text


def test_each_hook_of_these_files_is_taken_away():
    """By a mutation that renames the first parameter of its body, so that it is no seam any more."""
    for name in sorted({mutation.file for mutation in MUTATIONS if mutation.file.startswith(OVERLAY)}):
        hooks = re.findall(r"def \w+\(original, .*", (ROOT / name).read_text())
        taken = [mutation.old for mutation in MUTATIONS if mutation.file == name and "(original, " in mutation.old]
        for hook in hooks:
            assert any(old in hook for old in taken), f"no mutation of {name} takes away {hook}"


@pytest.mark.slow
def test_a_copy_without_a_mutation_passes(run_tests, tmp_path):
    """The control: what fails below fails by its mutation. The copy is what was imported."""
    status, output = run_tests(sorted({mutation.test for mutation in MUTATIONS}), tmp_path)
    assert status == 0, output[-2000:]
    broken = tmp_path / "broken"
    status, output = run_tests(["test_draft.py"], broken, Mutation(HEADERS, "import json", "import absent", ""))
    assert status == 2, output[-2000:]
    # pytest writes a path as seen from where it runs.
    assert f"{tmp_path.name}/broken/" in output


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=str)
def test_a_mutation_is_noticed(mutation, run_tests, tmp_path):
    status, output = run_tests([mutation.test], tmp_path, mutation)
    assert status == 1, f"{mutation.new!r} for {mutation.old!r}: {output[-2000:]}"
