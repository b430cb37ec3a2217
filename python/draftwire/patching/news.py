"""What changed between two SGLang trees in what the patch touches: `python -m draftwire.patching.news OLD NEW`.

Prints a line for each file that a change reads or touches, and a diff of each function of it that a change reads.
"""

from __future__ import annotations

import ast
import difflib
import sys
from collections.abc import Iterator
from pathlib import Path

from draftwire.patching import signs
from draftwire.patching.tree import Tree

# Every function that a change asks or touches, by file.
READ = {
    signs.DEEPSEEK: (
        f"{signs.TARGET}.{signs.SETTER}",
        "DeepseekV2Model.forward",
        "DeepseekV2DecoderLayer.forward",
    ),
    signs.LLAMA: (
        "LlamaDecoderLayer.__init__",
        "LlamaDecoderLayer.forward",
        "LlamaModel.__init__",
        "LlamaForCausalLMEagle3.load_weights",
    ),
    "srt/models/kimi_k25.py": (f"KimiK25ForConditionalGeneration.{signs.SETTER}",),
    "srt/models/kimi_k25_eagle3.py": ("Eagle3MLAModel.__init__", "Eagle3DeepseekV2ForCausalLM.load_weights"),
    "srt/configs/model_config.py": ("ModelConfig.from_server_args",),
    "srt/server_args.py": ("ServerArgs.check_server_args",),
    "srt/speculative/eagle_info.py": ("EagleDraftExtendInput.hidden_size_for",),
    "srt/layers/aux_hidden_states.py": ("AuxHiddenStatePacker.capture", "AuxHiddenStatePacker.finalize"),
    "srt/layers/layer_boundary/stage.py": ("StageBoundary._prepare_attention",),
}


def news(old: Tree, new: Tree) -> Iterator[str]:
    """Lines: each file with what became of it, and diffs of the functions in READ that differ."""
    for file, functions in READ.items():
        before, after = old.read(file), new.read(file)
        if before == after:
            yield f"{file}: {'not there' if before is None else 'the same'}"
        elif before is None or after is None:
            yield f"{file}: {'new' if before is None else 'gone'}"
        else:
            both = before.decode(), after.decode()
            changed = [name for name in functions if _source(both[0], name) != _source(both[1], name)]
            yield f"{file}: changed, {', '.join(changed) or 'but none of what the patch reads'}"
            for name in changed:
                first, second = (_source(text, name).splitlines() for text in both)
                yield from difflib.unified_diff(first, second, f"old {name}", f"new {name}", lineterm="", n=1)


def _source(text: str, dotted: str) -> str:
    owner, name = dotted.split(".")
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef) and node.name == owner:
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and inner.name == name:
                    return ast.get_source_segment(text, inner) or ""
    return ""


if __name__ == "__main__":
    print(*news(Tree(Path(sys.argv[1])), Tree(Path(sys.argv[2]))), sep="\n")
