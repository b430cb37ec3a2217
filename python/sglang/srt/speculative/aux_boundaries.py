"""Turn the layer ids of an EAGLE-3 draft's config into boundaries.

Boundary b is the target's residual stream after b decoder layers: 0 is the embedding output,
n the output of the last layer before the final norm. Pure standard library, no side effects:
the overlay, the patches and the doctor all read ids here and nowhere else.

Why: `layer_id` has at least three meanings in the wild, and a draft that is fed other states than
    it was trained on makes the server slow without an error.
Upstream: none; each model file guesses the convention from the ids themselves.
Drop when: SGLang reads a draft's boundaries from one documented key, in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

IDS = "eagle_aux_hidden_state_layer_ids"
NESTED = f"eagle_config.{IDS}"
BOUNDARIES = "aux_boundaries"

RULES: dict[str, Callable[[Sequence[int]], list[int]]] = {
    # Every id names a layer's output; -1 is the embedding. SpecForge, TRT-LLM, ModelOpt, most SGLang models.
    "output": lambda ids: [i + 1 for i in ids],
    # The id is an index into Hugging Face's `hidden_states`. speculators 0.5 to 0.9, vLLM.
    "index": lambda ids: list(ids),
    # DeepSeek and Kimi in SGLang since 0.5.13: an index, unless the first id is 1.
    "index_unless_1": lambda ids: [i + 1 for i in ids] if ids and ids[0] == 1 else list(ids),
}


class WiringError(ValueError):
    """A wiring that cannot be served as written; the message is one line for the user."""

    def __init__(self, expected: str, found: object, where: str, remedy: str):
        super().__init__(f"expected {expected}; found {found} in {where}; {remedy}")


@dataclass(frozen=True)
class Wiring:
    """Which boundaries of the target feed the draft's `fc`, and how that was read.

    `boundaries`: strictly ascending, each in [0, num_layers]. `ids`: the raw value, None where the
    config holds none. `where`: the key it came from. `rule`: a key of `RULES`, "as written" or "default".
    """

    boundaries: tuple[int, ...]
    ids: tuple[int, ...] | None
    where: str
    rule: str
    num_layers: int

    def __str__(self) -> str:
        ids = "no ids" if self.ids is None else f"{self.where} {list(self.ids)}"
        embedding = "; 0 is the embedding output" if 0 in self.boundaries else ""
        read_as = ", -1 stops others" if self.rule == "as written" else ", -1 read as the embedding output"
        minus_one = read_as if self.ids and -1 in self.ids else ""
        return (
            f"aux hidden states at boundaries {list(self.boundaries)} of {self.num_layers}{embedding}"
            f" ({ids}, rule: {self.rule}{minus_one})"
        )


def wants_states(config: Mapping[str, Any], source: str) -> bool:
    """Whether a draft reads captured states at all (`eagle_config.use_aux_hidden_state`, true where absent).

    config, source: as for `resolve`. Raises WiringError where the keys around the ids contradict each other.
    """
    nested = config.get("eagle_config")
    if nested is not None and not isinstance(nested, Mapping):
        raise WiringError("a table", repr(nested), f"eagle_config of {source}", f"write {{{IDS!r}: [...]}}")
    if config.get(BOUNDARIES) is not None:
        raise WiringError(
            f"{BOUNDARIES} in eagle_config", f"{BOUNDARIES} at top level", source, "move it into eagle_config"
        )
    nested = nested or {}
    flag = nested.get("use_aux_hidden_state", True)
    where = f"eagle_config.use_aux_hidden_state of {source}"
    if not isinstance(flag, bool):
        raise WiringError("true or false", repr(flag), where, "write true for a draft that reads captured states")
    ids = [table[key] for table in (nested, config) for key in (IDS, BOUNDARIES) if table.get(key) is not None]
    if ids and not flag:
        raise WiringError(
            f"true beside the ids {ids[0]}", flag, where, "delete the one that the draft was not trained with"
        )
    return flag


def resolve(config: Mapping[str, Any], *, num_layers: int, release_rule: str, source: str) -> Wiring:
    """The wiring that a draft's config asks for.

    config: the draft's config.json as a mapping. num_layers: decoder layers of the target.
    release_rule: the key of `RULES` by which the serving release reads nested ids.
    source: where the config lies, for messages.
    Raises WiringError where the ids have no certain meaning or cannot be captured.
    """
    wants_states(config, source)
    nested_config = config.get("eagle_config") or {}
    nested = _read(nested_config.get(IDS), NESTED, release_rule, source)
    top = _read(config.get(IDS), IDS, "index" if config.get("speculators_model_type") else None, source)
    written = nested_config.get(BOUNDARIES)
    if written is not None:
        return _as_written(written, [r for r in (nested, top) if r], num_layers, source)
    if nested and top and (nested.ids != top.ids if top.rule is None else nested.boundaries != top.boundaries):
        raise WiringError(
            f"{IDS} that means {nested.boundaries} as {NESTED} {nested.ids} does",
            f"{top.ids}, meaning {top.boundaries or 'nothing certain'}",
            source,
            "delete the list that the draft was not trained on",
        )
    reading = nested or top
    if reading is None:
        default = [2, num_layers // 2, num_layers - 3]
        where = f"the release's default, as {source} holds no ids"
        _check_boundaries(default, num_layers, where)
        if default != sorted(set(default)):
            raise WiringError("three ascending boundaries", default, where, "write the ids the draft was trained on")
        return Wiring(tuple(default), None, "", "default", num_layers)
    if reading.rule is None:
        raise WiringError(
            f"{NESTED}, or a `speculators_model_type` that says how top-level ids count",
            f"{IDS} {reading.ids}",
            source,
            f"write eagle_config.{BOUNDARIES} with the boundaries that the draft was trained on",
        )
    _check_boundaries(reading.boundaries, num_layers, f"{reading.key} {reading.ids} of {source}")
    return Wiring(tuple(reading.boundaries), tuple(reading.ids), reading.key, reading.rule, num_layers)


class _Reading(NamedTuple):
    key: str
    ids: list[int]
    rule: str | None
    boundaries: list[int]


def _read(ids: Any, key: str, rule: str | None, source: str) -> _Reading | None:
    if ids is None:
        return None
    _check_ids(ids, key, source)
    rule = "output" if -1 in ids else rule
    return _Reading(key, list(ids), rule, RULES[rule](ids) if rule else [])


def _as_written(written: Any, readings: list[_Reading], num_layers: int, source: str) -> Wiring:
    where = f"eagle_config.{BOUNDARIES}"
    _check_ids(written, where, source, lowest=0)
    _check_boundaries(written, num_layers, f"{where} of {source}")
    for reading in readings:
        free = reading.rule is None or -1 in reading.ids
        if len(reading.ids) != len(written) or not (free or reading.boundaries == list(written)):
            raise WiringError(
                f"{len(written)} ids that mean {where} {list(written)}, or ids with -1",
                f"{reading.ids}, meaning {reading.boundaries or 'nothing certain'},",
                f"{reading.key} of {source}",
                "correct the list that the draft was not trained on",
            )
    ids = tuple(readings[0].ids) if readings else None
    return Wiring(tuple(written), ids, where, "as written", num_layers)


def _check_ids(ids: Any, key: str, source: str, lowest: int = -1) -> None:
    remedy = "write the ids that the draft was trained on"
    if not isinstance(ids, (list, tuple)) or not ids:
        raise WiringError("a list of layer ids", repr(ids), f"{key} of {source}", remedy)
    if not all(isinstance(i, int) and not isinstance(i, bool) for i in ids):
        raise WiringError("integer layer ids", list(ids), f"{key} of {source}", remedy)
    if min(ids) < lowest:
        raise WiringError(
            f"ids of {lowest} and above",
            list(ids),
            f"{key} of {source}",
            "-1 is the embedding output, and nothing lies below it" if lowest == -1 else remedy,
        )
    if len(set(ids)) < len(ids):
        raise WiringError("each id once", list(ids), f"{key} of {source}", remedy)
    if list(ids) != sorted(ids):
        raise WiringError(
            "ascending ids, the order in which the layers are captured",
            list(ids),
            f"{key} of {source}",
            f"sort the ids and permute the column blocks of fc.weight to match "
            f"(`draftwire doctor --fix`): the draft expects {list(ids)}",
        )


def _check_boundaries(boundaries: Sequence[int], num_layers: int, where: str) -> None:
    if min(boundaries) < 0 or max(boundaries) > num_layers:
        raise WiringError(
            f"boundaries of 0 to {num_layers}, the target's layers",
            list(boundaries),
            where,
            "check that the draft was trained for this target",
        )


def require_reachable(
    wiring: Wiring, *, pipeline: int = 1, two_batch_overlap_from: int | None = None, last_is_visited: bool = False
) -> None:
    """Raise WiringError where the serving release would never visit one of the boundaries.

    pipeline: pipeline-parallel size. two_batch_overlap_from: the first layer that runs in two overlapping
    batches, which bypass the capture; None where that is off. last_is_visited: whether boundary
    `num_layers` can be captured (not on DeepSeek and Kimi, whose loop captures a layer's input).
    """
    boundaries, where = list(wiring.boundaries), f"the draft's wiring {list(wiring.boundaries)}"
    if pipeline > 1:
        raise WiringError(
            "pipeline parallelism of 1 with an EAGLE-3 draft",
            f"--pp-size {pipeline}",
            "the launch flags",
            "serve with tensor parallelism: the early stages capture nothing",
        )
    if two_batch_overlap_from is not None and boundaries[-1] >= two_batch_overlap_from:
        raise WiringError(
            f"boundaries below {two_batch_overlap_from} with --enable-two-batch-overlap",
            boundaries,
            where,
            "leave the flag out: overlapped layers are not captured",
        )
    if boundaries[-1] == wiring.num_layers and not last_is_visited:
        raise WiringError(
            f"boundaries below {wiring.num_layers}: the target's loop captures a layer's input",
            boundaries,
            where,
            "train the draft on an earlier layer, the last one's output cannot be captured",
        )
