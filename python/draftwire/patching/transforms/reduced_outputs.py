"""A layer whose output is captured reduces it over all ranks itself.

Why: with flashinfer all-reduce fusion (on by itself on H100 to B200 with tensor parallelism over 1) a layer leaves
    its output to the next one's norm to reduce; the loop captures in between, so each rank keeps its own partial sum.
Upstream: https://github.com/sgl-project/sglang 0.5.14 captures after the fused reduction.
Drop when: no server runs SGLang 0.5.13.post1 or earlier.
"""

from __future__ import annotations

from draftwire.patching import signs
from draftwire.patching.insertion import Insertion
from draftwire.patching.refusals import PatchError
from draftwire.patching.source import Sources

LINES = """\
        if getattr(self, "output_is_captured", False):
            # The model's loop captures this output, which fusion would leave unreduced.
            should_allreduce_fusion = False
"""


def places(files: Sources) -> list[Insertion]:
    if not signs.captures_in_loop(files):
        return []
    source = files[signs.DEEPSEEK]
    forward = source.method("DeepseekV2DecoderLayer", "forward")
    assigned = [source.code(line).split(" = ")[0] for line in forward.body.body]
    first, then = assigned.index("should_allreduce_fusion"), assigned.index("use_reduce_scatter")
    if assigned.count("should_allreduce_fusion") != 1 or then != first + 1:
        raise PatchError(
            "one decision on fusion ahead of reduce-scatter", "another order", signs.DEEPSEEK, signs.LAST_LINE
        )
    return [source.before(forward.body.body[then], *LINES.split("\n"), comments=True)]
