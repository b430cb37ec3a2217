"""What a row keeps of the draft and the settings, and how rows are added."""

import json
import os
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest
from bench_files import deployment
from bench_rows import bench_row

from draftwire.bench.deployment import Deployment
from draftwire.bench.ledger import append, require_writable
from draftwire.bench.panels import setting
from draftwire.bench.provenance import hash_config, hash_weights
from draftwire.bench.refusals import BenchError
from draftwire.pair import example_pair


def test_rows_are_added(tmp_path: Path) -> None:
    file = tmp_path / "new" / "results.jsonl"
    require_writable(file)
    assert not file.exists()
    for number in (1, 2):
        append(file, {"number": number})
    assert [json.loads(line)["number"] for line in file.read_text().splitlines()] == [1, 2]
    synced: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", synced.append)
        append(file, {"number": 3})
    assert len(synced) == 1, "a row that is said to be kept is on the disk"
    (tmp_path / "folder").mkdir()
    with pytest.raises(BenchError, match="expected to add a row, found Is a directory"):
        require_writable(tmp_path / "folder")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux")
def test_a_full_disk() -> None:
    with pytest.raises(BenchError, match="expected to add a row, found No space left on device in /dev/full"):
        append(Path("/dev/full"), {"number": 1})


def test_the_drafts_hash(tmp_path: Path) -> None:
    """As `cat *.safetensors | sha256sum` prints."""
    for name in ("b", "a"):
        (tmp_path / f"{name}.safetensors").write_bytes(name.encode() * 3_000_000)
    said = subprocess.run(f"cat {tmp_path}/*.safetensors | sha256sum", shell=True, capture_output=True, text=True)
    assert hash_weights(str(tmp_path)) == said.stdout.split()[0]


def test_the_hash_of_a_draft_without_safetensors(tmp_path: Path) -> None:
    """Of the weights that are served, whatever a trainer left beside them; None where there are none."""
    for name, weights in (("a", b"one"), ("b", b"two")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pytorch_model.bin").write_bytes(weights)
        (tmp_path / name / "training_args.bin").write_bytes(name.encode())
        assert hash_weights(str(tmp_path / name)) == sha256(weights).hexdigest()
    (tmp_path / "a" / "other.pt").write_bytes(b"three")
    assert hash_weights(str(tmp_path / "a")) == sha256(b"one").hexdigest()
    (tmp_path / "a" / "pytorch_model.bin").unlink()
    assert hash_weights(str(tmp_path / "a")) == sha256(b"three").hexdigest()
    (tmp_path / "a" / "model.safetensors").write_bytes(b"four")
    assert hash_weights(str(tmp_path / "a")) == sha256(b"four").hexdigest()
    (tmp_path / "b" / "pytorch_model.bin").unlink()
    assert hash_weights(str(tmp_path / "b")) is None


def test_a_row_tells_a_wiring_from_another(tmp_path: Path) -> None:
    """The weights are the same, the ids are not."""
    pair = example_pair()
    crossed = pair.rewire(tmp_path / "crossed", [3, 6, 9])
    assert hash_weights(str(crossed)) == hash_weights(str(pair.draft))
    assert hash_config(str(crossed)) != hash_config(str(pair.draft))
    assert hash_config(str(tmp_path)) is None


def test_settings_are_told_apart() -> None:
    """Another draft config, sampling, prompts or speculative flag is another measurement."""
    row = bench_row(3, draft_config_sha256="one", temperature=0.0, top_p=1.0)
    others = [{"draft_config_sha256": "two"}, {"draft_sha256": "ab"}, {"temperature": 1.0}, {"top_p": 0.9},
              {"prompts": {"sha256": "aa"}}, {"flags": ["--dp-size", "8"]},
              {"speculative_flags": ["speculative-num-steps=2"]}, {"device": "gpu"}]  # fmt: skip
    assert len({setting(row | other) for other in ({}, *others)}) == len(others) + 1
    assert setting(row | {"commit": "other", "date": "2027-01-01"}) == setting(row)
    first = {key: value for key, value in row.items() if key != "always_cut"}
    assert setting(first) != setting(row), "its arms shared a server"


def test_the_speculative_flags_of_a_row(tmp_path: Path) -> None:
    said = Deployment(deployment(tmp_path).file, ["--dp-size", "2", "--speculative-num-steps", "2"])
    assert said.said_of_speculation == ["speculative-num-steps=2"]
    (arm,) = said.arms(["eagle3"], [])
    assert (arm.label, arm.table["speculative-num-draft-tokens"]) == ("eagle3 2/1/3", 3), "as SGLang sets it"
