"""The launch flags name the draft and the target that were looked at.

What: that a launch with EAGLE3 names a draft at all, and `--draft` and `--target` against
`--speculative-draft-model-path` and `--model-path`. Two directories are compared with links followed, two hub names as
names; a hub name and a directory only where the directory is the name's snapshot in the local cache, of
`--speculative-draft-model-revision` or `--revision` where they are said.

Why: all else here is said of the draft and target that the doctor was shown. A launch file that still names last
week's draft serves that one, and no other check would notice. Without a draft's path SGLang takes the target's own
where the target is of a family with a built-in draft, such as DeepSeek's, and stops elsewhere.

Example: `--draft out/converted -- --speculative-draft-model-path out/exported`.

Remedy: name the same in both places, or leave out `--draft` and `--target`: the launch flags then say what to look at.

Reports: none.
"""

import re
from pathlib import Path

from draftwire.case import Case
from draftwire.draft import DraftError, find_directory
from draftwire.finding import UNREPORTED, Finding, error, ok, skipped, warning
from draftwire.flags import COMMAND_LINE

PATHS = ("speculative-draft-model-path", "model-path")
REVISIONS = ("speculative-draft-model-revision", "revision")
HUB = re.compile(r"[\w.-]+/[\w.-]+")


def check(case: Case) -> Finding | list[Finding]:
    if case.flags is None:
        return skipped("no launch flags were named")
    directories = (case.draft.directory, case.target.directory if case.target else None)
    kinds = zip(("draft", "target"), case.named, directories, PATHS, REVISIONS, strict=True)
    findings = [found] if (found := _without_draft(case)) else []
    for kind, named, directory, flag, revision in kinds:
        served = case.flags.text(flag)
        if not named or not served or directory is None:
            continue
        same = _is_same(named, directory, served, case.flags.text(revision))
        seen = f"--{kind} {named}", f"--{flag} {served} in {case.flags.where(flag)}"
        if same is None:
            findings.append(skipped(f"cannot tell whether {' and '.join(seen)} are the same"))
        elif not same:
            findings.append(
                warning(
                    f"The launch serves another {kind} than was looked at.", *seen,
                    remedy=f"Name the same in both places, or leave out --{kind} to look at what is served.",
                    report=UNREPORTED,
                )
            )  # fmt: skip
    return findings or [ok("The launch flags name no other draft and target.")]


def _without_draft(case: Case) -> Finding | None:
    """A launch that turns EAGLE3 on for no draft: an error in a file, which is what is served. A few flags on the
    command line alone are no launch."""
    assert case.flags is not None
    asks = "speculative-algorithm"
    if case.flags.text(asks).upper() != "EAGLE3" or case.flags.said(PATHS[0]):
        return None
    seen = f"--{asks} EAGLE3 in {case.flags.where(asks)}, no --{PATHS[0]}"
    whole, in_file = case.flags.said(PATHS[1]), case.flags.where(asks) != COMMAND_LINE
    if not (whole or in_file):
        return None
    say = error if whole and in_file else warning
    return say(
        "The launch names no draft: SGLang would take the target for it, or stop.", seen,
        remedy=f"Say --{PATHS[0]}.", report=UNREPORTED,
    )  # fmt: skip


def _is_same(named: str, directory: Path, served: str, revision: str) -> bool | None:
    """None where one is a hub name and the other a directory, or what is served does not lie on this machine."""
    try:
        place = Path(served).expanduser()
        by_name = not Path(named).expanduser().is_dir()
        if place.is_dir():
            return place.samefile(directory) or (None if by_name else False)
        if not HUB.fullmatch(served):
            return None
        if by_name:
            return served.lower() == named.lower()
        return find_directory(served, revision).samefile(directory) or None
    except (DraftError, OSError, RuntimeError):
        # Not in the cache, no rights to look, no such home.
        return None
