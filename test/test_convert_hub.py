"""A draft in the local Hugging Face cache: refs, snapshots and blobs as the hub's own client lays them out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import small_drafts as small
from test_convert_output import command, digest

REVISION = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of `some/draft`: files are links into blobs, which are read-only."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    repository = tmp_path / "hub" / "models--some--draft"
    config = small.speculators_config(norm_before_residual=False)
    source = small.write(repository / "blobs", config, small.tensors())
    snapshot = repository / "snapshots" / REVISION
    snapshot.mkdir(parents=True)
    for file in source.iterdir():
        file.chmod(0o444)
        (snapshot / file.name).symlink_to(os.path.relpath(file, snapshot))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(REVISION)
    return repository


def test_a_snapshot_is_converted_and_stays(cache: Path, tmp_path: Path) -> None:
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache("some/draft", "config.json", cache_dir=cache.parent)
    assert found == str(cache / "snapshots" / REVISION / "config.json")
    before = digest(cache / "blobs")
    ran = command("some/draft", tmp_path / "out")
    assert ran.exit_code == 0, ran.output
    blob = cache / "blobs" / "model.safetensors"
    assert (tmp_path / "out" / "model.safetensors").samefile(blob)
    assert not (tmp_path / "out" / "model.safetensors").is_symlink()
    assert f"a hard link to {blob}" in ran.output
    assert digest(cache / "blobs") == before


BROKEN = {
    "a revision that is not there": (b"fedcba9876543210", "the snapshot fedcba9876543210 that refs/main names"),
    "an empty ref": (b"", "a revision in hexadecimal digits; found ''"),
    "blanks": (b" \n", "a revision in hexadecimal digits; found ''"),
    "a path": (b"../../../../etc", "a revision in hexadecimal digits"),
    "dots": (b"..", "a revision in hexadecimal digits"),
    "bytes": (b"\xff\xfe\x00\x80", "a revision in hexadecimal digits"),
    "two lines": (REVISION.encode() + b"\n" + REVISION.encode(), "a revision in hexadecimal digits"),
    "endless": (b"a" * 10**6, "a revision in hexadecimal digits"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_ref_that_leads_nowhere(cache: Path, tmp_path: Path, what: str) -> None:
    content, said = BROKEN[what]
    (cache / "refs" / "main").write_bytes(content)
    ran = command("some/draft", tmp_path / "out")
    assert ran.exit_code == 2
    assert len(ran.output.splitlines()) == 1
    assert ran.output.startswith("draftwire: expected ")
    assert said in ran.output
    assert "`hf download some/draft` again" in ran.output
    assert [p.name for p in tmp_path.iterdir()] == ["hub"]


def test_a_link_to_a_blob_that_is_gone(cache: Path, tmp_path: Path) -> None:
    (cache / "blobs" / "model.safetensors").unlink()
    ran = command("some/draft", tmp_path / "out")
    assert ran.exit_code == 2
    assert "safetensors" in ran.output
    assert ran.output.startswith("draftwire: expected ")
