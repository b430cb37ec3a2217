"""Every refusal of the converter says what was expected, what was found, where, and what to do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import draftwire

PACKAGE = Path(draftwire.__file__).parent
FILES = sorted(
    [*(PACKAGE / "convert").glob("*.py"), PACKAGE / "convert_command.py", PACKAGE / "draft.py", PACKAGE / "headers.py"]
)
# What to do begins with what a person can do.
VERBS = {"convert", "correct", "create", "export", "free", "keep", "leave", "name", "permute", "run", "save", "say",
         "serve", "set", "store", "train", "write"}  # fmt: skip


def refusals() -> Iterator[tuple[str, ast.Call, dict[str, ast.expr]]]:
    for file in FILES:
        tree = ast.parse(file.read_text())
        names = {t.id: node.value for node in tree.body if isinstance(node, ast.Assign)
                 for t in node.targets if isinstance(t, ast.Name)}  # fmt: skip
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("DraftError", "WiringError"):
                yield f"{file.name}:{node.lineno}", node, names


def texts(node: ast.expr, names: dict[str, ast.expr]) -> list[str]:
    """The constant beginning of an expression, one for each way it can go."""
    if isinstance(node, ast.IfExp):
        return [*texts(node.body, names), *texts(node.orelse, names)]
    if isinstance(node, ast.Name):
        return texts(names[node.id], names)
    first = node.values[0] if isinstance(node, ast.JoinedStr) else node
    assert isinstance(first, ast.Constant), ast.unparse(node)
    return [str(first.value)]


@pytest.mark.parametrize(("where", "call", "names"), [pytest.param(*r, id=r[0]) for r in refusals()])
def test_a_refusal_has_four_parts(where: str, call: ast.Call, names: dict) -> None:
    assert len(call.args) == 4, f"{where}: {ast.unparse(call)}"
    for remedy in texts(call.args[3], names):
        assert remedy.split()[0].strip(",:") in VERBS, f"{where}: {remedy}"


def test_there_are_refusals_to_look_at() -> None:
    assert len(list(refusals())) > 50


def test_the_command_itself_says_all_four() -> None:
    tree = ast.parse((PACKAGE / "convert_command.py").read_text())
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "_fail"]
    lines = [ast.unparse(call.args[0]) for call in calls]
    own = [line for line in lines if line != "str(error)"]
    assert len(own) == 3
    for line in own:
        assert "expected" in line, line
        assert "; found" in line, line
        assert line.count(";") == 2, line
