"""The draft's layer ids are resolved to boundaries where its config is loaded.

Why: capture, buffer width and the draft's `fc` read the ids at four places from two keys, in part inside a bare
    `except`; a list that one of them misses makes the server slow, not fail.
Upstream: none; speculative decoding reads the config in each place anew.
Drop when: SGLang resolves a draft's layer ids in one place and refuses what it cannot read.
"""

from __future__ import annotations

from draftwire.patching import signs
from draftwire.patching.insertion import Insertion
from draftwire.patching.refusals import PatchError
from draftwire.patching.source import Sources

FILE = "srt/configs/model_config.py"
THREE = "states=3"
IMPORT = "from sglang.srt.speculative.draft_wiring import resolves_draft_ids"


def places(files: Sources) -> list[Insertion]:
    source = files[FILE]
    arguments = [f'"{signs.release_rule(files)}"']
    if signs.has_three_states(files):
        arguments.append(THREE)
    if signs.captures_in_loop(files):
        arguments.append("embedding_ahead_of_loop=True")
    call = f"    @resolves_draft_ids({', '.join(arguments)})"
    if len(call) > 88:
        call = f"    @resolves_draft_ids(\n        {', '.join(arguments)}\n    )"
    function = source.method("ModelConfig", "from_server_args")
    decorators = source.decorators("ModelConfig", "from_server_args")
    if decorators != ["staticmethod"]:
        raise PatchError(
            "a static method", decorators or "no decorator", f"from_server_args of {FILE}", signs.LAST_LINE
        )
    return [source.after_last_import("sglang", IMPORT), source.before(function, *call.split("\n"))]
