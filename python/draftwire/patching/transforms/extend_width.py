"""The draft's extend buffers are as wide as the states that are captured.

Why: their width is counted from the target's config, which does not hold the number of states, so three are assumed.
Upstream: 0.5.15 counts from the draft's config.
Drop when: no server runs SGLang 0.5.12 to 0.5.14.
"""

from __future__ import annotations

import libcst.matchers as m

from draftwire.patching.insertion import Insertion
from draftwire.patching.source import Sources

FILE, OWNER, NAME = "srt/speculative/eagle_info.py", "EagleDraftExtendInput", "hidden_size_for"
LINES = """\
        layer_ids = worker.target_worker.model_runner.eagle_aux_hidden_state_layer_ids
        num_aux = len(layer_ids) if layer_ids else num_aux"""


def places(files: Sources) -> list[Insertion]:
    source = files[FILE]
    if not source.has_method(OWNER, NAME):
        return []
    function = source.method(OWNER, NAME)
    if not source.all(function, m.Attribute(m.Name("target_cfg"), m.Name("hf_config"))):
        return []
    read = 'num_aux = getattr(hf_config, "num_aux_hidden_states", None)'
    return [source.after(source.statement(function, read), *LINES.split("\n"))]
