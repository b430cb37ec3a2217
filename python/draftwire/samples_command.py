"""`draftwire doctor --samples`: a draft, run on training samples, against what a server would feed it."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from draftwire.delivery import available, require_available, require_read
from draftwire.draft import DraftError
from draftwire.rendering import WIDTH
from draftwire.samples_report import as_table, describe, describe_mend, mended_table

if TYPE_CHECKING:
    from draftwire.case import Case
    from draftwire.convert.output import Output
    from draftwire.diagnosis import Diagnosis

STATUS = {"WIRED": 0, "MISWIRED": 1, "UNKNOWN": 2}


def examine_samples(
    case: Case, directory: Path, *, data: Path | None = None, states: str = "", expect: float | None = None,
    fix: Path | None = None, as_json: bool = False, width: int = WIDTH,
) -> tuple[str, int]:  # fmt: skip
    """Text or JSON for the user and the exit status: 0 WIRED, 1 MISWIRED, 2 UNKNOWN; after a mend, the mended draft's.

    states: boundaries of the dumped states such as 0,3,6,9. expect: the trainer's agreement, from 0 to 1. width:
    columns of the text. Raises DraftError, one line, on samples, drafts and arguments that cannot be used.
    """
    require_torch()
    from draftwire.diagnosis import diagnose
    from draftwire.mend import require_output
    from draftwire.sample import read_samples

    require_read(case.release, case.environment)
    require_available(case.release, case.delivery, case.environment)
    if fix is not None:
        require_output(case, fix)
    hidden, size = (case.target.hidden_size, case.target.vocab_size) if case.target else (None, case.vocab_size)
    samples = read_samples(directory, states=read_states(states), data=data, hidden_size=hidden, vocab_size=size,
                           num_layers=case.target.num_layers if case.target else None)  # fmt: skip
    found = diagnose(case, samples, expect=expect)
    table = as_table(found)
    if fix is None:
        lines, status = describe(case, found, width), STATUS[found.verdict]
    else:
        mended, again = _mend(case, found, samples, fix, expect)
        lines, status = describe_mend(found, again, mended, width), STATUS[again.verdict]
        table["fixed"] = {**mended, **as_table(again)}
    return json.dumps(table, indent=2) if as_json else "\n".join(lines), status


def _mend(
    case: Case, found: Diagnosis, samples: Any, fix: Path, expect: float | None
) -> tuple[dict[str, Any], Diagnosis]:
    """Write the mended draft and diagnose it as it would be served; where that cannot be done, leave nothing."""
    from draftwire.case import Case
    from draftwire.diagnosis import diagnose
    from draftwire.draft import read_draft
    from draftwire.mend import changes, mend, shared_weights

    output = mend(case, found, fix)
    try:
        cases = {
            name: Case(read_draft(fix), case.target, None, case.release, name, case.environment)
            for name in available(case.release, case.environment)
        }
        ours = "overlay" if output.requires and "overlay" in cases else case.delivery
        again = diagnose(cases[ours], samples, expect=expect)
        served_by = list(_served_by(cases, again, output))
        return mended_table(fix, output, changes(case, found, output), served_by, shared_weights(case, fix)), again
    except BaseException:
        shutil.rmtree(fix, ignore_errors=True)
        raise


def _served_by(cases: dict[str, Case], again: Diagnosis, output: Output) -> Iterator[str]:
    """What each delivery makes of the mended draft, which `again` diagnosed."""
    from draftwire.axes import differences
    from draftwire.settings import served_settings

    ids = output.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
    outputs = [b - 1 for b in output.boundaries]
    if "overlay" in cases:
        yield f"for the overlay: ids {ids}" + (f" (or {outputs})" if outputs[0] == -1 else "")
    stock = cases["stock"]
    captured = stock.reading.captured
    other = differences(again.winner.settings, served_settings(stock)) if again.winner is not None else []
    yield f"for stock SGLang {stock.release}: " + (
        f"none, it needs {', '.join(output.requires)}: serve it with the overlay" if output.requires
        else f"none, it would capture {list(captured or ())}: serve it with the overlay"
        if captured != tuple(output.boundaries)
        else f"none, it does otherwise: {', '.join(other)}; serve it with the overlay" if other
        else f"the same ids {ids}; the overlay is not needed"
    )  # fmt: skip


def read_expect(text: str) -> float | None:
    """A share above 0 and to 1 such as 0.747, or a percentage with its sign such as 74.7%; None for no characters."""
    number = text.strip()
    if not number:
        return None
    try:
        value = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        value = math.nan
    if not 0 < value <= 1:
        raise DraftError("a share such as 0.747, or a percentage with its sign such as 74.7%", text, "--expect",
                         "write the trainer's figure")  # fmt: skip
    return value


def read_states(text: str) -> Sequence[int] | None:
    """Boundaries from a list such as 0,3,6,9; None where nothing was said."""
    if not text:
        return None
    parts = text.split(",")
    if not all(part.strip().isdecimal() and len(part) < 7 for part in parts):
        raise DraftError("boundaries such as 0,3,6,9", text, "--states", "name each dumped state's boundary")
    return [int(part) for part in parts]


def require_torch() -> None:
    """Raises DraftError where torch or transformers is not installed."""
    try:
        import torch
        import transformers  # noqa: F401

        del torch
    except ImportError as failure:
        raise DraftError(
            "torch and transformers", str(failure), "this Python", "pip install 'draftwire[doctor]'"
        ) from None
