"""SGLang's own sources as an oracle: the installed release, and others from folders or from their wheels."""

from __future__ import annotations

import ast
import builtins
import functools
import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

TREES = "DRAFTWIRE_SGLANG_TREES"
LOCK = Path(__file__).with_name("sglang-wheels.sha256")
OLDER = Path(__file__).with_name("sglang-wheels-to-0.5.13.sha256")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "draftwire" / "wheels"
# The wheels of the lock file; their Python sources are the same on every platform.
PLATFORM = ["--python-version", "3.11", "--implementation", "cp", "--abi", "cp311"]
PLATFORM += ["--platform", "manylinux_2_34_x86_64", "--only-binary", ":all:"]


def installed() -> Path:
    """The folder `sglang` of the installed release, found without importing it."""
    spec = importlib.util.find_spec("sglang")
    assert spec is not None
    assert spec.origin is not None, "expected an installed SGLang, found a namespace"
    return Path(spec.origin).parent


def locked(lock: Path = LOCK) -> dict[str, tuple[str, str]]:
    """Release -> (SHA-256, wheel's file name), of the lines `hash  name` that `sha256sum -c` reads."""
    lines = [line.split("  ") for line in lock.read_text().splitlines() if not line.startswith("#")]
    return {name.split("-")[1]: (digest, name) for digest, name in lines}


def given(release: str) -> Path | None:
    """The folder `$DRAFTWIRE_SGLANG_TREES/<release>/sglang`, where there is one."""
    trees = os.environ.get(TREES)
    tree = Path(trees) / release / "sglang" if trees else None
    return tree if tree and tree.is_dir() else None


def download(release: str) -> Path:
    """The folder `sglang` of that release's wheel, through pip; its hash is pip's to check, and ours again."""
    digest, name = (locked(OLDER) | locked())[release]
    wheel, tree = CACHE / name, CACHE / release / "sglang"
    if not wheel.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        wanted = CACHE / f"{release}.txt"
        wanted.write_text(f"sglang=={release} --hash=sha256:{digest}\n")
        pip = [sys.executable, "-m", "pip", "-q", "download", "--no-deps", "--require-hashes", *PLATFORM]
        subprocess.run([*pip, "-d", str(CACHE), "-r", str(wanted)], check=True)
        wanted.unlink()
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert found == digest, f"expected {digest}, found {found} in {wheel}; delete it to fetch it again"
    if not (tree / "bench_serving.py").exists():
        with zipfile.ZipFile(wheel) as archive:
            # Its kernels are looked for when it is imported.
            kept = re.compile(r"sglang/(.*\.py|kernels/jit/.*)")
            names = [name for name in archive.namelist() if kept.fullmatch(name)]
            archive.extractall(CACHE / release, names)
    return tree


@functools.lru_cache(maxsize=128)
def parse(tree: Path, module: str) -> ast.Module:
    """A module of `sglang` by its dotted name, as syntax. Raises OSError where the release has no such file."""
    return ast.parse(tree.joinpath(*module.split(".")[1:]).with_suffix(".py").read_text(encoding="utf-8"))


def find_class(tree: Path, module: str, owner: str) -> ast.ClassDef | None:
    """A top-level class, None where there is none."""
    classes = (node for node in parse(tree, module).body if isinstance(node, ast.ClassDef))
    return next((node for node in classes if node.name == owner), None)


def find_method(tree: Path, module: str, owner: str, name: str) -> ast.FunctionDef | None:
    """A function that the class itself defines, None where it does not."""
    body = getattr(find_class(tree, module, owner), "body", [])
    return next((node for node in body if isinstance(node, ast.FunctionDef) and node.name == name), None)


class Nothing:
    """Any name that a function cut out of its module may ask for: false, empty, callable, a context."""

    def __call__(self, *args: Any, **kwargs: Any) -> Nothing:
        return self

    def __getattr__(self, name: str) -> Nothing:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __bool__(self) -> bool:
        return False

    def __enter__(self) -> Nothing:
        return self

    def __exit__(self, *error: object) -> bool:
        return False

    def __iter__(self):
        return iter(())

    def __getitem__(self, key: object) -> Nothing:
        return self

    def __gt__(self, other: object) -> bool:
        return False

    __lt__ = __gt__


class Names(dict):
    """Globals of a cut function: what the test gives, builtins, and Nothing for the rest."""

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, Nothing())


def cut(tree: Path, module: str, owner: str | None, name: str, **names: Any) -> Callable[..., Any]:
    """One function of a release, without the module around it: annotations off, `names` as its globals."""
    if owner is None:
        found = [n for n in parse(tree, module).body if isinstance(n, ast.FunctionDef) and n.name == name]
        node = found[0] if found else None
    else:
        node = find_method(tree, module, owner, name)
    assert node is not None, f"expected {module}.{owner}.{name}, found none in {tree}"
    bare = ast.parse(ast.unparse(node)).body[0]
    assert isinstance(bare, ast.FunctionDef)
    bare.decorator_list, bare.returns = [], None
    for argument in [*bare.args.posonlyargs, *bare.args.args, *bare.args.kwonlyargs]:
        argument.annotation = None
    code = compile(ast.fix_missing_locations(ast.Module([bare], [])), f"{tree}:{module}", "exec")
    body = next(constant for constant in code.co_consts if isinstance(constant, CodeType))
    defaults = tuple(ast.literal_eval(default) for default in bare.args.defaults)
    cut_out = FunctionType(body, Names(names, __builtins__=builtins), name, defaults)
    keywords = zip(bare.args.kwonlyargs, bare.args.kw_defaults, strict=True)
    cut_out.__kwdefaults__ = {a.arg: ast.literal_eval(default) for a, default in keywords if default}
    return cut_out
