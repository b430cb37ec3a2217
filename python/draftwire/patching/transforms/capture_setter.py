"""The target captures the boundaries that the draft's config was resolved to.

Overlay: models/deepseek_v2.py
"""

from __future__ import annotations

from draftwire.patching import signs
from draftwire.patching.insertion import Insertion
from draftwire.patching.source import Sources

IMPORT = "from sglang.srt.speculative.draft_wiring import CaptureList"
BRANCH = """\
        elif isinstance(layer_ids, CaptureList):
            self.capture_aux_hidden_states = True
            self.model.layers_to_capture = list(layer_ids)"""
BRANCH_FOR_LOOP = """\
        elif isinstance(layer_ids, CaptureList):
            self.capture_aux_hidden_states = True
            # Boundary 0 is the embedding output, captured ahead of layer 0: -1.
            self.model.layers_to_capture = [b or -1 for b in layer_ids]
            for layer_id, layer in enumerate(self.model.layers):
                layer.output_is_captured = layer_id + 1 in layer_ids"""


def places(files: Sources) -> list[Insertion]:
    source = files[signs.DEEPSEEK]
    branch = BRANCH_FOR_LOOP if signs.captures_in_loop(files) else BRANCH
    other = signs.setter_test(source).orelse
    assert other is not None
    return [source.after_last_import("sglang.srt.speculative", IMPORT), source.before(other, *branch.split("\n"))]
