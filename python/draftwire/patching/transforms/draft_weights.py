"""A draft's tensor is placed or refused.

Why: load_weights skips a tensor with an unknown name, and leaves a parameter at random that did not come: the server
    runs and is only slow.
Upstream: none.
Drop when: LlamaForCausalLMEagle3.load_weights refuses what it does not place.
"""

from __future__ import annotations

from draftwire.patching import signs
from draftwire.patching.insertion import Insertion
from draftwire.patching.source import Sources

LINES = """\
        from sglang.srt.speculative.draft_weights import checked

        weights = checked(self, weights)
"""


def places(files: Sources) -> list[Insertion]:
    source = files[signs.LLAMA]
    function = source.method("LlamaForCausalLMEagle3", "load_weights")
    return [source.before(function.body.body[0], *LINES.split("\n"), comments=True)]
