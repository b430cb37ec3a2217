"""The memory sum against files on disk, transformers, published checkpoints and SGLang's own estimates."""

from __future__ import annotations

import ast
import json
from types import SimpleNamespace

import pytest
import upstream

from draftwire.deployment import memory
from draftwire.deployment.catalogue import (
    ALL_FP8,
    DEEPSEEK,
    KIMI,
    LAYOUTS,
    MODELS,
    combinations,
    largest_llama,
    largest_mla,
    vision_parameters,
)
from draftwire.deployment.geometry import (
    checkpoint_bytes,
    draft_weights,
    parameters,
    read_draft,
    read_target,
    target_weights,
)
from draftwire.headers import read_tensors

EACH = pytest.mark.parametrize("combination", list(combinations()), ids=lambda c: c.file)


def test_the_small_pair_to_the_byte(pair):
    target = read_target(json.loads((pair.target / "config.json").read_text()))
    draft = read_draft(json.loads((pair.draft / "config.json").read_text()))
    for directory, weights in ((pair.target, target_weights(target, {})), (pair.draft, draft_weights(draft))):
        assert checkpoint_bytes(weights) == sum(tensor.size for tensor in read_tensors(directory).values())


@pytest.mark.parametrize("target", [DEEPSEEK, KIMI], ids=["deepseek-v3", "kimi-k2"])
def test_parameters_are_those_that_transformers_builds(target):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    sizes = {"vocab_size": target.vocab, "num_attention_heads": target.heads, "n_routed_experts": target.experts}
    sizes |= {"num_key_value_heads": target.heads, "first_k_dense_replace": target.dense_layers}
    config = transformers.DeepseekV3Config(**sizes if target is KIMI else {})
    with torch.device("meta"):
        model = transformers.DeepseekV3ForCausalLM(config)
    biases = sum(tensor.numel() for name, tensor in model.named_buffers() if name.endswith("correction_bias"))
    built = sum(tensor.numel() for tensor in model.parameters()) + biases
    assert parameters(w for w in target_weights(target, {}) if not w.part.startswith("mtp")) == built


@pytest.mark.parametrize(
    ("slug", "count", "size"),
    [("deepseek-v3", 685e9, 689e9), ("kimi-k2", 1.03e12, 1.03e12), ("kimi-k2.5", 1.03e12, 595e9)],
)
def test_checkpoints_have_their_published_size(slug, count, size):
    """Hub pages: DeepSeek-V3 685B (671B and 14B of MTP) in 689 GB; Kimi-K2 1.03 TB; Kimi-K2.5 595 GB."""
    model = next(model for model in MODELS if model.slug == slug)
    weights = list(target_weights(model.target, model.storage))
    assert parameters(weights) == pytest.approx(count, rel=0.005)
    assert checkpoint_bytes(weights) == pytest.approx(size, rel=0.001)


def test_deepseek_is_671_billion_and_14_of_mtp():
    weights = list(target_weights(DEEPSEEK, ALL_FP8))
    extra = parameters(w for w in weights if w.part.startswith("mtp"))
    assert round((parameters(weights) - extra) / 1e9) == 671
    assert extra == pytest.approx(14e9, rel=0.05)


def test_the_vision_tower_is_the_one_that_sglang_configures():
    """MoonViT is published as 400M; the sizes are read from SGLang's config class, the sum is ours."""
    module = upstream.parse(upstream.installed(), "sglang.srt.configs.kimi_k25")
    init = next(
        node
        for owner in module.body
        if isinstance(owner, ast.ClassDef) and owner.name == "KimiK25VisionConfig"
        for node in owner.body
        if isinstance(node, ast.FunctionDef)
    )
    names = [argument.arg for argument in init.args.args][-len(init.args.defaults) :]
    said = {n: ast.literal_eval(d) for n, d in zip(names, init.args.defaults, strict=True)}
    sizes = ("num_hidden_layers", "hidden_size", "intermediate_size", "patch_size", "init_pos_emb_height")
    assert vision_parameters(*(said[name] for name in sizes), said["text_hidden_size"]) == vision_parameters()
    projector = (4 * 1152) ** 2 + 4 * 1152 * 7168
    assert vision_parameters() - projector == pytest.approx(400e6, rel=0.05)


@EACH
def test_the_lines_add_up_to_the_gpu(combination):
    s = combination.sum
    assert memory.TAKEN + s.weights + s.reserve + s.images + s.kv + s.spare == s.total
    page = memory.PAGES * (s.target_token + s.draft_token)
    assert -1 <= s.spare <= page + 0.02 * s.total


@EACH
def test_sglang_finds_room_for_the_tokens_that_the_file_names(combination):
    """SGLang's own sum: the static share less the weights, in tokens of one target layer more for the draft."""
    s = combination.sum
    cell = s.target_token * (1 + 1 / combination.model.target.layers)
    assert s.tokens <= max(0, (s.fraction * (s.total - memory.TAKEN) - s.weights) / cell)


def test_only_what_leaves_room_fits():
    assert all(c.sum.tokens >= c.layout.least and c.choice.path for c in combinations() if c.fits)
    short = {(c.model.slug, c.device.slug, c.purpose) for c in combinations() if c.sum.tokens < c.layout.least}
    assert ("kimi-k2", "rtx-pro-6000", "latency") in short
    assert ("kimi-k2", "h200", "throughput") in short
    assert ("kimi-k2.5", "h200", "throughput") not in short


@pytest.mark.parametrize("target", [DEEPSEEK, KIMI], ids=["deepseek-v3", "kimi-k2"])
def test_eight_ranks_hold_the_checkpoint_and_seven_more_copies_of_what_is_whole(target):
    weights = [w for w in target_weights(target, ALL_FP8) if not w.part.startswith("mtp")]
    for layout in LAYOUTS.values():
        whole = {"none"} if layout.dp == 1 else {"none", "attention"}
        copies = sum(w.size for w in weights if w.split in whole)
        eight = 8 * memory.rank_bytes(weights, layout)
        assert 0 <= eight - checkpoint_bytes(weights) - 7 * copies < 8 * len(weights)


def test_what_is_split_is_what_sglang_splits():
    """Linear classes in the installed release's own models."""

    def classes(module: str, owner: str) -> dict[str, str]:
        init = upstream.find_method(upstream.installed(), f"sglang.srt.models.{module}", owner, "__init__")
        calls = [n for n in ast.walk(init) if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call)]
        return {ast.unparse(call.targets[0]): ast.unparse(call.value.func) for call in calls}

    attention = classes("deepseek_v2", "DeepseekV2AttentionMLA")
    found = [attention[f"self.{name}"] for name in ("fused_qkv_a_proj_with_mqa", "q_b_proj", "kv_b_proj", "o_proj")]
    assert found == ["ReplicatedLinear", "ColumnParallelLinear", "ColumnParallelLinear", "RowParallelLinear"]
    ours = [w.split for w in target_weights(DEEPSEEK, {}) if w.part == "attention"]
    assert ours == ["none", "none", "attention", "attention", "attention"]
    assert next(draft_weights(largest_llama(KIMI))).split == "none"
    assert classes("llama_eagle3", "LlamaModel")["self.fc"] == "torch.nn.Linear"
    assert classes("kimi_k25_eagle3", "Eagle3MLADecoderLayer")["attn.fused_qkv_a_proj_with_mqa"] == "ReplicatedLinear"


def test_a_draft_is_whole_on_every_rank_under_dp_attention():
    latency, throughput = LAYOUTS.values()
    for draft in (largest_llama(KIMI), largest_mla(KIMI)):
        whole = checkpoint_bytes(draft_weights(draft))
        assert memory.draft_bytes(draft, throughput) == whole
        assert whole / 8 < memory.draft_bytes(draft, latency) < whole / 4
        assert memory.draft_bytes(draft._replace(embedding=draft.vocab), throughput) == whole


def test_cache_bytes_of_a_token():
    """DeepSeek-V3's published 70 KB a token: 61 layers of 512 + 64 numbers. A Llama draft's heads are split or not."""
    assert memory.target_token_bytes(DEEPSEEK) == 70272
    draft = largest_llama(KIMI)
    assert [memory.draft_token_bytes(draft, layout) for layout in LAYOUTS.values()] == [4096, 32768]


@pytest.mark.parametrize("purpose", LAYOUTS)
@pytest.mark.parametrize("mib", [97887, 143771, 183359, 40000])
def test_the_reserve_is_sglangs_own(monkeypatch, purpose, mib):
    """`handle_gpu_memory_settings` as it stands, over fakes, gives the share that the reserve implies."""
    hook = pytest.importorskip("sglang.srt.arg_groups.memory_hook")
    layout = LAYOUTS[purpose]
    phase = lambda **fields: SimpleNamespace(max_bs=None, bs=None, backend="full", **fields)  # noqa: E731
    cfg = SimpleNamespace(
        device="cuda", tp_size=layout.tp, pp_size=1, attn_dp_size=layout.dp, mem_fraction_static=None,
        chunked_prefill_size=layout.chunk // layout.dp, max_running_requests=layout.running, max_total_tokens=None,
        cuda_graph_config=SimpleNamespace(decode=phase(), prefill=phase()), disaggregation_mode="null",
        language_only=False, language_model_only=False, speculative_num_draft_tokens=4, enable_symm_mem=False,
        moe_a2a_backend="none", model_path="x", _cuda_graph_config_locked=set(),
    )  # fmt: skip
    cfg.cuda_graph_config.decode.bs = list(layout.graphs)
    said = {}
    fakes = {"resolving_view": lambda cfg: cfg, "resolved_view": lambda cfg: cfg, "use_mla_backend": lambda cfg: True,
             "get_device_memory_capacity": lambda device: mib, "post_capture_kv_sizing_planned": lambda cfg: False,
             "attn_dp_enabled_of": lambda cfg: cfg.attn_dp_size > 1, "model_config_of": lambda cfg: SimpleNamespace(
                 is_multimodal=False), "get_platform": lambda: SimpleNamespace(is_xpu=False)}  # fmt: skip
    for name, fake in fakes.items():
        monkeypatch.setattr(hook, name, fake)
    monkeypatch.setattr(hook, "declare_resolution", lambda cfg, why, **values: said.update(values))
    qwen = pytest.importorskip("sglang.srt.arg_groups.model_overrides.qwen3_vl")
    monkeypatch.setattr(qwen, "expand_multimodal_decode_graph_to_running_limit", lambda *_: None)
    cfg.cuda_graph_config.decode.max_bs = max(layout.graphs)
    hook.handle_gpu_memory_settings(cfg)
    total = mib * memory.MIB
    assert said["mem_fraction_static"] == round(1 - memory.reserve_bytes(layout, total) / total, 3)


def test_the_image_factor_is_sglangs_own():
    hook = pytest.importorskip("sglang.srt.arg_groups.memory_hook")
    vision = SimpleNamespace(num_hidden_layers=27, hidden_size=1152)
    config = SimpleNamespace(hf_config=SimpleNamespace(vision_config=vision))
    assert hook.adjust_mem_fraction_for_vlm(1.0, config, False, None) == pytest.approx(memory.image_factor(27, 1152))
