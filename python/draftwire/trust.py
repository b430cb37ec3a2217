"""Are the dumped states what they are said to be? Held against the target's own forward, where that fits in here."""

from __future__ import annotations

from draftwire.draft import DraftError
from draftwire.naming import SAME, Named, compare_states
from draftwire.sample import Sample, Samples
from draftwire.target import Target


def check_states(samples: Samples, sample: Sample, target: Target | None, decides: bool) -> tuple[bool, list[str]]:
    """Whether the last state may stand for the target's own tokens, being its output; and notes for the user.

    decides: whether anything rests on the last state. Raises DraftError where a state is nearest to another boundary
    than the manifest or `--states` says.
    """
    said = samples.boundaries
    if said is None and not decides:
        return True, []
    named, reason = _named(samples, sample, target)
    notes = []
    if not named:
        what = f"boundaries {list(said)} of the dumped states" if said else "the last state as the target's output"
        notes.append(f"{what}: taken on trust, {reason}")
    elif said is not None:
        notes += _compare(said, named, sample)
    layers = target.num_layers if target is not None else samples.num_layers
    what = _instead(said, named, layers, sample.last_is_normed)
    if what and decides:
        notes.append(f"the last dumped state is {what}, not the target's output: it decides nothing")
    return not what, notes


def _named(samples: Samples, sample: Sample, target: Target | None) -> tuple[list[Named], str]:
    if target is None:
        return [], "without --target"
    key = target.directory, sample.file
    if key not in samples.named:
        samples.named[key] = compare_states(sample, target)
    return samples.named[key]


def _compare(said: tuple[int, ...], named: list[Named], sample: Sample) -> list[str]:
    notes = []
    for i, (boundary, one) in enumerate(zip(said, named, strict=True)):
        if one.nearest != boundary:
            far = "" if one.error < SAME else f", if any, at {one.error:.0%} of its length"
            raise DraftError(
                f"boundary {boundary} as state {i}, as it is said to be", f"boundary {one.nearest}{far}", sample.file,
                "correct the manifest or --states, or name the target that was dumped",
            )  # fmt: skip
        if one.error >= SAME:
            notes.append(f"state {i} is nearest to boundary {boundary}, but {one.error:.0%} of its length away")
    return notes


def _instead(said: tuple[int, ...] | None, named: list[Named], layers: int | None, normed: bool) -> str:
    """What the last state is where it is not the target's output in the form that is expected; else empty."""
    last = named[-1] if named else None
    boundary = last.nearest if last is not None else said[-1] if said else None
    if boundary is not None and layers is not None and boundary != layers:
        return f"boundary {boundary} of {layers}"
    if last is not None and last.boundary is not None and last.normed != normed:
        return f"boundary {boundary} {'after' if last.normed else 'before'} the final norm"
    return "" if last is None or last.boundary is not None or said else "no boundary of this target"
