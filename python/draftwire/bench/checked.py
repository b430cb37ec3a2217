"""How predictions of `draftwire tune` fared in the run that measured the best of them. Pure: entries in, entries out.

Two runs are minutes apart, and a shared machine changes in between. What both measured, the baseline and the best
among the counts that the first run served, says by how much: a prediction is held against what was measured as it is
(`off`, `within`), and again as it would have been at the second run's speed (`rebased`, `off_rebased`). The first is
what a user gets; the second is as good as what it is rebased by: a change of the whole machine is taken out, one that
hits a single server is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from draftwire.bench.panels import is_chain
from draftwire.bench.prediction import is_within

Entry = Mapping[str, Any]


def repeated(before: Sequence[Entry], after: Sequence[Entry]) -> list[dict[str, Any]]:
    """What both runs measured, by concurrency, the baseline (steps None) first. Tokens a second."""
    later = {_key(m): m["tok_s"] for m in after if _is_plain(m)}
    known = {_key(m): m["tok_s"] for m in before if _is_plain(m)}
    keys = sorted(known.keys() & later.keys(), key=lambda key: (key[0], key[1] or 0))
    return [{"concurrency": b, "steps": k, "before": known[b, k], "after": later[b, k]} for b, k in keys]


def compare(
    predictions: Sequence[Entry], measured: Sequence[Entry], before: Sequence[Entry] = ()
) -> list[dict[str, Any]]:
    """Measured EAGLE-3 entries beside the predictions of a row that was made of the entries `before`.

    off: predicted over measured less 1. within: whether that is at most a tenth or inside what was measured from least
    to most. rebased, off_rebased: the same at this run's speed, by the nearest number of steps in both
    runs at this concurrency, else by the baseline (`rebased_by`: its steps, 0 the baseline); None for a count that is
    in both, which nothing predicts, and where neither is. accept_length is 1 + c_1 + ..., as predicted; an output's
    last step, cut short, does not count in it.
    """
    speeds = {(p["concurrency"], p["steps"]): p["tok_s"] for p in predictions}
    both = repeated(before, measured)
    out = []
    for m in measured:
        if m["arm"] != "eagle3" or not _is_plain(m) or _key(m) not in speeds:
            continue
        predicted = speeds[_key(m)]
        kept = {k: m[k] for k in ("concurrency", "steps", "tok_s", "tok_s_min", "tok_s_max", "speedup", "repeats")}
        kept |= {"accept_length": round(1 + sum(m["accept_positions"]), 4), "predicted": predicted}
        kept |= {"off": _off(predicted, m), "within": is_within(predicted, m["tok_s"], m["tok_s_min"], m["tok_s_max"])}
        out.append({**kept, **_rebased(predicted, m, both)})
    return out


def compare_tree(tree: Entry, measured: Sequence[Entry], concurrency: int) -> dict[str, Any] | None:
    """The tree's own measurement of a run, and of the chain beside it, both in tokens a second; None without both.

    accept_length is 1 + c_1 + ..., as in `must_accept`.
    """
    here = [m for m in measured if m["concurrency"] == concurrency and m["length"] == "eos"]
    found, chain = (
        next((m for m in here if (m["topk"], m["steps"]) == (topk, tree["steps"])), None) for topk in (tree["topk"], 1)
    )
    if found is None or chain is None:
        return None
    kept = ("tok_s", "tok_s_min", "tok_s_max", "speedup", "accept_positions")
    length = round(1 + sum(found["accept_positions"]), 4)
    return {key: found[key] for key in kept} | {"accept_length": length, "chain_tok_s": chain["tok_s"]}


def _rebased(predicted: float, m: Entry, both: Sequence[Entry]) -> dict[str, Any]:
    here = [one for one in both if one["concurrency"] == m["concurrency"]]
    if not here or m["steps"] in {one["steps"] for one in here}:
        return {"rebased": None, "rebased_by": None, "off_rebased": None}
    by = min(here, key=lambda one: (not one["steps"], abs((one["steps"] or 0) - m["steps"])))
    speed = predicted * by["after"] / by["before"]
    return {"rebased": round(speed, 2), "rebased_by": by["steps"] or 0, "off_rebased": _off(speed, m)}


def _off(speed: float, m: Entry) -> float:
    return round(speed / m["tok_s"] - 1, 4)


def _key(m: Entry) -> tuple[int, int | None]:
    return m["concurrency"], m["steps"]


def _is_plain(m: Entry) -> bool:
    """The baseline or a chain, over answers that end where they end."""
    return is_chain(m) or (m["arm"] == "baseline" and m["length"] == "eos")
