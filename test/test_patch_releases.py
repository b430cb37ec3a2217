"""Each release's patch on a git repository of its wheel's files: exact, additive, the codemod's, and removable."""

from __future__ import annotations

import shutil

import pytest
from patched import LOCK, PATCHES, RELEASES, apply_patch, git, installed_release, repository, tree

from draftwire.patching import apply, codemod, diff, generate, lock
from draftwire.patching.plan import plan
from draftwire.patching.refusals import PatchError

EVERY = pytest.mark.parametrize(
    "release", [pytest.param(r, marks=[] if r == installed_release() else pytest.mark.slow) for r in RELEASES]
)


@pytest.fixture(scope="module")
def change_of():
    """`change_of(release)`: what the codemod makes of that release's own files, worked out once."""
    known = {}

    def change(release: str) -> codemod.Change:
        if release not in known:
            known[release] = codemod.change(lambda file: (tree(release) / file).read_bytes().decode())
        return known[release]

    return change


@EVERY
def test_git_applies_it_and_the_result_is_the_codemods(release, tmp_path, change_of):
    root = apply_patch(release, tmp_path)
    found = {file: (root / file).read_bytes() for file in LOCK[release].hashes}
    assert found == {file: text.encode() for file, text in change_of(release).after.items()}
    assert {f: lock.sha256(data) for f, data in found.items()} == {f: h[1] for f, h in LOCK[release].hashes.items()}
    status = git("status", "--porcelain", "-uall", folder=tmp_path).stdout.split("\n")
    assert {line[3:] for line in status if line} >= {f"python/sglang/{file}" for file in found}
    for file, data in found.items():
        compile(data, file, "exec")


@EVERY
def test_it_adds_lines_and_takes_none(release, tmp_path):
    root = apply_patch(release, tmp_path)
    for file, (before, _) in LOCK[release].hashes.items():
        if before != lock.NEW:
            old, new = ((place / file).read_text().splitlines() for place in (tree(release), root))
            rest = iter(new)
            assert all(any(line == other for other in rest) for line in old), f"a line of {file} is gone or moved"
            assert len(new) > len(old)


@EVERY
def test_git_takes_it_off_again(release, tmp_path):
    root = apply_patch(release, tmp_path)
    twice = git("apply", "-C1", "the.patch", folder=tmp_path)
    assert twice.returncode != 0
    assert git("apply", "-R", "-C1", "the.patch", folder=tmp_path).returncode == 0
    for file, (before, _) in LOCK[release].hashes.items():
        there = (root / file).read_bytes() if (root / file).exists() else None
        assert there == (None if before == lock.NEW else (tree(release) / file).read_bytes())


@EVERY
def test_draftwire_puts_no_other_releases_patch_on(release, tmp_path):
    """Of each wrong patch: not by a tree that says it is of that patch's release, and not by force."""
    repository(release, tmp_path)
    root = tmp_path / "python" / "sglang"
    before = {file: (root / file).read_bytes() for file in LOCK[release].hashes if (root / file).exists()}
    own = plan(tmp_path)
    assert own.source.endswith(LOCK[release].patch)
    for name in sorted({locked.patch for locked in LOCK.values()} - {LOCK[release].patch}):
        patch = diff.parse((PATCHES / name).read_text(), name)
        with pytest.raises(PatchError):
            apply.carry_out(own, apply.applied(own._replace(patch=patch)))
        (root / "_version.py").write_text(f"__version__ = '{name.removesuffix('.patch')}'\n")
        with pytest.raises(PatchError, match="upstream's file or ours"):
            plan(tmp_path)
        (root / "_version.py").unlink()
    assert before == {file: (root / file).read_bytes() for file in LOCK[release].hashes if (root / file).exists()}


@pytest.mark.slow
def test_git_puts_some_on_as_the_documentation_says(tmp_path):
    """The pairs of patch and release that git takes though they are wrong, of all files that some patch touches."""
    names, taken, wrong = sorted({locked.patch for locked in LOCK.values()}), [], 0
    files = {file for locked in LOCK.values() for file in locked.hashes}
    for release in RELEASES:
        folder = repository(release, tmp_path / release)
        for file in (file for file in files if (tree(release) / file).exists()):
            (folder / "python" / "sglang" / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(tree(release) / file, folder / "python" / "sglang" / file)
        for name in names:
            if name != LOCK[release].patch:
                wrong += 1
                done = git("apply", "-C1", "--check", str(PATCHES / name), folder=folder)
                taken += [(release, name)] if done.returncode == 0 else []
    text = (PATCHES.parent / "docs" / "patching.md").read_text()
    assert f"git applies {len(taken)} of the {wrong} wrong pairs" in text, (len(taken), wrong)


@EVERY
def test_the_locks_hashes_are_upstreams(release):
    for file, (before, _) in LOCK[release].hashes.items():
        path = tree(release) / file
        assert before == (lock.sha256(path.read_bytes()) if path.exists() else lock.NEW)


@pytest.mark.slow
def test_patches_are_generated_byte_for_byte(change_of):
    files = generate.contents({release: change_of(release) for release in RELEASES})
    assert files == {path.name: path.read_text() for path in PATCHES.iterdir()}


def test_a_repository_holds_upstreams_files(tmp_path):
    """So that the tests above cannot pass on an empty tree."""
    release = installed_release() or "0.5.23"
    folder = repository(release, tmp_path)
    assert len(git("ls-files", folder=folder).stdout.split()) == len(LOCK[release].hashes) - len(codemod.ADDED)
