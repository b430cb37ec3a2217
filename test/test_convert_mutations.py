"""The comparison with speculators can fail: each of these changes to a copy of our code is seen by it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from draft_cases import TRAINERS_DEFAULT, combinations, stretched
from drafts_served import ROOT, DraftServer
from speculators_oracle import compute_logits, make_drafts
from states import load_sample

from draftwire.pair import example_pair
from draftwire.server import ServerError

pytestmark = pytest.mark.slow
QWEN = "qwen3-residual-before_fc-output-reduced-window"
OVERLAY = "draftwire_overlay/srt/models/llama_eagle3.py"
IN_THE_OVERLAY = {
    "no norm_before_residual": (OVERLAY, "layer_id == 0 and wanted", "False and wanted", TRAINERS_DEFAULT),
    "embedding and state swapped": (
        OVERLAY, "[self.input_layernorm(embeds), residual]", "[residual, self.input_layernorm(embeds)]",
        TRAINERS_DEFAULT,
    ),
    "a window of one key more": (OVERLAY, "window - 1 + more", "window + more", TRAINERS_DEFAULT),
    "a window that does not grow": (OVERLAY, "window - 1 + more", "window - 1", TRAINERS_DEFAULT),
    "q and k norm swapped": (OVERLAY, "zip(self.norms,", "zip(self.norms[::-1],", QWEN),
    "the target's embedding": (OVERLAY, "if wanted.own_embedding:", "if False:", "own_embedding"),
    "no overlay file": (OVERLAY, None, None, TRAINERS_DEFAULT),
}  # fmt: skip
IN_THE_CONVERTER = {
    "an id shifted": ("draftwire/convert/ids.py", "wanted = list(boundaries)", "wanted = [b + 1 for b in boundaries]",
                      TRAINERS_DEFAULT),
    "another RoPE": ("draftwire/convert/rope.py", '"rope_theta": float(theta)', '"rope_theta": 2.0 * theta',
                     TRAINERS_DEFAULT),
    "no norm_output": ("draftwire/convert/flatten.py", ', "norm_output")', ")", TRAINERS_DEFAULT),
    "no window": ("draftwire/convert/flatten.py", "    if SLIDING in types:\n", "    if False:\n", TRAINERS_DEFAULT),
    "another epsilon": ("draftwire/convert/geometry.py", "return float(value)", "return 1e-1", TRAINERS_DEFAULT),
    "trainers' names": ("draftwire/tensor_names.py", "if speculators else None", "if False else None",
                        "three_layers"),
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = {case for *_, case in [*IN_THE_OVERLAY.values(), *IN_THE_CONVERTER.values()]}
    folder = tmp_path_factory.mktemp("made")
    make_drafts([c for c in [*stretched(), *combinations()] if c["name"] in names], example_pair().target, folder)
    return folder


def copy(folder: Path, file: str, old: str | None, new: str | None) -> Path:
    """Our two packages under `folder`, changed in one place; the whole file is gone where there is nothing to find."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "python" / "draftwire", folder / "draftwire", ignore=ignored)
    shutil.copytree(ROOT / "python" / "sglang", folder / "draftwire_overlay", ignore=ignored)
    if old is None:
        (folder / file).unlink()
        (folder / file).with_name("kimi_k25_eagle3.py").unlink()
        return folder
    text = (folder / file).read_text()
    assert text.count(old) == 1, f"expected {old!r} once in {file}"
    (folder / file).write_text(text.replace(old, str(new)))
    return folder


def convert_by(package: Path | None, source: Path, out: Path) -> bool:
    """Convert with a changed copy of our code, None for the code itself. Whether it did."""
    program = "import sys\nfrom pathlib import Path\nfrom draftwire.convert import convert\n"
    program += "import draftwire\nassert sys.argv[1] in ('', str(Path(draftwire.__file__).parents[1]))\n"
    program += "convert(sys.argv[2], Path(sys.argv[3]))\n"
    path = os.pathsep.join(filter(None, [str(package or ""), os.environ.get("PYTHONPATH")]))
    ran = subprocess.run(
        [sys.executable, "-c", program, str(package or ""), str(source), str(out)], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": path}, check=False,
    )  # fmt: skip
    assert ran.returncode == 0 or "DraftError" in ran.stderr, ran.stderr
    return ran.returncode == 0


def greatest_error(server: DraftServer, source: Path, folder: Path) -> float:
    """Between the logits of the draft that is served and of speculators for `source`, on the states it was fed."""
    from safetensors.torch import load_file, save_file

    drafted = server.draft(load_sample(example_pair().directory, 0)["input_ids"][:200].tolist())
    states = {"hidden": drafted.hidden.contiguous(), "tokens": drafted.tokens.long()}
    save_file(states, folder / "states.in")
    compute_logits([(source, folder / "states.in", folder / "logits.out")])
    return float((drafted.logits - load_file(folder / "logits.out")["logits"]).abs().max())


@pytest.mark.parametrize("mutation", IN_THE_OVERLAY)
def test_seen_in_the_overlay(mutation: str, made: Path, tmp_path: Path) -> None:
    file, old, new, case = IN_THE_OVERLAY[mutation]
    package = copy(tmp_path / "changed", file, old, new)
    assert convert_by(None, made / case, tmp_path / "draft")
    (tmp_path / "probe").mkdir()
    if old is None:
        with pytest.raises(ServerError), DraftServer(tmp_path / "draft", tmp_path / "probe", python_path=[package]):
            pass
        assert "Attempted to load weight (torch.Size([1, 192]))" in (tmp_path / "probe" / "server.log").read_text()
        return
    with DraftServer(tmp_path / "draft", tmp_path / "probe", python_path=[package]) as server:
        assert greatest_error(server, made / case, tmp_path) > 1e-3


def test_seen_in_the_converter(made: Path, tmp_path: Path) -> None:
    """One server, one draft after another; the one that is converted by the code itself agrees."""
    assert convert_by(None, made / TRAINERS_DEFAULT, tmp_path / "right")
    converted = {"right": (tmp_path / "right", made / TRAINERS_DEFAULT)}
    for number, (mutation, (file, old, new, case)) in enumerate(IN_THE_CONVERTER.items()):
        package = copy(tmp_path / f"changed-{number}", file, old, new)
        if convert_by(package, made / case, tmp_path / f"draft-{number}"):
            converted[mutation] = (tmp_path / f"draft-{number}", made / case)
        else:
            assert mutation == "trainers' names"
    (tmp_path / "probe").mkdir()
    errors = {}
    with DraftServer(tmp_path / "right", tmp_path / "probe") as server:
        for mutation, (draft, source) in converted.items():
            if mutation == "an id shifted":
                continue
            assert server.exchange(draft) is None
            errors[mutation] = greatest_error(server, source, tmp_path)
        fed = {}
        for mutation in ("right", "an id shifted"):
            assert server.exchange(converted[mutation][0]) is None
            fed[mutation] = server.draft(load_sample(example_pair().directory, 0)["input_ids"][:50].tolist()).hidden
    assert errors.pop("right") < 1e-4
    assert len(errors) == 4
    assert min(errors.values()) > 1e-3, errors
    # The draft computes the same on other states: that it is fed others shows against the sample's.
    wanted = load_sample(example_pair().directory, 0)["hidden_states"][:3, :50].transpose(0, 1).flatten(1)
    assert (fed["right"] - wanted).norm() / wanted.norm() < 0.02
    assert (fed["an id shifted"] - wanted).norm() / wanted.norm() > 0.1
