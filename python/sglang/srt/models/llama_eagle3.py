"""The draft as it was trained: its norms, its window, and no tensor dropped or left at random.

Why: a speculators draft (norm_before_residual is its trainer's default, q and k norms its Qwen3 form, a window of 2,048
    its newest default) is served as another network in silence, and a tensor with an unknown name is skipped.
Upstream: none for norm_before_residual, q and k norms and a window in the config; norm_before_fc since 0.5.17.
Drop when: LlamaForCausalLMEagle3 reads these from the config and its load_weights refuses what it does not place.
"""

from __future__ import annotations

import functools
import inspect
import sys

from draftwire.features import Features, read_features
from draftwire.loading import Ledger, checkpoint_names
from draftwire.refusal import refuse


class LlamaDecoderLayer:
    def __init__(original, self, config, layer_id=0, *args, **kwargs):
        """Upstream's layer; for a draft with Qwen3's attention, RMS norms [head_dim] of q and k before RoPE."""
        original(self, config, layer_id, *args, **kwargs)
        wanted = features(config)
        self.residual_is_normed = (
            layer_id == 0 and wanted.norm_before_residual and not upstream_reads(original, "norm_before_residual")
        )
        if wanted.qk_norm:
            _add_qk_norm(self.self_attn, config.rms_norm_eps)

    def forward(original, self, positions, embeds, hidden_states, forward_batch, residual):
        """Upstream's, or the first layer with the *normed* state as its residual.

        embeds, hidden_states: [tokens, hidden]. With norm_before_residual (speculators' Eagle3FirstLayerMixin):
        r = norm(h); x = r + attention([norm(e), r]); the state after the layer is x + mlp(norm(x)), of which
        mlp(norm(x)) and x are returned, as upstream does.
        """
        if not self.residual_is_normed:
            return original(self, positions, embeds, hidden_states, forward_batch, residual)
        import torch

        residual = self.hidden_norm(hidden_states)
        joined = torch.cat([self.input_layernorm(embeds), residual], dim=-1)
        attended = self.self_attn(positions=positions, hidden_states=joined, forward_batch=forward_batch)
        normed, residual = self.post_attention_layernorm(attended, residual)
        return self.mlp(normed), residual


class LlamaModel:
    def __init__(original, self, config, *args, **kwargs):
        """Upstream's model; before fc, one RMS norm over all captured values where upstream has none (to 0.5.16)."""
        original(self, config, *args, **kwargs)
        if features(config).norm_before_fc and not hasattr(self, "input_norm"):
            norm_before(self.fc, self, config)

    def forward(original, self, input_ids, positions, forward_batch, *args, **kwargs):
        """Upstream's; a window grows by one key with each decode step, as the trainer's mask does.

        speculators (create_combined_mask_mod): at test-time step k a token attends to the W keys of step 1 up to its
        own and to its own k - 1 later ones. Attention backends that read the layer's window honour this, the others
        (Triton's decode) attend to the k - 1 oldest keys less.
        """
        windows = getattr(self, "draft_windows", None)
        if windows:
            _set_windows(self, windows, _draft_step(forward_batch))
        return original(self, input_ids, positions, forward_batch, *args, **kwargs)


class LlamaForCausalLMEagle3:
    def __init__(original, self, config, *args, **kwargs):
        """Upstream's draft, with the window of its config and an embedding of its own where it was trained."""
        original(self, config, *args, **kwargs)
        wanted = features(config)
        if any(wanted.windows):
            _add_windows(self, wanted.windows)
        if wanted.own_embedding:
            self.set_embed = lambda embed: None

    def load_weights(original, self, weights):
        """Upstream's; refuses (SystemExit) unknown and missing tensors by name."""
        return load_checked(original, self, weights)


def features(config) -> Features:
    """What the draft's config asks for beyond stock SGLang. Refuses what this overlay does not know."""
    try:
        return read_features(config)
    except ValueError as error:
        refuse(f"{error} in the config of {getattr(config, '_name_or_path', '') or 'the draft'}; update draftwire")


@functools.cache
def upstream_reads(function, key: str) -> bool:
    """Whether the module of an upstream function speaks of `key`: then support has arrived there and wins."""
    return key in inspect.getsource(sys.modules[function.__module__])


def norm_before(fc, model, config) -> None:
    """Give `model` an `input_norm` over the input of `fc` [tokens, K x hidden] and run it before `fc`."""
    from sglang.srt.layers.layernorm import RMSNorm

    width = getattr(fc, "in_features", None) or fc.input_size
    model.input_norm = RMSNorm(width, eps=config.rms_norm_eps)
    fc.register_forward_pre_hook(lambda module, inputs: (model.input_norm(inputs[0]), *inputs[1:]))


def load_checked(original, model, weights, *, mla: bool = False):
    """Run an upstream load_weights, the MLA draft's or the Llama draft's, over tensors whose names are checked against
    the model's parameters."""
    wanted, config = features(model.config), model.config
    names = checkpoint_names(name for name, _ in model.named_parameters())
    # Later layers keep upstream's first norm, which nothing runs.
    unused = {n for n in names if n.endswith(".input_layernorm.weight") and n != "layers.0.input_layernorm.weight"}
    needed = names - unused
    shared = getattr(config, "target_hidden_size", None) in (None, config.hidden_size)
    if shared and not wanted.own_embedding:
        needed -= {"embed_tokens.weight"}
    if getattr(model, "load_lm_head_from_target", False):
        needed -= {"lm_head.weight"}
    if not config.tie_word_embeddings and config.draft_vocab_size < config.vocab_size:
        needed |= {"d2t"}
    if getattr(model, "draftwire_loaded", False):
        needed = set()  # an update of weights may bring any part of them
    source = getattr(config, "_name_or_path", "") or "the draft"
    ledger = Ledger(needed, names - unused, source, by_module=model.quant_config is not None, mla=mla)
    result = original(model, ledger.watch(weights, unmark=bool(wanted.requires)))
    ledger.require_complete()
    model.draftwire_loaded = True
    return result


def _add_windows(draft, windows: tuple[int | None, ...]) -> None:
    widest = max(window for window in windows if window) - 1
    flag = getattr(draft, "_draft_window_size", None)
    if flag not in (None, widest):
        refuse(
            f"expected --speculative-draft-window-size {widest} or none, found {flag}; the draft was trained to attend "
            f"to {widest + 1} tokens, its own included"
        )
    draft._draft_window_size = widest
    draft.model.draft_windows = windows
    _set_windows(draft.model, windows, 0)


def _set_windows(model, windows: tuple[int | None, ...], more: int) -> None:
    """A window of W keys, the token's own included, is W - 1 keys before it in SGLang."""
    for layer, window in zip(model.layers, windows, strict=True):
        layer.self_attn.attn.sliding_window_size = window - 1 + more if window else -1


def _draft_step(forward_batch) -> int:
    """How many draft tokens precede the one that is decoded now; 0 outside of the draft's decode steps."""
    if not forward_batch.forward_mode.is_decode():
        return 0
    from sglang.srt.model_executor.forward_context import get_attn_backend

    return getattr(get_attn_backend(), "draft_step", 0)


def _add_qk_norm(attention, eps: float) -> None:
    from sglang.srt.layers.layernorm import RMSNorm

    attention.q_norm = RMSNorm(attention.head_dim, eps=eps)
    attention.k_norm = RMSNorm(attention.head_dim, eps=eps)
    attention.rotary_emb = _normed_rotary()(attention)


@functools.cache
def _normed_rotary():
    from torch import nn

    class NormedRotary(nn.Module):
        """RoPE of normed queries and keys: each head [head_dim] of q and k [tokens, heads x head_dim] is normed."""

        def __init__(self, attention):
            super().__init__()
            self.rotary = attention.rotary_emb
            self.norms = (attention.q_norm, attention.k_norm)  # a tuple: they are the attention's parameters
            self.head_dim = attention.head_dim

        def forward(self, positions, q, k, *args, **kwargs):
            normed = [
                norm(x.reshape(-1, self.head_dim)).view(x.shape) for norm, x in zip(self.norms, (q, k), strict=True)
            ]
            return self.rotary(positions, *normed, *args, **kwargs)

    return NormedRotary
