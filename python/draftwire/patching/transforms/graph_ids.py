"""The draft's ids are in force when graphs are captured.

Why: the graph runner and the warm-up run call the setter without ids just before they capture, so a replayed graph
    hands on the default states and eager mode the draft's.
Upstream: https://github.com/sgl-project/sglang/pull/22836 (0.5.11).
Drop when: no server runs SGLang 0.5.10.post1 or earlier.
"""

from __future__ import annotations

import libcst.matchers as m

from draftwire.patching import signs
from draftwire.patching.insertion import Insertion
from draftwire.patching.refusals import PatchError
from draftwire.patching.source import Sources

METHODS = {
    "srt/model_executor/cuda_graph_runner.py": ("CudaGraphRunner", "__init__"),
    "srt/model_executor/model_runner.py": ("ModelRunner", "_dummy_run"),
}
LINES = {
    "srt/model_executor/cuda_graph_runner.py": """\
            self.model_runner.model.set_eagle3_layers_to_capture(
                model_runner.eagle_aux_hidden_state_layer_ids
            )""",
    "srt/model_executor/model_runner.py": """\
            self.model.set_eagle3_layers_to_capture(
                self.eagle_aux_hidden_state_layer_ids
            )""",
}
CALL = m.SimpleStatementLine([m.Expr(m.Call(m.Attribute(attr=m.Name(signs.SETTER)), args=[]))])


def places(files: Sources) -> list[Insertion]:
    counts = {file: files[file].text.count(f".{signs.SETTER}()") if file in files else 0 for file in METHODS}
    if not any(counts.values()):
        return []
    if set(counts.values()) != {1}:
        raise PatchError("one call of the setter without ids in each file", counts, "the graph runner", signs.LAST_LINE)
    found = []
    for file, lines in LINES.items():
        source = files[file]
        call = source.once(source.method(*METHODS[file]), CALL, f"{signs.SETTER}()")
        found.append(source.after(call, *lines.split("\n")))
    return found
