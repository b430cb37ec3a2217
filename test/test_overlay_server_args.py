"""`server_args.py`: upstream's real check of a command line, refused before a worker starts or a weight loads."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import engine_free
import pytest
from engine_free import EXAMPLE, capture_list, server_args, write_draft
from refused import assert_says, refusal_of

from draftwire import seams
from draftwire_overlay.srt import server_args as overlay_file
from draftwire_overlay.srt.server_args import require_fc
from draftwire_overlay.srt.speculative.aux_boundaries import BOUNDARIES, IDS

CALLS: list[str] = []


@pytest.fixture(autouse=True)
def launching(monkeypatch):
    """The launching process, whose listener for workers' refusals and imports are only counted."""
    CALLS.clear()
    monkeypatch.setattr(overlay_file, "end_with_workers", lambda: CALLS.append("listens"))
    monkeypatch.setattr(seams, "join_pending", lambda: CALLS.append("joins"))
    with engine_free.joined("ServerArgs", "ModelConfig"):
        yield


def write_fc(directory: Path, states: int, *, hidden: int = 192, name: str = "fc.weight", dtype: str = "BF16") -> Path:
    """A safetensors file that holds nothing but a header and zeros."""
    size = {"BF16": 2, "F32": 4, "F64": 8, "I8": 1, "F8_E4M3": 1}[dtype] * 192 * states * hidden
    header = json.dumps({name: {"dtype": dtype, "shape": [192, states * hidden], "data_offsets": [0, size]}}).encode()
    file = directory / "model.safetensors"
    file.write_bytes(struct.pack("<Q", len(header)) + header + bytes(size))
    return file


def check(draft: Path, **fields) -> None:
    """What the launching process asks of its command line."""
    args = server_args(draft, **fields)
    args.resolve_once()
    args.check_server_args()


def test_the_example_passes():
    check(EXAMPLE / "draft")
    assert CALLS == ["listens", "joins"]


def test_upstreams_own_checks_still_run():
    """One of them: an empty budget for pipeline micro-batches."""
    with pytest.raises(AssertionError, match="pp_max_micro_batch_size"):
        check(EXAMPLE / "draft", pp_max_micro_batch_size=0)


@pytest.mark.parametrize("ids", [[-1, 2], [-1, 2, 5], [-1, 2, 5, 8]])
@pytest.mark.parametrize("states", [2, 3, 4, 5])
def test_fc_takes_what_is_captured_or_is_refused(ids, states, tmp_path):
    draft = write_draft(tmp_path / "draft", {IDS: ids})
    file = write_fc(draft, states)
    if states == len(ids):
        check(draft)
        return
    line = refusal_of(check, draft)
    wanted, found = len(ids) * 192, states * 192
    assert_says(line, f"{len(ids)} x 192 = {wanted}", f"[192, {found}] in {file}", "another number of states", "[0, 3")


@pytest.mark.parametrize("name", ["fc.weight", "model.fc.weight"])
@pytest.mark.parametrize("dtype", ["BF16", "F32", "F64"])
def test_both_names_and_each_float_are_measured(name, dtype, tmp_path):
    draft = write_draft(tmp_path / "draft", {IDS: [-1, 2, 5]})
    write_fc(draft, 2, name=name, dtype=dtype)
    assert_says(refusal_of(check, draft), "576", "[192, 384]", "boundaries [0, 3, 6]")


def test_an_fc_of_a_narrower_target_is_refused(tmp_path):

    draft = write_draft(tmp_path / "draft", {IDS: [-1, 2, 5]})
    write_fc(draft, 3, hidden=96)
    assert_says(refusal_of(check, draft), "576", "[192, 288]", "boundaries")


@pytest.mark.parametrize(("name", "dtype"), [("fc.weight", "I8"), ("fc.weight", "F8_E4M3"), ("fc.qweight", "BF16")])
def test_a_quantised_fc_is_left_to_the_workers(name, dtype, tmp_path):
    """Its header says the packed width; the built model is measured at start."""
    draft = write_draft(tmp_path / "draft", {IDS: [-1, 2, 5]})
    write_fc(draft, 2, name=name, dtype=dtype)
    check(draft)


def test_a_draft_without_safetensors_is_left_to_the_workers(tmp_path):
    check(write_draft(tmp_path / "draft", {IDS: [-1, 2, 5]}))


@pytest.mark.parametrize("content", [b"", b"\0" * 4, struct.pack("<Q", 10 * 2**30) + b"{}"])
def test_a_file_that_lies_is_refused(content, tmp_path):
    draft = write_draft(tmp_path / "draft", {IDS: [-1, 2, 5]})
    (draft / "model.safetensors").write_bytes(content)
    assert_says(refusal_of(check, draft), "header", str(draft / "model.safetensors"), "export the draft again")


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    draft = write_draft(tmp_path / "draft", {IDS: [-1, 2, 5]})
    (draft / "model.safetensors").symlink_to(tmp_path / "gone")
    line = refusal_of(require_fc, draft, capture_list([-1, 2, 5]))
    assert "No such file" in line
    assert line.endswith("export the draft again")


def test_a_wiring_that_cannot_be_served_is_refused_before_any_worker(tmp_path):
    draft = write_draft(tmp_path / "draft", {IDS: [-2, 2, 5]})
    assert_says(refusal_of(check, draft), "ids of -1 and above", "[-2, 2, 5]", str(draft), "nothing lies below")
    draft = write_draft(tmp_path / "other", {BOUNDARIES: [0, 3, 12]})
    assert_says(refusal_of(check, draft), "boundaries below 12", "[0, 3, 12]", "earlier layer")
    assert CALLS == ["listens", "joins"] * 2


@pytest.mark.parametrize("algorithm", ["EAGLE", "NEXTN"])
def test_an_eagle3_draft_served_as_eagle_is_refused(algorithm):
    """NEXTN is an alias that upstream resolves on the way."""
    line = refusal_of(check, EXAMPLE / "draft", speculative_algorithm=algorithm)
    assert_says(line, "EAGLE3 for the draft", algorithm, "fc would be skipped")


def test_a_server_without_a_draft_is_not_touched():
    check(EXAMPLE / "draft", speculative_algorithm=None, speculative_draft_model_path=None)
    assert CALLS == []


def test_a_draft_inside_its_target_is_not_touched():
    """EAGLE without a path: the target's own next-token layer."""
    check(EXAMPLE / "draft", speculative_algorithm="EAGLE", speculative_draft_model_path=None)
    assert CALLS == []


def test_another_familys_fc_is_not_measured(tmp_path):
    target = write_draft(tmp_path / "llama", None, architectures=["LlamaForCausalLM"], num_hidden_layers=12)
    draft = write_draft(tmp_path / "draft", {IDS: [2, 5, 8]})
    write_fc(draft, 2)
    check(draft, target=target)


def test_the_weights_of_a_real_draft_are_not_read(tmp_path):
    """Only the header: tensors of nothing but holes pass."""
    draft = write_draft(tmp_path / "draft", {IDS: [-1, 2, 5]})
    shutil.copy(EXAMPLE / "draft" / "model.safetensors", draft)
    file = draft / "model.safetensors"
    size = file.stat().st_size
    with file.open("r+b") as stream:
        stream.truncate(8 + struct.unpack("<Q", stream.read(8))[0])
        stream.truncate(size)
    check(draft)


@pytest.mark.parametrize("path", ["/nowhere/draft", "./nowhere", "~/nowhere/draft", "a/b/c"])
def test_a_draft_that_is_not_there_is_refused(path):
    args = server_args(EXAMPLE / "draft")
    args.speculative_draft_model_path = path
    assert_says(
        refusal_of(args.check_server_args), "a draft", "no config.json in " + path, "--speculative-draft-model-path"
    )
    assert CALLS == []


def test_a_hub_name_is_left_to_the_hub():
    overlay_file.require_config("lightseekorg/kimi-k2.5-eagle3")
    overlay_file.require_config("s3://bucket/some/draft")


def test_a_model_without_fc_is_refused(tmp_path):
    """The target itself as its draft, say."""
    draft = write_draft(tmp_path / "draft", {IDS: [-1, 2, 5]})
    write_fc(draft, 3, name="lm_head.weight")
    assert_says(refusal_of(check, draft), "fc.weight", "found none", str(draft), "no EAGLE-3 draft")
