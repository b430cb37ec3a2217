"""The draft's weights are numbers, and not all zero.

What: every value of the norms and of other vectors, and a few pieces of each matrix; NaN, infinity, nothing but zeros.
The embedding is left out, for SGLang takes the target's. A matrix that is damaged elsewhere is not seen here.

Why: one NaN in a norm makes every logit of the draft NaN. Nothing ends: the token that comes out is seldom right, and
the server is slower than without a draft. Training that diverged, and an export of weights that were never filled in,
look like any other file from their headers.

Example: `midlayer.hidden_norm.weight` that holds a NaN since a step with a loss of infinity.

Remedy: export the draft again, from a step before the training diverged.

Reports: none; found by serving such drafts.
"""

import math
from collections.abc import Iterator

from draftwire.case import Case
from draftwire.finding import UNREPORTED, Finding, error, ok, skipped, warning
from draftwire.headers import Stored
from draftwire.rows import WIDTHS, read_row, read_vector

# A norm of any draft is read whole. A matrix costs eight reads of a page; the count is for headers that list millions.
VECTOR, ROWS, COLUMNS, TENSORS = 2**16, 8, 512, 1024
AGAIN = "Export the draft again, from a step before its training diverged."


def check(case: Case) -> Finding | list[Finding]:
    tensors = sorted((len(t.shape), name, t) for name, t in case.tensors.items() if _is_read(name, t))
    if not tensors:
        return skipped("no weights of a floating point type that is read here")
    read = tensors[:TENSORS]
    found = [f for _, name, tensor in read if (f := _look(name, tensor))]
    vectors = sum(dimensions == 1 for dimensions, *_ in read)
    seen = f"{vectors} vectors and pieces of {len(read) - vectors} matrices, of {len(case.tensors)} tensors"
    return found or ok("What was read of the weights are numbers.", seen)


def _is_read(name: str, tensor: Stored) -> bool:
    known = tensor.dtype in WIDTHS and len(tensor.shape) in (1, 2) and tensor.size > 0
    return known and name != "embed_tokens.weight"


def _look(name: str, tensor: Stored) -> Finding | None:
    zero = True
    for place, values in _pieces(tensor):
        odd = next((i for i, value in enumerate(values) if not math.isfinite(value)), None)
        if odd is not None:
            return error(
                f"{name} holds a value that is no number.", f"{values[odd]} at {place}{odd}", remedy=AGAIN,
                report=UNREPORTED,
            )  # fmt: skip
        zero = zero and not any(values)
    if not zero or name.endswith("bias"):
        return None
    if len(tensor.shape) == 1 and "norm" in name:
        return error(f"{name} is all zero.", f"{list(tensor.shape)}", remedy=AGAIN, report=UNREPORTED)
    return warning(f"{name} is all zero where it was read.", f"{list(tensor.shape)}", remedy=AGAIN, report=UNREPORTED)


def _pieces(tensor: Stored) -> Iterator[tuple[str, list[float]]]:
    if len(tensor.shape) == 1:
        yield "", read_vector(tensor, VECTOR) or []
        return
    for row in sorted({int((i + 0.5) * tensor.shape[0] / ROWS) for i in range(ROWS)}):
        yield f"row {row}, column ", read_row(tensor, row, COLUMNS) or []
