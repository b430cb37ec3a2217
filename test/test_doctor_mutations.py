"""Every `if` of every check is turned round once: the check's own test must fail, or it tests too little."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from draftwire import checks

HERE = Path(__file__).parent
PROGRAM = """
import ast, contextlib, io, json, sys
import pytest
from draftwire import checks

name, test = sys.argv[1:]
sys.path.insert(0, str(test).rsplit("/checks/", 1)[0])
module = checks.load(name)
source = open(module.__file__).read()


def conditions(tree):
    return [node for node in ast.walk(tree) if isinstance(node, (ast.If, ast.IfExp))]


survivors = []
for index in range(len(conditions(ast.parse(source)))):
    tree = ast.parse(source)
    node = conditions(tree)[index]
    text = ast.unparse(node.test)
    node.test = ast.UnaryOp(ast.Not(), node.test)
    exec(compile(ast.fix_missing_locations(tree), module.__file__, "exec"), module.__dict__)
    with contextlib.redirect_stdout(io.StringIO()):
        status = pytest.main(["-x", "-q", "-p", "no:cacheprovider", test])
    if status == 0:
        survivors.append(text)
exec(compile(source, module.__file__, "exec"), module.__dict__)
with contextlib.redirect_stdout(io.StringIO()):
    status = pytest.main(["-x", "-q", "-p", "no:cacheprovider", test])
print(json.dumps([int(status), survivors]))
"""


def conditions(name: str) -> int:
    tree = ast.parse(Path(checks.load(name).__file__).read_text())
    return sum(isinstance(node, (ast.If, ast.IfExp)) for node in ast.walk(tree))


@pytest.mark.slow
@pytest.mark.parametrize("name", checks.NAMES)
def test_every_condition_counts(name: str) -> None:
    assert conditions(name)
    test = str(HERE / "checks" / f"test_{name}.py")
    ran = subprocess.run([sys.executable, "-c", PROGRAM, name, test], capture_output=True, text=True, check=True)
    status, survivors = json.loads(ran.stdout.splitlines()[-1])
    assert status == 0, "the test fails without a mutation"
    assert not survivors
