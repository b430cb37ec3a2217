"""What rows of bench and tune say in words, on a terminal and in the report. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from draftwire.bench.panels import Row, shares_a_server
from draftwire.bench.prediction import MOST_STEPS


def notes_of(row: Row) -> list[str]:
    """What a reader of the measurements must know, a line each."""
    lines = []
    if shares_a_server(row):
        lines.append("the two visits of the arm in the middle of the order were one server's: its spread is too small")
    if row.get("always_cut"):
        lines.append("every answer was cut at the most tokens: at fixed length the requests are the same")
    for arm, changed in (row.get("server_differs") or {}).items():
        pairs = ", ".join(f"{key} {before} -> {after}" for key, (before, after) in changed.items())
        lines += [f"beside its draft, {arm} differs from the baseline by SGLang's own choice: {pairs}"] if pairs else []
    return lines


def best_line(row: Row) -> str:
    """The fastest at each concurrency, and whether more steps than were predicted might be faster still."""
    each = [f"at {p['concurrency']} at once {_steps(p['steps'])}, {p['speedup']:.2f}x" for p in row["best"]]
    most = max(p["steps"] for p in row["predictions"])
    users = next((p["concurrency"] for p in row["best"] if p["steps"] == most), None)
    more = min(2 * most, MOST_STEPS)
    further = f" {_steps(most)} is the most that was predicted: more may be faster at {users} at once (--most {more})."
    return f"Fastest by prediction: {'; '.join(each)}.{further if users and more > most else ''}"


def stop_line(row: Row) -> str:
    """Where speculation stops paying."""
    kept = next(p["steps"] for p in row["best"] if p["concurrency"] == row["at"])
    return (
        f"From how many requests at once speculation stops paying: with {_steps(kept)} throughout, "
        f"{row['stops_paying']['said']}; with the fastest number at each, {row['stops_paying_at_best']['said']}."
    )


def tree_line(tree: Mapping[str, Any]) -> str:
    """What a tree would have to accept, said in two sentences."""
    must, most = tree["must_accept"], tree["most"]
    end = f", of {most} at most" if must <= most else f": more than the {most} that it can"
    found = tree.get("measured")
    last = "What a tree accepts is not predicted: a chain's run does not tell."
    if found:
        last = f"Measured, it accepts {found['accept_length']:.2f} and makes {say_speed(found)} tok/s; "
        last += f"the chain beside it {found['chain_tok_s']:,.1f}."
    return (
        f"A tree (topk {tree['topk']}, {_steps(tree['steps'])}, {tree['draft_tokens']} tokens) would have to accept "
        f"{'at least ' if tree['at_least'] else ''}{must:.2f} a step to be as fast{end}; the chain accepts "
        f"{tree['chain']:.2f}. {last}"
    )


def repeated_line(both: Sequence[Mapping[str, Any]]) -> str:
    """What two runs measured alike: how much the machine changed between them. "" where there is nothing."""
    each = []
    for b in dict.fromkeys(one["concurrency"] for one in both):
        here = [one for one in both if one["concurrency"] == b]
        pairs = [f"{_arm(one['steps'])} {one['before']:,.1f} and {one['after']:,.1f}" for one in here]
        each.append(f"at {b} at once {', '.join(pairs)}")
    if not each:
        return ""
    return (
        f"Measured by both runs, tok/s before and after: {'; '.join(each)}. Rebased: the prediction with that "
        "change of the machine taken out, by the nearest number of steps of both."
    )


def say_speed(e: Mapping[str, Any]) -> str:
    """Tokens a second: median, least and most."""
    return f"{e['tok_s']:,.1f} ({e['tok_s_min']:,.1f} to {e['tok_s_max']:,.1f})"


def _arm(steps: int | None) -> str:
    return "no draft" if steps is None else _steps(steps)


def _steps(count: int) -> str:
    return f"{count} step{'s' if count != 1 else ''}"
