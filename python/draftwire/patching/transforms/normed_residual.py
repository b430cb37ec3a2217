"""A draft with `norm_before_residual` is served as it was trained.

Why: the flag is speculators' default and no release reads it: the first layer's residual is the state before
    hidden_norm where the draft was trained on the state after it, and acceptance falls without an error.
Upstream: none.
Drop when: LlamaForCausalLMEagle3 reads `norm_before_residual` from the draft's config.
"""

from __future__ import annotations

from draftwire.patching import signs
from draftwire.patching.insertion import Insertion
from draftwire.patching.source import Sources

OWNER = "LlamaDecoderLayer"
INIT = """\
        self.norm_before_residual = layer_id == 0 and getattr(
            config, "norm_before_residual", False
        )"""
NORM = "hidden_states = self.hidden_norm(hidden_states)"


def places(files: Sources) -> list[Insertion]:
    source = files[signs.LLAMA]
    if "norm_before_residual" in source.text:
        return []
    norm = source.statement(
        source.method(OWNER, "__init__"), "self.hidden_norm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)"
    )
    forward = source.statement(source.method(OWNER, "forward"), NORM)
    line = source.line(forward)
    indent = line[: len(line) - len(line.lstrip())]
    lines = (f"{indent}if self.norm_before_residual:", f"{indent}    residual = hidden_states")
    return [source.after(norm, *INIT.split("\n")), source.after(forward, *lines)]
