"""`draftwire patch TREE`: finds the release, applies, takes off, tells, and leaves a tree whole whatever is wrong."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from patch_trees import DEEPSEEK, RELEASE, make_tree, refused, run, snapshot
from patched import LOCK, RELEASES, apply_patch, git, tree

from draftwire.patching import apply, codemod, lock
from draftwire.patching.diff import Patch
from draftwire.patching.plan import plan
from draftwire.patching.refusals import PatchError
from draftwire.patching.tree import RECORD

PIP_RECORD = f"sglang-{RELEASE}.dist-info/RECORD"


@pytest.fixture
def place(tmp_path):
    return make_tree(tmp_path)


@pytest.mark.parametrize("layout", ["sglang", "python/sglang"])
def test_a_tree_is_patched_once_and_made_upstreams_again(tmp_path, layout):
    folder = make_tree(tmp_path, layout=layout)
    before = snapshot(folder)
    assert run(folder, "--check")[0] == 1
    status, said = run(folder)
    assert status == 0
    assert RELEASE in said and LOCK[RELEASE].patch in said and "lines in" in said
    hashes = {file: lock.sha256((folder / layout / file).read_bytes()) for file in LOCK[RELEASE].hashes}
    assert hashes == {file: after for file, (_, after) in LOCK[RELEASE].hashes.items()}
    patched = snapshot(folder)
    assert run(folder, "--check")[0] == 0
    status, said = run(folder)
    assert status == 0 and "patched already" in said
    assert snapshot(folder) == patched
    assert run(folder, "--revert")[0] == 0
    assert snapshot(folder) == before
    status, said = run(folder, "--revert")
    assert status == 0 and "upstream's already" in said
    assert run(folder / layout, "--check")[0] == 1


def test_diff_prints_what_git_applies_and_writes_nothing(tmp_path):
    folder = make_tree(tmp_path, layout="python/sglang")
    before = snapshot(folder)
    status, text = run(folder, "--diff")
    assert status == 0
    assert snapshot(folder) == before
    git("init", "-q", folder=folder)
    (folder / "it.patch").write_text(text)
    assert git("apply", "-C1", "it.patch", folder=folder).returncode == 0
    assert run(folder, "--check")[0] == 0
    assert run(folder, "--diff")[1] == text


def test_a_tree_that_git_patched_is_taken_off_too(tmp_path):
    root = apply_patch(RELEASE, tmp_path)
    assert run(tmp_path, "--check")[0] == 0
    assert run(tmp_path, "--revert")[0] == 0
    assert (root / DEEPSEEK).read_bytes() == (tree(RELEASE) / DEEPSEEK).read_bytes()
    assert not (root / codemod.MARK).exists()


def test_pip_learns_of_the_added_files(place):
    before = (place / PIP_RECORD).read_bytes()
    run(place)
    lines = (place / PIP_RECORD).read_text().splitlines()
    added = [line.split(",")[0] for line in lines[1:-1]]
    assert sorted(added) == sorted(f"sglang/{file}" for file in [*codemod.ADDED, RECORD])
    run(place)
    run(place, "--revert")
    assert (place / PIP_RECORD).read_bytes() == before


@pytest.mark.parametrize("version", [True, False])
def test_the_release_is_found_by_its_files_where_the_tree_does_not_say(tmp_path, version):
    folder = make_tree(tmp_path, layout="python/sglang", version=version)
    assert f"SGLang {RELEASE}," in run(folder)[1]


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
def test_every_release_is_reverted_to_its_bytes(release, tmp_path):
    folder = make_tree(tmp_path, release, version=False)
    before = snapshot(folder)
    assert run(folder)[0] == 0
    assert run(folder, "--check")[0] == 0
    assert run(folder, "--revert")[0] == 0
    assert snapshot(folder) == before


def test_a_modified_tree_goes_to_the_codemod_and_back(place):
    file = place / "sglang" / DEEPSEEK
    file.write_text("# ours\n" + file.read_text())
    before = snapshot(place)
    status, said = run(place)
    assert status == 0 and "modified or unreleased: by the codemod" in said
    assert "isinstance(layer_ids, CaptureList)" in file.read_text()
    assert run(place, "--check")[0] == 0
    assert "patched already" in run(place)[1]
    assert run(place, "--revert")[0] == 0
    assert snapshot(place) == before


def test_an_unreleased_tree_goes_to_the_codemod(place):
    (place / "sglang" / "_version.py").write_text("__version__ = version = '0.5.24.dev3'\n")
    (place / "sglang" / DEEPSEEK).write_text((place / "sglang" / DEEPSEEK).read_text() + "\n")
    status, said = run(place)
    assert status == 0 and "0.5.24.dev3 is modified or unreleased" in said


def test_without_libcst_a_modified_tree_is_refused(place, monkeypatch):
    file = place / "sglang" / DEEPSEEK
    file.write_text("# ours\n" + file.read_text())
    for name in [n for n in sys.modules if n.startswith(("libcst", "draftwire.patching.transforms"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "draftwire.patching.source", raising=False)
    monkeypatch.setitem(sys.modules, "libcst", None)
    line = refused(place)
    assert "draftwire[patch]" in line and DEEPSEEK in line


@pytest.mark.parametrize("keep", [0.3, 0.97])
def test_a_truncated_file_is_refused(place, keep):
    file = place / "sglang" / DEEPSEEK
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * keep)])
    assert DEEPSEEK in refused(place)
    assert DEEPSEEK in refused(place, "--check")


def test_another_releases_file_is_refused_by_name(place):
    other = "0.5.12"
    shutil.copyfile(tree_file(other, DEEPSEEK), place / "sglang" / DEEPSEEK)
    line = refused(place)
    assert DEEPSEEK in line and f"SGLang {other}" in line and RELEASE in line


def tree_file(release: str, file: str) -> Path:
    return tree(release) / file


@pytest.mark.parametrize("file", [DEEPSEEK, codemod.MARK, codemod.READER])
def test_a_tree_patched_by_hand_is_refused(place, file):
    path = place / "sglang" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    text = path.read_text() if path.exists() else ""
    path.write_text(text + "\nfrom sglang.srt.speculative.draft_wiring import CaptureList\n")
    assert file in refused(place)
    assert file in refused(place, "--revert")


@pytest.mark.parametrize("file", codemod.ADDED)
def test_a_persons_own_file_in_an_unreleased_tree_is_left_alone(place, file):
    for name in ("version.py", "_version.py"):
        (place / "sglang" / name).write_text('__version__ = "0.5.99"\n')
    for info in place.glob("*.dist-info"):
        shutil.rmtree(info)
    path = place / "sglang" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine = 1\n")
    assert Path(file).name in refused(place)
    assert path.read_text() == "mine = 1\n"


def test_a_patched_file_that_changed_since_is_refused(place):
    run(place)
    file = place / "sglang" / DEEPSEEK
    file.write_text(file.read_text() + "# later\n")
    assert DEEPSEEK in refused(place, "--revert")
    assert DEEPSEEK in refused(place, "--check")


@pytest.mark.parametrize("name", ["nothing", "file"])
def test_what_is_no_tree_is_refused(tmp_path, name):
    (tmp_path / "file").write_text("")
    assert "python/sglang/srt" in run(tmp_path / name)[1]
    assert run(tmp_path / name)[0] == 2


def test_two_flags_are_refused(place):
    refused(place, "--check", "--revert")


def test_a_damaged_record_is_refused(place):
    file = place / "sglang" / DEEPSEEK
    file.write_text("# ours\n" + file.read_text())
    run(place)
    (place / "sglang" / RECORD).write_text("half a rec")
    assert RECORD in refused(place, "--revert")


def test_an_installed_tree_takes_less_than_two_seconds(place):
    """Of the processor: on a machine that is busy the clock tells of others."""
    for flags in ([], ["--check"], ["--diff"], ["--revert"]):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "draftwire", "patch", str(place), *flags]
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2


def test_a_patch_whose_result_is_not_the_locked_one_is_never_written(place):
    found = plan(place)
    first, *others = found.patch.insertions[DEEPSEEK]
    odd = first._replace(lines=(*first.lines, "# more"))
    wrong = found._replace(patch=Patch({**found.patch.insertions, DEEPSEEK: [odd, *others]}, found.patch.added))
    with pytest.raises(PatchError, match="the patched file's hash"):
        apply.applied(wrong)
