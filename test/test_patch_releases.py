"""Each release's patch on a git repository of its wheel's files: exact, additive, the codemod's, and removable."""

from __future__ import annotations

import pytest
from patched import LOCK, PATCHES, RELEASES, apply_patch, git, installed_release, repository, tree

from draftwire.patching import codemod, generate, lock

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
