"""Trees of the files that a patch touches, and `draftwire patch` run on them."""

from __future__ import annotations

import shutil
from pathlib import Path

from patched import LOCK, RELEASES, installed_release, tree
from typer.testing import CliRunner

from draftwire.cli import app
from draftwire.patching import lock

RELEASE = installed_release() or RELEASES[-1]
DEEPSEEK = "srt/models/deepseek_v2.py"


def make_tree(folder: Path, release: str = RELEASE, layout: str = "sglang", version: bool = True) -> Path:
    """The files that a patch touches, as a tree of that layout, and with pip's RECORD beside `sglang`."""
    root = folder / layout
    for file, (before, _) in LOCK[release].hashes.items():
        if before != lock.NEW:
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(tree(release) / file, root / file)
    for other in ("srt/models/llama_eagle3.py", "srt/speculative/eagle_info.py"):
        (root / other).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(tree(release) / other, root / other)
    if version:
        (root / "_version.py").write_text(f"__version__ = version = '{release}'\n")
    if layout == "sglang":
        (folder / f"sglang-{release}.dist-info").mkdir()
        (folder / f"sglang-{release}.dist-info" / "RECORD").write_bytes(b"sglang/__init__.py,,\r\nlast,,\r\n")
    return folder


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["patch", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stderr if result.exit_code == 2 else result.output


def refused(folder: Path, *flags: str, status: int = 2) -> str:
    """The one line of a refusal, after which nothing has changed."""
    before = snapshot(folder)
    found, output = run(folder, *flags)
    assert found == status
    assert snapshot(folder) == before
    assert output.startswith("draftwire: expected ")
    assert output.count("\n") == 1
    return output
