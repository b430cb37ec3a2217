"""What a patch adds to upstream's files: one module a change, each with `places(files) -> list[Insertion]`.

A change asks the release's code whether it is needed, and finds its place by structure. Its docstring has the parts
Why / Upstream / Drop when, or names the overlay file that has them.
"""

from draftwire.patching.transforms import (
    capture_setter,
    draft_ids,
    draft_weights,
    embedding,
    extend_width,
    graph_ids,
    kimi_wrapper,
    launch_check,
    normed_residual,
    reduced_outputs,
)

TRANSFORMS = (
    capture_setter,
    draft_ids,
    launch_check,
    embedding,
    reduced_outputs,
    graph_ids,
    kimi_wrapper,
    extend_width,
    normed_residual,
    draft_weights,
)
