"""docs/patching.md and docs/upgrading.md name what is there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from patch_trees import RELEASE, make_tree
from patched import LOCK, RELEASES, installed_release, tree

from draftwire.patching import lock, signs
from draftwire.patching.codemod import change
from draftwire.patching.news import READ, news
from draftwire.patching.tree import Tree

ROOT = Path(__file__).parent.parent


def dockerfile() -> list[str]:
    """The lines of the Dockerfile, the same wherever it stands."""
    texts = [(ROOT / file).read_text() for file in ("README.md", "docs/patching.md")]
    found = {block for text in texts for block in re.findall(r"```dockerfile\n(.*?)\n```", text, re.S)}
    assert len(found) == 1
    return found.pop().split("\n")


@pytest.mark.slow
def test_the_dockerfiles_commands_patch_a_copied_tree(tmp_path):
    """RUN as it stands, by sh, with the image's folders in another place; nothing of draftwire is left."""
    start, copy, command = dockerfile()
    release = start.rsplit(":v", 1)[1]
    (tmp_path / "site").mkdir()
    site = make_tree(tmp_path / "site", release)
    (site / "sglang" / "__init__.py").touch()
    assert copy == "COPY . /draftwire"
    for name in ("python", "patches", "pyproject.toml", "README.md", "LICENSE"):
        (shutil.copytree if (ROOT / name).is_dir() else copy_file)(ROOT / name, tmp_path / "draftwire" / name)
    command = command.removeprefix("RUN ").replace("/tmp/dw", f"{tmp_path}/dw")
    command = command.replace(" /draftwire", f" {tmp_path}/draftwire")
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(site)}
    done = subprocess.run(["sh", "-c", command], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"SGLang {release}, patches/{LOCK[release].patch}" in done.stdout
    hashes = {file: lock.sha256((site / "sglang" / file).read_bytes()) for file in LOCK[release].hashes}
    assert hashes == {file: after for file, (_, after) in LOCK[release].hashes.items()}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["draftwire", "site"]
    assert {path.name for path in site.iterdir()} == {"sglang", f"sglang-{release}.dist-info"}


def copy_file(source: Path, to: Path) -> None:
    to.parent.mkdir(exist_ok=True)
    shutil.copyfile(source, to)


def test_the_dockerfile_has_three_lines_and_finds_the_tree():
    lines = dockerfile()
    assert [line.split()[0] for line in lines] == ["FROM", "COPY", "RUN"]
    assert not any(line.endswith("\\") for line in lines)
    assert subprocess.run(["sh", "-n", "-c", lines[2].removeprefix("RUN ")], capture_output=True).returncode == 0
    assert re.fullmatch(r"FROM [a-z]+/[a-z]+:v\S+", lines[0])
    assert lines[0].rsplit(":v", 1)[1] in RELEASES
    find = re.search(r"python3 -c '(.*?)'", lines[2])[1]
    found = subprocess.run([sys.executable, "-c", find], capture_output=True, text=True, check=True).stdout.strip()
    assert Tree(Path(found)).release() == installed_release()


@pytest.mark.parametrize("name", ["patching.md", "upgrading.md"])
def test_every_file_that_is_named_is_there(name):
    text = (ROOT / "docs" / name).read_text()
    for path in re.findall(r"\b((?:python|test|patches|cpu)/[\w./-]+\w)", text):
        assert (ROOT / path).exists(), path
    for module in re.findall(r"python -m (draftwire[\w.]+)", text):
        assert (ROOT / "python" / Path(*module.split("."))).with_suffix(".py").exists(), module


def test_upgrading_is_in_numbered_steps():
    steps = re.findall(r"^(\d+)\. ", (ROOT / "docs" / "upgrading.md").read_text(), re.M)
    assert steps == [str(number) for number in range(1, len(steps) + 1)]


def test_news_tells_of_every_file_that_is_touched():
    root = tree(RELEASE)
    assert set(change(lambda file: (root / file).read_text()).insertions) <= set(READ)


def test_news_names_a_function_that_changed(tmp_path):
    for folder, base in (("old", 0), ("new", 1)):
        path = tmp_path / folder / "sglang" / signs.DEEPSEEK
        path.parent.mkdir(parents=True)
        path.write_text(f"class {signs.TARGET}:\n    def {signs.SETTER}(self, ids):\n        return {base}\n")
    lines = list(news(Tree(tmp_path / "old"), Tree(tmp_path / "new")))
    assert lines[0] == f"{signs.DEEPSEEK}: changed, {signs.TARGET}.{signs.SETTER}"
    assert "-        return 0" in lines and "+        return 1" in lines
    assert f"{signs.LLAMA}: not there" in lines
    assert f"{signs.DEEPSEEK}: the same" in list(news(Tree(tmp_path / "old"), Tree(tmp_path / "old")))
