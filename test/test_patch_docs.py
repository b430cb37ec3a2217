"""docs/patching.md and docs/upgrading.md name what is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from patched import RELEASES, installed_release, tree

from draftwire.patching import signs
from draftwire.patching.codemod import change
from draftwire.patching.news import READ, news
from draftwire.patching.tree import Tree

ROOT = Path(__file__).parent.parent
RELEASE = installed_release() or RELEASES[-1]


def test_the_dockerfile_has_three_lines_and_finds_the_tree():
    text = (ROOT / "docs" / "patching.md").read_text()
    lines = re.search(r"```dockerfile\n(.*?)\n```", text, re.S)[1].split("\n")
    assert [line.split()[0] for line in lines] == ["FROM", "COPY", "RUN"]
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
