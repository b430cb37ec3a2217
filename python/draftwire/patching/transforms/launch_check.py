"""A draft that cannot be served is refused in the launching process.

Overlay: server_args.py
"""

from __future__ import annotations

from draftwire.patching.insertion import Insertion
from draftwire.patching.source import Sources

FILE = "srt/server_args.py"
LINES = """\
        from sglang.srt.speculative.draft_wiring import require_wirable

        require_wirable(self)
"""


def places(files: Sources) -> list[Insertion]:
    source = files[FILE]
    function = source.method("ServerArgs", "check_server_args")
    return [source.before(function.body.body[0], *LINES.split("\n"), comments=True)]
