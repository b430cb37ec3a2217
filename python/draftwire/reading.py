"""What a server makes of a draft's layer ids, stock or with draftwire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from draftwire.capture_rules import apply_rule, default_boundaries, rule_of, visits_last
from draftwire.release import has
from draftwire_overlay.srt.configs.model_config import DEEPSEEK_FAMILY
from draftwire_overlay.srt.speculative.aux_boundaries import BOUNDARIES, IDS, NESTED, WiringError, resolve

if TYPE_CHECKING:
    from draftwire.case import Case

CONFIG = "config.json"


class Reading(NamedTuple):
    """`wanted`: boundaries in the order in which the setter stores them; None where they are not known.

    `captured`: those of them that the target's loop visits, ascending, as the draft's `fc` gets them.
    `ids`: the raw list that was read, None for the release's default. `where`: its key. `rule`: how it was read.
    `refusal`: the line with which draftwire refuses the ids, empty where it does not.
    """

    wanted: tuple[int, ...] | None
    captured: tuple[int, ...] | None
    ids: tuple[Any, ...] | None
    where: str
    rule: str
    refusal: str = ""

    def __str__(self) -> str:
        said = f"{self.where} {list(self.ids)}" if self.ids is not None else "no ids, the release's default"
        return f"boundaries {show(self.captured)} ({said}, rule: {self.rule})"


def show(boundaries: Any) -> str:
    return "unknown" if boundaries is None else str(list(boundaries))


def read_served(case: Case) -> Reading:
    """By draftwire's rule where it wires this target, by the release's own elsewhere."""
    if case.is_wired_by_us:
        return read_wired(case)
    if case.delivery != "stock" and case.target is not None and (found := _words_of_ours(case)):
        refusal = WiringError(
            f"nested ids without -1 for a target of {case.target.architecture}", found, CONFIG,
            "write this release's own ids",
        )  # fmt: skip
        return Reading(None, None, None, "", "", str(refusal))
    return read_stock(case, case.release)


def _words_of_ours(case: Case) -> str:
    """What draftwire refuses to leave to another family's own rule: it could not be what it says."""
    ids = case.eagle_config.get(IDS)
    if isinstance(ids, list) and -1 in ids:
        return f"{NESTED} {ids}"
    if case.draft.config.get(IDS):
        return f"{IDS} {case.draft.config[IDS]}"
    return f"eagle_config.{BOUNDARIES}" if case.eagle_config.get(BOUNDARIES) else ""


def read_wired(case: Case) -> Reading:
    """As the overlay or the patch reads the ids of a draft for a target of DeepSeek's family."""
    assert case.target is not None
    rule = rule_of("DeepseekV3ForCausalLM", case.release) or "index_unless_1"
    raw = {key: case.draft.config.get(key) for key in ("eagle_config", IDS, "speculators_model_type")}
    try:
        wiring = resolve(raw, num_layers=case.target.num_layers, release_rule=rule, source=CONFIG)
    except WiringError as refusal:
        return Reading(None, None, None, "", "", str(refusal))
    captured = [b for b in wiring.boundaries if b < case.target.num_layers]
    return Reading(wiring.boundaries, tuple(captured), wiring.ids, wiring.where, wiring.rule)


def read_stock(case: Case, release: str) -> Reading:
    """As a release without draftwire reads them: nested ids only, and its default where it finds none.

    `model_runner.py` reads `eagle_config[...]` inside a bare `except`, and the setter takes any list.
    """
    ids = case.eagle_config.get(IDS)
    if case.target is None:
        return Reading(None, None, _tuple(ids), NESTED if ids is not None else "", "unknown without the target")
    architecture, layers = case.target.architecture, case.target.num_layers
    rule = rule_of(architecture, release)
    if rule is None:
        return Reading(None, None, _tuple(ids), NESTED, f"none: {release} cannot capture from {architecture}")
    if ids is None:
        wanted = default_boundaries(architecture, layers)
        return Reading(tuple(wanted), _visited(wanted, architecture, layers, release), None, "", "default")
    if not _are_integers(ids):
        return Reading(None, None, _tuple(ids), NESTED, rule)
    wanted = apply_rule(rule, ids, layers)
    return Reading(tuple(wanted), _visited(wanted, architecture, layers, release), tuple(ids), NESTED, rule)


def trained_boundaries(case: Case) -> tuple[int, ...] | None:
    """The boundaries that the config's own words say it was trained on, whatever a release makes of them.

    `aux_boundaries`, ids with a -1, or speculators' top-level ids; None where the ids have more than one meaning.
    """
    written = case.eagle_config.get(BOUNDARIES)
    nested, top = case.eagle_config.get(IDS), case.draft.config.get(IDS)
    if _are_integers(written):
        return tuple(written)
    for ids in (nested, top):
        if _are_integers(ids) and -1 in ids:
            return tuple(i + 1 for i in ids)
    if _are_integers(top) and case.draft.config.get("speculators_model_type"):
        return tuple(top)
    return None


def _visited(wanted: list[int], architecture: str, layers: int, release: str) -> tuple[int, ...]:
    """The loop asks each layer in turn whether it is in the list: ascending, once, and within the layers."""
    last = layers if visits_last(architecture, release) else layers - 1
    first = 1 if architecture in DEEPSEEK_FAMILY and not has(release, "layer_captures") else 0
    return tuple(b for b in sorted(set(wanted)) if first <= b <= last)


def _are_integers(ids: Any) -> TypeGuard[list[int]]:
    return isinstance(ids, list) and bool(ids) and all(type(i) is int for i in ids)


def _tuple(ids: Any) -> tuple[Any, ...] | None:
    return tuple(ids) if isinstance(ids, list) else None if ids is None else (ids,)
