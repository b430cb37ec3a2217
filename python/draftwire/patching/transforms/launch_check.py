"""A draft that cannot be served is refused in the launching process.

Overlay: server_args.py
"""

from __future__ import annotations

from draftwire.patching import signs
from draftwire.patching.insertion import Insertion
from draftwire.patching.refusals import PatchError
from draftwire.patching.source import Sources

FILE = "srt/server_args.py"
IMPORT = "from sglang.srt.speculative.draft_wiring import requires_wirable_draft"
# Below the same line in every release that shares a patch; where it is not, the last import is.
NEIGHBOUR = "from sglang.srt.environ import envs"


def places(files: Sources) -> list[Insertion]:
    source = files[FILE]
    function = source.method("ServerArgs", "check_server_args")
    if decorators := source.decorators("ServerArgs", "check_server_args"):
        raise PatchError("a method without decorators", decorators, f"check_server_args of {FILE}", signs.LAST_LINE)
    grouped = [at for at, line in enumerate(source.lines) if line == NEIGHBOUR and source.lines[at - 1] == ")"]
    imported = source.at(grouped[0], (IMPORT,)) if grouped else source.after_last_import("sglang", IMPORT)
    return [imported, source.before(function, "    @requires_wirable_draft")]
