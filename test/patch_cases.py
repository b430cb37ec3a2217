"""What a patched release must do, as checks that raise AssertionError, or the release's own error, where it fails."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import torch
import upstream
from patched import DEEPSEEK, LAYERS, LOOP_CAPTURES, CaptureList, Loose, call_setter, layer_capture, run_loop, tree

from draftwire_overlay.srt.speculative.aux_boundaries import RULES

GRAPH_FILES = (
    ("sglang.srt.model_executor.cuda_graph_runner", "CudaGraphRunner", "__init__"),
    ("sglang.srt.model_executor.model_runner", "ModelRunner", "_dummy_run"),
)


def captures(release: str, patched: Path, boundaries: list[int]) -> None:
    """The states of these boundaries, with their values at capture time though later layers add into the storage."""
    states, truth = run_loop(release, patched, CaptureList(boundaries))
    found = [next((b for b in truth if torch.equal(truth[b], state)), "no boundary") for state in states]
    assert found == boundaries


def leaves_plain_ids_alone(release: str, patched: Path) -> None:
    """A plain list, and none, mean what they mean to upstream's own setter."""
    for ids in ([2, 5, 8], [1, 4, 7], None):
        both = []
        for root in (patched, tree(release)):
            model = SimpleNamespace(layers_to_capture=[], layers=[SimpleNamespace() for _ in range(LAYERS)])
            config = SimpleNamespace(num_hidden_layers=LAYERS)
            target = SimpleNamespace(model=model, pp_group=SimpleNamespace(is_last_rank=True), config=config)
            call_setter(root, target, ids)
            both.append(model.layers_to_capture)
        assert both[0] == both[1]


def two_ranks_capture_the_sum(release: str, patched: Path) -> None:
    """With fusion on, two ranks' captured states are the reduced sum, and other layers stay fused.

    Each rank's experts give their part; the layer reduces it, or leaves that to the next layer's norm.
    """
    layers = [[Layer(rank) for _ in range(4)] for rank in range(2)]
    for rank in layers:
        model = SimpleNamespace(layers_to_capture=[], layers=rank)
        target = SimpleNamespace(model=model, pp_group=SimpleNamespace(is_last_rank=True), config=None)
        call_setter(patched, target, CaptureList([0, 2]))
    outputs = [[layer_output(patched, layer) for layer in rank] for rank in layers]
    whole = float(1 + 2)
    assert [rank[1] for rank in outputs] == [(whole, False)] * 2, "boundary 2 is layer 1's output, reduced"
    assert [rank[0] for rank in outputs] == [(1.0, True), (2.0, True)], "other layers stay fused"
    assert [rank[2][1] for rank in outputs] == [True, True]


class Layer(Loose):
    def __init__(self, rank: int):
        super().__init__(
            rank=rank, nsa_enable_prefill_cp=False, dsa_enable_prefill_cp=False, mla_enable_prefill_cp=False
        )


def layer_output(patched: Path, layer) -> tuple[float, bool]:
    """(value, whether it was left unreduced) of one rank's decoder layer, its forward cut out of the patched file."""
    forward = upstream.cut(patched, DEEPSEEK, "DeepseekV2DecoderLayer", "forward", torch=torch)
    part, total = torch.full((2, 2), float(layer.rank + 1)), torch.full((2, 2), 3.0)
    same = lambda hidden, residual, *_, **__: (hidden, residual)  # noqa: E731
    layer.layer_communicator = SimpleNamespace(
        prepare_attn=same,
        prepare_mlp=same,
        postprocess_layer=same,
        should_fuse_mlp_allreduce_with_next_layer=lambda batch: True,
        should_use_reduce_scatter=lambda batch: False,
    )
    layer.self_attn = lambda hidden_states, **_: hidden_states
    layer.mlp = lambda hidden, batch, fused=False, *_: part.clone() if fused else total.clone()
    names = {"isinstance": lambda value, kind: kind is tuple and type(value) is tuple}
    forward.__globals__.update(names)
    hidden = forward(layer, None, part, Loose(), part, None)[0]
    return float(hidden[0, 0]), bool(getattr(hidden, "_sglang_needs_allreduce_fusion", False))


def ids_are_read_by_the_releases_rule(release: str, patched: Path) -> None:
    """What the patched loader is told of the release is what the release's own setter and loop do."""
    loads = upstream.find_method(patched, "sglang.srt.configs.model_config", "ModelConfig", "from_server_args")
    told = loads.decorator_list[-1]
    assert [ast.unparse(d) for d in loads.decorator_list[:-1]] == ["staticmethod"]
    assert told.func.id == "resolves_draft_ids"
    for ids in ([2, 5, 8], [1, 4, 7]):
        model = SimpleNamespace(layers_to_capture=[])
        target = SimpleNamespace(model=model, pp_group=SimpleNamespace(is_last_rank=True))
        call_setter(tree(release), target, ids)
        assert RULES[told.args[0].value](ids) == model.layers_to_capture
    options = {keyword.arg: keyword.value.value for keyword in told.keywords}
    assert options.pop("embedding_ahead_of_loop", False) == (release in LOOP_CAPTURES)
    text = (patched / "srt/models/llama_eagle3.py").read_text()
    assert options == ({"states": 3} if "num_aux_hidden_states" not in text else {})


def drafts_are_checked_at_launch(patched: Path) -> None:
    """The launch check is decorated, and every name of ours is imported where it is used."""
    checks = upstream.find_method(patched, "sglang.srt.server_args", "ServerArgs", "check_server_args")
    assert [ast.unparse(d) for d in checks.decorator_list] == ["requires_wirable_draft"]
    names = {"server_args": "requires_wirable_draft", "configs.model_config": "resolves_draft_ids"}
    for module, name in {**names, "models.deepseek_v2": "CaptureList"}.items():
        body = upstream.parse(patched, f"sglang.srt.{module}").body
        ours = [n for n in body if isinstance(n, ast.ImportFrom) and n.module == "sglang.srt.speculative.draft_wiring"]
        assert [alias.name for n in ours for alias in n.names] == [name]


def graphs_capture_the_drafts_ids(patched: Path) -> None:
    """The list in force at capture time is the config's, in the graph runner and in the warm-up run."""
    ids = CaptureList([0, 3, 6])
    for module, owner, name in GRAPH_FILES:
        in_force: list = []
        model = SimpleNamespace(set_eagle3_layers_to_capture=lambda layer_ids=None, to=in_force: to.append(layer_ids))
        runner = SimpleNamespace(eagle_use_aux_hidden_state=True, eagle_aux_hidden_state_layer_ids=ids, model=model)
        runner.spec_algorithm = SimpleNamespace(is_eagle3=lambda: True)
        self = runner if owner == "ModelRunner" else SimpleNamespace(model_runner=runner)
        for statement in statements_about(patched, module, owner, name):
            exec(statement, {"self": self, "model_runner": runner})
        assert in_force == [None, ids], f"{module}: {in_force}"


def statements_about(patched: Path, module: str, owner: str, name: str) -> list:
    """The top-level statements of a method that call the setter, compiled one by one."""
    node = upstream.find_method(patched, module, owner, name)
    chosen = [s for s in node.body if "set_eagle3_layers_to_capture" in ast.unparse(s)]
    assert chosen
    return [compile(ast.Module([statement], []), module, "exec") for statement in chosen]


def kimi_starts(patched: Path) -> None:
    """The calls that an EAGLE worker makes of its target while it starts reach the language model."""
    module, owner = "sglang.srt.models.kimi_k25", "KimiK25ForConditionalGeneration"
    asked = []
    inner = SimpleNamespace(
        model=SimpleNamespace(layers_to_capture=[]),
        set_eagle3_layers_to_capture=lambda ids=None: asked.append(ids),
        get_embed_and_head=lambda: ("embedding", "head"),
        set_embed_and_head=lambda *both: asked.append(both),
    )
    functions = {n: upstream.find_method(patched, module, owner, n) for n in KIMI_NAMES}
    assert all(functions.values()), functions
    assert [ast.unparse(d) for d in functions["model"].decorator_list] == ["property"]
    wrapper = type("Wrapper", (), {n: upstream.cut(patched, module, owner, n) for n in KIMI_NAMES})
    wrapper.model = property(wrapper.model)
    target = wrapper()
    target.language_model = inner
    target.set_eagle3_layers_to_capture([0, 3, 6])
    embed, head = target.get_embed_and_head()
    target.set_embed_and_head(embed, head)
    assert asked == [[0, 3, 6], ("embedding", "head")]
    assert target.model is inner.model


KIMI_NAMES = ("model", "set_eagle3_layers_to_capture", "get_embed_and_head", "set_embed_and_head")


def embedding_is_not_gathered(release: str, patched: Path) -> None:
    """With expert parallelism later states are gathered from the ranks; the embedding is whole on each and is not."""
    if release in LOOP_CAPTURES:
        gathered = []
        gather = lambda name, by: lambda states, dim=0: gathered.append(name) or torch.cat([states] * by)  # noqa: E731
        ids, group = CaptureList([0, 1, 3, 6]), SimpleNamespace(all_gather=gather("attention", 1))
        fields = {"enable_a2a_moe": True, "group": lambda: group, "over_all": gather("all", 2)}
        states, truth = run_loop(release, patched, ids, **fields)
        over = "all" if release in ("0.5.8", "0.5.8.post1", "0.5.9") else "attention"
        assert gathered == [over] * 2, "boundaries 3 and 6, after an expert layer"
        rows = len(states[0])
        assert [len(state) // rows for state in states] == [1, 1, *([2, 2] if over == "all" else [1, 1])]
        assert all(torch.equal(state[:rows], truth[b]) for state, b in zip(states, ids, strict=True))
        return
    if (tree(release) / "srt/layers/communicator.py").exists():
        names = {"ScatterMode": SimpleNamespace(model_input_output=lambda: "whole")}
        module, owner = "sglang.srt.layers.communicator", "LayerScatterModes"
        mode = upstream.cut(tree(release), module, owner, "_compute_layer_input_mode", **names)
        modes = SimpleNamespace(_compute_layer_output_mode=lambda context: "scattered")
        first, later = (SimpleNamespace(layer_id=i, previous_layer=lambda: None) for i in (0, 3))
        assert [mode(modes, first), mode(modes, later)] == ["whole", "scattered"]
    moved = []
    gather = lambda hidden_states, **_: moved.append(hidden_states) or torch.cat([hidden_states] * 2)  # noqa: E731
    rows = []
    for mover in (None, gather):
        into = SimpleNamespace(append=rows.append, capture=lambda state, owned=False: rows.append(state))
        layer_capture(release, mover)(torch.zeros(3, 2), torch.ones(3, 2), Loose(), into)
    assert [len(state) for state in rows] == [3, 6]
    assert len(moved) == 1


def first_layer_keeps_the_normed_state(patched: Path) -> None:
    """speculators' first layer: r = norm(h), x = r + attention, and x + mlp(norm(x)) as (mlp(norm(x)), x)."""
    module, owner = "sglang.srt.models.llama_eagle3", "LlamaDecoderLayer"
    forward = upstream.cut(patched, module, owner, "forward", torch=torch)
    init = upstream.find_method(patched, module, owner, "__init__")
    chosen = [statement for statement in init.body if "norm_before_residual" in ast.unparse(statement)]
    state = torch.arange(6.0).view(2, 3) + 1
    for layer_id, flag in ((0, True), (0, False), (1, True)):
        layer = SimpleNamespace(
            is_input_layer=True,
            hidden_norm=lambda h: h * 10,
            input_layernorm=lambda e: e * 100,
            self_attn=lambda positions, hidden_states, forward_batch: hidden_states[:, 3:] * 0 + 1,
            post_attention_layernorm=lambda h, r: (h + r, h + r),
            mlp=lambda h: h * 2,
        )
        config = SimpleNamespace(norm_before_residual=flag)
        code = compile(ast.Module(chosen, []), module, "exec")
        exec(code, {"self": layer, "config": config, "layer_id": layer_id})
        residual = (state * 10 if flag and layer_id == 0 else state) + 1
        output = forward(layer, None, state.clone(), state.clone(), None, None)
        assert torch.equal(output[0], residual * 2)
        assert torch.equal(output[1], residual)


def stray_tensors_reach_the_check(patched: Path) -> None:
    """load_weights hands its tensors to the check before it places one."""
    load = upstream.cut(patched, "sglang.srt.models.llama_eagle3", "LlamaForCausalLMEagle3", "load_weights")
    seen: list[str] = []

    def checked(draft, weights):
        seen.extend(name for name, _ in weights)
        return iter(())

    packages = ("sglang", "sglang.srt", "sglang.srt.speculative", "sglang.srt.speculative.draft_weights")
    stubs = {name: SimpleNamespace(__path__=[], checked=checked) for name in packages}
    with mock.patch.dict(sys.modules, stubs):
        load(SimpleNamespace(named_parameters=lambda: []), [("odd", None)])
    assert seen == ["odd"]


def extend_buffers_are_as_wide_as_the_states(patched: Path) -> None:
    """Their width is the draft's count of states times the target's hidden size, whatever the target's config says."""
    module, owner = "sglang.srt.speculative.eagle_info", "EagleDraftExtendInput"
    width = upstream.cut(patched, module, owner, "hidden_size_for")
    target = SimpleNamespace(hf_config=SimpleNamespace(), hidden_size=8, spec_hidden_size=8)
    for ids, count in (([0, 3], 2), ([0, 3, 6], 3), ([0, 3, 6, 9], 4), (None, 3)):
        runner = SimpleNamespace(model_config=target, eagle_aux_hidden_state_layer_ids=ids)
        algorithm = SimpleNamespace(is_standalone=lambda: False, is_eagle3=lambda: True)
        worker = SimpleNamespace(
            target_worker=SimpleNamespace(model_runner=runner),
            speculative_algorithm=algorithm,
            eagle_use_aux_hidden_state=True,
        )
        assert width(None, worker) == count * 8
