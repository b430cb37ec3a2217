"""Kimi-K2.5's wrapper offers what the EAGLE workers call.

Why: the wrapper of 0.5.9 has neither the id setter nor the embedding and head that a draft shares, nor `.model`.
Upstream: https://github.com/sgl-project/sglang/pull/19689 (0.5.10).
Drop when: no server runs SGLang 0.5.9.
"""

from __future__ import annotations

from draftwire.patching import signs
from draftwire.patching.insertion import Insertion
from draftwire.patching.refusals import PatchError
from draftwire.patching.source import Sources

FILE, OWNER = "srt/models/kimi_k25.py", "KimiK25ForConditionalGeneration"
NAMES = (signs.SETTER, "get_embed_and_head", "set_embed_and_head")
LINES = """\
    @property
    def model(self):
        return self.language_model.model

    def set_eagle3_layers_to_capture(self, layer_ids: Optional[List[int]] = None):
        self.language_model.set_eagle3_layers_to_capture(layer_ids)

    def get_embed_and_head(self):
        return self.language_model.get_embed_and_head()

    def set_embed_and_head(self, embed: torch.Tensor, head: torch.Tensor):
        self.language_model.set_embed_and_head(embed, head)
"""


def places(files: Sources) -> list[Insertion]:
    if FILE not in files:
        return []
    source = files[FILE]
    there = [name for name in NAMES if source.has_method(OWNER, name)]
    if len(there) == len(NAMES):
        return []
    if there:
        raise PatchError(f"all or none of {', '.join(NAMES)}", there, FILE, signs.LAST_LINE)
    return [source.before(source.method(OWNER, "get_image_feature"), *LINES.split("\n"))]
