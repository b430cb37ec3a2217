"""The MLA draft: the norm before fc, and no tensor dropped or left at random.

Why: `norm_before_fc` in the config of an MLA draft is ignored and its input_norm.weight skipped with a warning, so the
    draft is fed states of another scale than it was trained on.
Upstream: none in kimi_k25_eagle3.py; llama_eagle3.py has it since 0.5.17.
Drop when: Eagle3MLAModel builds input_norm itself and its load_weights refuses what it does not place.
"""

from __future__ import annotations

from draftwire.refusal import refuse
from draftwire_overlay.srt.models.llama_eagle3 import features, load_checked, norm_before


class Eagle3MLAModel:
    def __init__(original, self, config, *args, **kwargs):
        """Upstream's model; before fc, one RMS norm over all captured values. Refuses what MLA drafts cannot do."""
        original(self, config, *args, **kwargs)
        wanted = features(config)
        others = {
            "norm_before_residual": wanted.norm_before_residual,
            "qk_norm": wanted.qk_norm,
            "sliding_window": any(wanted.windows),
            "own_embedding": wanted.own_embedding,
        }
        if asked := [name for name, is_wanted in others.items() if is_wanted]:
            refuse(f"expected an MLA draft without {asked[0]}, found it in its config; no SGLang release serves that")
        if wanted.norm_before_fc and not hasattr(self, "input_norm"):
            norm_before(self.fc, self, config)


class Eagle3DeepseekV2ForCausalLM:
    def load_weights(original, self, weights):
        """Upstream's; refuses (SystemExit) unknown and missing tensors by name."""
        return load_checked(original, self, weights, mla=True)
