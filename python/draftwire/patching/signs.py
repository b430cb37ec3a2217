"""What a release does by itself, asked of its code and not of its version."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from draftwire.patching.refusals import PatchError
from draftwire.patching.source import Source, Sources

DEEPSEEK = "srt/models/deepseek_v2.py"
LLAMA = "srt/models/llama_eagle3.py"
TARGET = "DeepseekV2ForCausalLM"
SETTER = "set_eagle3_layers_to_capture"
LAST_LINE = "port the patch to this release"


def setter_test(source: Source) -> cst.If:
    """The setter's `if layer_ids is None`, which has an `else`."""
    found = source.once(
        source.method(TARGET, SETTER),
        m.If(test=m.Comparison(m.Name("layer_ids"), [m.ComparisonTarget(m.Is(), m.Name("None"))]), orelse=m.Else()),
        f"`if layer_ids is None ... else` in {SETTER}",
    )
    assert isinstance(found, cst.If)
    return found


def release_rule(files: Sources) -> str:
    """By which of `aux_boundaries.RULES` the setter reads nested ids."""
    source = files[DEEPSEEK]
    other = setter_test(source).orelse
    assert other is not None
    code = [source.code(line) for line in other.body.body]
    values = [line for line in code if "layers_to_capture" in line]
    if len(values) == 1 and values[0].endswith("self.model.layers_to_capture = [val + 1 for val in layer_ids]"):
        return "output"
    if len(values) == 1 and "layer_ids[0] == 1" in values[0] and "list(layer_ids)" in values[0]:
        return "index_unless_1"
    raise PatchError("a known reading of layer ids", values or "none", f"{SETTER} of {DEEPSEEK}", LAST_LINE)


def captures_in_loop(files: Sources) -> bool:
    """Whether the model's loop adds up the captured state (to 0.5.13) or its layers capture their input."""
    source = files[DEEPSEEK]
    forward = source.method("DeepseekV2Model", "forward")
    sums = source.all(forward, m.BinaryOperation(m.Name("hidden_states"), m.Add(), m.Name("residual")))
    collectors = source.all(forward, m.Arg(keyword=m.Name("captured_last_layer_outputs")))
    if bool(sums) == bool(collectors):
        raise PatchError(
            "a loop that captures, or layers that do", "neither or both", f"forward of {DEEPSEEK}", LAST_LINE
        )
    return bool(sums)


def has_three_states(files: Sources) -> bool:
    """Whether the draft's fc is built for exactly three states (to 0.5.11)."""
    source = files[LLAMA]
    built = source.method("LlamaModel", "__init__")
    fixed = source.all(
        built, m.BinaryOperation(m.Attribute(attr=m.Name("hidden_size_in")), m.Multiply(), m.Integer("3"))
    )
    counted = source.all(built, m.Attribute(attr=m.Name("num_aux_hidden_states")))
    if bool(fixed) == bool(counted):
        raise PatchError("an fc for 3 states or for a counted number", "neither or both", LLAMA, LAST_LINE)
    return bool(fixed)
