"""One upstream file as syntax: places in it are found by structure, exactly once, and named by their line."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cached_property

import libcst as cst
import libcst.matchers as m
from libcst.metadata import MetadataWrapper, PositionProvider

from draftwire.patching.insertion import Insertion
from draftwire.patching.refusals import PatchError

WRAPPED = "class _:\n"


class Source:
    """`text` of `file`, a path below `sglang/`. Every search that does not match once raises PatchError.

    The outline is Python's own; LibCST parses the methods that a change asks for, so that a file of 9,000 lines
    costs no seconds.
    """

    def __init__(self, file: str, text: str):
        self.file, self.text = file, text
        self.lines = text.split("\n")
        self._ranges: dict[cst.CSTNode, tuple[int, int]] = {}

    @cached_property
    def outline(self) -> ast.Module:
        try:
            return ast.parse(self.text)
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", "?")
            raise PatchError("Python", f"a syntax error at line {line}", self.file, "restore the file") from None

    def has_class(self, name: str) -> bool:
        return any(isinstance(node, ast.ClassDef) and node.name == name for node in self.outline.body)

    def has_method(self, owner: str, name: str) -> bool:
        return self.has_class(owner) and bool(self._methods(owner, name))

    def method(self, owner: str, name: str) -> cst.FunctionDef:
        """A method that the class itself defines, without what decorates it."""
        node = self._one(self._methods(owner, name), f"{owner}.{name}")
        assert node.end_lineno is not None
        text = WRAPPED + "\n".join(self.lines[node.lineno - 1 : node.end_lineno]) + "\n"
        wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
        for inner, place in wrapper.resolve(PositionProvider).items():
            self._ranges[inner] = (place.start.line + node.lineno - 2, place.end.line + node.lineno - 2)
        function = cst.ensure_type(cst.ensure_type(wrapper.module.body[0], cst.ClassDef).body.body[0], cst.FunctionDef)
        return function

    def decorators(self, owner: str, name: str) -> list[str]:
        return [ast.unparse(d) for d in self._one(self._methods(owner, name), f"{owner}.{name}").decorator_list]

    def after_last_import(self, package: str, *lines: str) -> Insertion:
        """`lines` after the last top-level `from <package>... import`."""
        imports = [
            n for n in self.outline.body if isinstance(n, ast.ImportFrom) and (n.module or "").startswith(package)
        ]
        if not imports or imports[-1].end_lineno is None:
            raise PatchError(f"an import from {package}", "none", self.file, "port the patch to this release")
        return self.at(imports[-1].end_lineno, lines)

    def once(self, scope: cst.CSTNode, pattern: m.BaseMatcherNode, what: str) -> cst.CSTNode:
        """The only node below `scope` that matches."""
        return self._one(self.all(scope, pattern), what)

    def all(self, scope: cst.CSTNode, pattern: m.BaseMatcherNode) -> list[cst.CSTNode]:
        return list(m.findall(scope, pattern))

    def statement(self, scope: cst.CSTNode, code: str) -> cst.CSTNode:
        """The only one-line statement below `scope` that reads `code`."""
        found = [n for n in self.all(scope, m.SimpleStatementLine()) if self.code(n) == code]
        return self._one(found, repr(code))

    def code(self, node: cst.CSTNode) -> str:
        bare = node.with_changes(leading_lines=()) if hasattr(node, "leading_lines") else node
        return cst.Module([]).code_for_node(bare).strip()

    def line(self, node: cst.CSTNode) -> str:
        """The file's line on which the node begins."""
        return self.lines[self._ranges[node][0] - 1]

    def before(self, node: cst.CSTNode, *lines: str, comments: bool = False) -> Insertion:
        """`lines` before the node's first line; with `comments`, before those that lead it too."""
        at = self._ranges[node][0] - 1
        while comments and self.lines[at - 1].lstrip().startswith("#"):
            at -= 1
        return self.at(at, lines)

    def after(self, node: cst.CSTNode, *lines: str) -> Insertion:
        """`lines` after the node's last line."""
        return self.at(self._ranges[node][1], lines)

    def at(self, at: int, lines: tuple[str, ...]) -> Insertion:
        """`lines` after line `at`, whose address must be there once in the whole file."""
        insertion = Insertion(self.file, at, self.lines[at - 1], self.lines[at], tuple(lines))
        places = insertion.places(self.text)
        if places != [at]:
            raise PatchError(
                f"one place between {insertion.above.strip()!r} and {insertion.below.strip()!r}",
                f"it at lines {places}",
                self.file,
                "choose another address",
            )
        return insertion

    def _methods(self, owner: str, name: str) -> list[ast.FunctionDef]:
        classes = [n for n in self.outline.body if isinstance(n, ast.ClassDef) and n.name == owner]
        body = self._one(classes, f"class {owner}").body
        return [n for n in body if isinstance(n, ast.FunctionDef) and n.name == name]

    def _one(self, found: list, what: str):
        if len(found) != 1:
            raise PatchError(f"{what} once", f"it {len(found)} times", self.file, "port the patch to this release")
        return found[0]


class Sources:
    """The files of a tree by path below `sglang/`, each read once. `read` raises KeyError or OSError."""

    def __init__(self, read: Callable[[str], str]):
        self._read = read
        self._known: dict[str, Source] = {}

    def __getitem__(self, file: str) -> Source:
        if file not in self._known:
            try:
                self._known[file] = Source(file, self._read(file))
            except (KeyError, OSError, UnicodeDecodeError):
                raise PatchError("the file", "none that can be read", file, "name a whole SGLang tree") from None
        return self._known[file]

    def __contains__(self, file: str) -> bool:
        try:
            return bool(self[file])
        except PatchError:
            return False
