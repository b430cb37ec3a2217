"""Every release with its patch on, by git's own hand, and the functions of it run over small fakes."""

from __future__ import annotations

import ast
import contextlib
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import torch
import upstream

from draftwire.patching import lock

RELEASES = [*upstream.locked(upstream.OLDER), *upstream.locked()]
LOOP_CAPTURES = RELEASES[: RELEASES.index("0.5.14")]
LAYER_CAPTURES = RELEASES[RELEASES.index("0.5.14") :]
PATCHES = Path(__file__).parent.parent / "patches"
LOCK = lock.read(PATCHES)
DEEPSEEK = "sglang.srt.models.deepseek_v2"
LAYERS, TOKENS, HIDDEN = 12, 5, 8


def tree(release: str) -> Path:
    """The folder `sglang` of a release as upstream made it."""
    if release == installed_release():
        return upstream.installed()
    return upstream.given(release) or upstream.download(release)


def installed_release() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("sglang").partition("+")[0]
    except PackageNotFoundError:
        return ""


def git(*arguments: str, folder: Path) -> subprocess.CompletedProcess:
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)


def repository(release: str, folder: Path) -> Path:
    """A git repository with python/sglang/..., the files of a release that its patch touches."""
    for file, (before, _) in LOCK[release].hashes.items():
        if before != lock.NEW:
            copy = folder / "python" / "sglang" / file
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(tree(release) / file, copy)
    git("init", "-q", folder=folder)
    git("add", "-A", folder=folder)
    return folder


def apply_patch(release: str, folder: Path, change=None) -> Path:
    """`repository` with the release's patch applied; `change`, where given, makes another text of the patch."""
    repository(release, folder)
    patch = folder / "the.patch"
    text = (PATCHES / LOCK[release].patch).read_text()
    patch.write_text(change(text) if change else text)
    done = git("apply", "-C1", str(patch), folder=folder)
    assert done.returncode == 0, done.stderr
    return folder / "python" / "sglang"


class Loose(SimpleNamespace):
    """Known attributes, and Nothing for every other."""

    def __getattr__(self, name):
        return getattr(upstream.Nothing(), name)


class CaptureList(list):
    """What the patched reader hands to the setter."""


class Layer:
    """A decoder layer that keeps its input as residual and adds to it in place, as fused norms do.

    `truth`, shared by the layers, gets the residual stream [TOKENS, HIDDEN] at each boundary.
    """

    def __init__(self, index: int, names: list[str], truth: dict, carried: dict, capture):
        self.index, self.names, self.truth, self.carried, self.capture = index, names, truth, carried, capture

    def __call__(self, positions, hidden_states, batch, *more, captured_last_layer_outputs=None, **rest):
        residual = next((m for m in more if isinstance(m, torch.Tensor)), self.carried.get("residual"))
        if residual is None:
            residual, hidden_states = hidden_states, hidden_states * 0.5
        else:
            residual.add_(hidden_states)
            hidden_states = residual * 0.5
        self.truth[self.index] = residual.clone()
        if captured_last_layer_outputs is not None:
            self.capture(hidden_states, residual, batch, captured_last_layer_outputs)
        residual.add_(hidden_states + 1)
        self.carried["residual"] = residual
        return tuple(dict(hidden_states=residual * 0.25 + self.index, residual=residual).get(n) for n in self.names)


def call_setter(patched: Path, target, ids) -> None:
    names = {"CaptureList": CaptureList}
    upstream.cut(patched, DEEPSEEK, "DeepseekV2ForCausalLM", "set_eagle3_layers_to_capture", **names)(target, ids)


def run_loop(release: str, patched: Path, ids, **model_fields) -> tuple[list[torch.Tensor], dict[int, torch.Tensor]]:
    """(captured states, the residual stream at each boundary): the patched setter and loop, the release's own capture.

    ids: as the setter gets them. model_fields: of the model, such as `enable_a2a_moe`.
    """
    truth: dict[int, torch.Tensor] = {}
    names, carried = layer_results(patched), {}
    capture = layer_capture(release) if release in LAYER_CAPTURES else None
    layers = [Layer(i, names, truth, carried, capture) for i in range(LAYERS)]
    ranks = SimpleNamespace(is_first_rank=True, is_last_rank=True)
    embedding = torch.arange(TOKENS * HIDDEN, dtype=torch.float32).view(TOKENS, HIDDEN)
    fields = {"embed_tokens": lambda ids: embedding.clone(), "layers": layers, "pp_group": ranks}
    fields |= {"start_layer": 0, "end_layer": LAYERS, "first_k_dense_replace": 1, "layers_to_capture": []}
    fields |= {"llama_4_scaling_config": None, "gemm_output_zero_allocator_size": 0, "enable_a2a_moe": False}
    fields |= {"norm": lambda states, residual=None: states if residual is None else (states, residual)}
    fields |= {"config": SimpleNamespace(num_hidden_layers=LAYERS), "next_full_attention_layer_id": {}}
    model = Loose(**(fields | model_fields))
    target = SimpleNamespace(model=model, pp_group=ranks, config=model.config, capture_aux_hidden_states=False)
    call_setter(patched, target, ids)
    assert target.capture_aux_hidden_states
    names = {"torch": torch, "nullcontext": contextlib.nullcontext, "get_attention_tp_group": model_fields.get("group")}
    names["tensor_model_parallel_all_gather"] = model_fields.get("over_all")
    names = {name: value for name, value in names.items() if value is not None} | collectors(release)
    forward = upstream.cut(patched, DEEPSEEK, "DeepseekV2Model", "forward", **names)
    batch = Loose(can_run_tbo=False, aux_hidden_states_buffer=None, forward_mode=Loose(is_idle=lambda: False))
    _, states = forward(model, torch.arange(TOKENS), torch.arange(TOKENS), batch)
    states = list(states.split(HIDDEN, dim=-1)) if isinstance(states, torch.Tensor) else list(states)
    assert torch.equal(truth[0], embedding)
    return states, truth


def layer_results(patched: Path) -> list[str]:
    """What the loop unpacks a layer's result into, by name."""
    forward = upstream.find_method(patched, DEEPSEEK, "DeepseekV2Model", "forward")
    calls = [n for n in ast.walk(forward) if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call)]
    call = next(n for n in calls if isinstance(n.value.func, ast.Name) and n.value.func.id == "layer")
    return [element.id for element in call.targets[0].elts]


def collectors(release: str) -> dict:
    """The release's own collectors of captured states (from 0.5.17); before, a list."""
    if not (tree(release) / "srt/layers/aux_hidden_states.py").exists():
        return {}
    module = upstream.parse(tree(release), "sglang.srt.layers.aux_hidden_states")
    classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
    names: dict = {"torch": torch}
    future = ast.parse("from __future__ import annotations").body
    exec(compile(ast.Module([*future, *classes], []), "aux_hidden_states", "exec"), names)
    return {name: value for name, value in names.items() if isinstance(value, type)}


def layer_capture(release: str, gather=None):
    """The release's own capture of a layer's input: `capture(hidden_states, residual, batch, into)`.

    gather: what moves a scattered input to every rank; None where the input is whole.
    """
    boundary = "sglang.srt.layers.layer_boundary.stage"
    if (tree(release) / "srt/layers/communicator.py").exists():
        name = "prepare_attn_and_capture_last_layer_outputs"
        body = upstream.cut(tree(release), "sglang.srt.layers.communicator", "LayerCommunicator", name)
        whole = lambda hidden_states, **_: hidden_states  # noqa: E731
        owner = Loose(_communicate_simple_fn=gather or whole, _post_attn_residual_is_read_only=lambda _: False)
        owner.prepare_attn = lambda hidden_states, residual, *_, **__: (hidden_states, residual)
        return lambda hidden, residual, batch, into: body(owner, hidden, residual, batch, into)
    body = upstream.cut(tree(release), boundary, "StageBoundary", "_prepare_attention", gather_attention_tp=gather)
    entry = SimpleNamespace(input_move=gather, capture_preserves_residual=None, input_retainable=gather is not None)
    owner = SimpleNamespace(
        entry=lambda batch: entry,
        _select=lambda hidden, batch: (hidden, SimpleNamespace(entry=entry)),
        _prepare=lambda hidden, stream, *_, **__: (hidden, stream),
        _prepare_input=lambda hidden, stream, *_, **__: (hidden, stream),
    )
    return lambda hidden, residual, batch, into: body(owner, hidden, SimpleNamespace(residual=residual), batch, into)
