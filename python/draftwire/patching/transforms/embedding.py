"""The embedding output is captured ahead of layer 0, as a copy.

Why: the loop captures `hidden_states + residual`, and layer 0 has no residual: a TypeError. Layer 0 keeps the
    embedding as its residual and later norms add into that storage in place, so an alias would become
    embedding plus attention.
Upstream: https://github.com/sgl-project/sglang 0.5.14 captures inside the layer.
Drop when: no server runs SGLang 0.5.13.post1 or earlier.
"""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from draftwire.patching import signs
from draftwire.patching.insertion import Insertion
from draftwire.patching.source import Sources

LINES = """\
            if i == 0 and -1 in self.layers_to_capture:
                # A copy: layer 0 keeps this tensor as its residual and norms add into it.
                aux_hidden_states.append(hidden_states.clone())"""


def places(files: Sources) -> list[Insertion]:
    if not signs.captures_in_loop(files):
        return []
    source = files[signs.DEEPSEEK]
    forward = source.method("DeepseekV2Model", "forward")
    name = m.Name("normal_start_layer")
    loop = cst.ensure_type(
        source.once(forward, m.For(iter=m.Call(m.Name("range"), [m.Arg(name), m.Arg()])), "the layers' loop"), cst.For
    )
    source.statement(forward, "aux_hidden_states = []")
    return [source.before(loop.body.body[0], *LINES.split("\n"), comments=True)]
