"""Run by speculators' own interpreter: make drafts with its classes, and say what its forward computes.

python speculators_drafts.py make TARGET OUT < cases.json     writes OUT/<case>/ for each case
python speculators_drafts.py logits < requests.json           prints nothing, writes what each request names
"""

import inspect
import json
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from speculators import SpeculatorsConfig, VerifierConfig
from speculators.models.eagle3 import Eagle3DraftModel, Eagle3SpeculatorConfig
from speculators.proposals.greedy import GreedyTokenProposalConfig
from transformers import AutoConfig, LlamaConfig
from transformers.models.qwen3.configuration_qwen3 import Qwen3Config

FLAGS = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output")
ARCHITECTURES = {"llama": LlamaConfig, "qwen3": Qwen3Config}


def name_verifier(target: Path) -> VerifierConfig:
    """Before 0.7 it is made from a loaded config."""
    if hasattr(VerifierConfig, "from_pretrained"):
        return VerifierConfig.from_pretrained(str(target))
    return VerifierConfig.from_config(AutoConfig.from_pretrained(target), name_or_path=str(target))


def make(target: Path, out: Path, case: dict) -> None:
    """A draft with random weights that are large enough to tell one wiring from another."""
    torch.manual_seed(sum(map(ord, case["name"])))
    facts = json.loads((target / "config.json").read_text())
    windows = case.get("windows") or [None] * case.get("layers", 1)
    layer = ARCHITECTURES[case["arch"]](
        vocab_size=facts["vocab_size"], hidden_size=case.get("hidden", facts["hidden_size"]), intermediate_size=512,
        head_dim=24, num_hidden_layers=len(windows), num_attention_heads=8, num_key_value_heads=4, hidden_act="silu",
        max_position_embeddings=4096, rms_norm_eps=1e-6, tie_word_embeddings=False,
        sliding_window=next(filter(None, windows), None), use_sliding_window=any(windows),
        layer_types=["sliding_attention" if w else "full_attention" for w in windows],
    )  # fmt: skip
    rope = {"rope_type": "default", "rope_theta": 10000.0, **case.get("rope", {})}
    if int(transformers.__version__.split(".")[0]) >= 5:
        layer.rope_parameters = rope
    else:
        layer.rope_theta = rope.pop("rope_theta")
        layer.rope_scaling = rope if "rope" in case else None
    method = GreedyTokenProposalConfig(speculative_tokens=3)
    flags = {name: case[name] for name in FLAGS if name in case}
    config = Eagle3SpeculatorConfig(
        transformer_layer_config=layer, draft_vocab_size=case["draft_vocab"], **flags,
        eagle_aux_hidden_state_layer_ids=case["boundaries"],
        speculators_config=SpeculatorsConfig(
            algorithm="eagle3", proposal_methods=[method], default_proposal_method="greedy",
            verifier=name_verifier(target),
        ),
    )  # fmt: skip
    model = Eagle3DraftModel(config)
    for name, weight in model.named_parameters():
        scale = 0.3 if weight.ndim == 1 else 1.0 / weight.shape[-1] ** 0.5
        weight.data = torch.randn_like(weight) * scale + (weight.ndim == 1)
        if name.startswith("verifier_"):
            weight.data.zero_()
    embedding = load_file(target / "model.safetensors")["model.embed_tokens.weight"]
    if "hidden" not in case:
        model.embed_tokens.weight.data = embedding.float()
    if case.get("own_embedding"):
        config.embed_requires_grad = True
        model.embed_tokens.weight.data += torch.randn_like(embedding.float())
    if case["draft_vocab"] != facts["vocab_size"]:
        hot = torch.randperm(facts["vocab_size"])[: case["draft_vocab"]].sort().values
        t2d = torch.zeros(facts["vocab_size"], dtype=torch.bool)
        t2d[hot] = True
        model.load_vocab_mappings(t2d, hot - torch.arange(len(hot)))
    model.save_pretrained(out / case["name"])


def logits(draft: Path, states: Path, out: Path) -> None:
    """Logits [steps, draft vocabulary] in float32 at position `length - 1` of the states, for test-time steps 1 to 3.

    states: `hidden` [T, K x hidden] and `tokens` [T + 2], the token that step k reads at position T - 1 is
    tokens[T - 2 + k]. speculators' own forward reads it there if the sequence is at least T + 2 long; the states after
    T - 1 cannot be seen from there and are zero. Until 0.6 the forward takes lengths where it takes document ids now.
    """
    data = load_file(states)
    length = data["hidden"].shape[0]
    config = json.loads((draft / "config.json").read_text())
    target = Path(config["speculators_config"]["verifier"]["name_or_path"])
    wide = json.loads((target / "config.json").read_text())["hidden_size"]
    if config["transformer_layer_config"].get("hidden_size") != wide:
        # The target's head and norm make the training targets, which nobody asks for here, and would not fit.
        Eagle3DraftModel.load_verifier_weights = lambda self: None
    model = Eagle3DraftModel.from_pretrained(draft, torch_dtype=torch.float32).eval()
    seen: list[torch.Tensor] = []
    model.lm_head.register_forward_hook(lambda module, inputs, output: seen.append(output[0, length - 1].clone()))
    padded = -(-(length + 2) // 128) * 128  # its attention wants whole blocks of 128
    hidden, tokens = torch.zeros(1, padded, data["hidden"].shape[1]), torch.zeros(1, padded, dtype=torch.long)
    hidden[0, :length], tokens[0, : length + 2] = data["hidden"], data["tokens"]
    with torch.no_grad():
        documents = {"document_ids": torch.zeros(1, padded, dtype=torch.long)}
        if "document_ids" not in inspect.signature(Eagle3DraftModel.forward).parameters:
            documents = {"lengths": torch.tensor([padded])}
        model(hidden, tokens, ttt_steps=3, **documents)
    save_file({"logits": torch.stack(seen)}, out)


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "make":
        for case in json.load(sys.stdin):
            make(Path(sys.argv[2]), Path(sys.argv[3]), case)
    else:
        for request in json.load(sys.stdin):
            logits(*map(Path, request))
