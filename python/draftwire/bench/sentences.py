"""What rows of bench and tune say in words, on a terminal and in the report. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from draftwire.bench.panels import Row, shares_a_server
from draftwire.bench.prediction import MOST_STEPS, is_within


def notes_of(row: Row) -> list[str]:
    """What a reader of the measurements must know, a line each."""
    lines = []
    if shares_a_server(row):
        lines.append("the two visits of the arm in the middle of the order were one server's: its spread is too small")
    if row.get("always_cut"):
        lines.append("every answer was cut at the most tokens: at fixed length the requests are the same")
    alike: dict[str, list[str]] = {}
    for arm, changed in (row.get("server_differs") or {}).items():
        pairs = ", ".join(f"{key} {before} -> {after}" for key, (before, after) in changed.items())
        alike.setdefault(pairs, []).append(arm)
    for pairs, arms in alike.items():
        beside, differ = ("its draft", "differs") if len(arms) == 1 else ("their drafts", "differ")
        said = f"beside {beside}, {', '.join(arms)} {differ} from the baseline by SGLang's own choice: {pairs}"
        lines += [said] if pairs else []
    return lines


def best_line(row: Row) -> str:
    """The fastest at each concurrency, and whether more steps than were predicted might be faster still."""
    each = [
        f"at {p['concurrency']} at once {_steps(p['steps'])}, {p['speedup']:.2f}x"
        + ("" if p["speedup"] >= 1 else ", slower than without a draft")
        for p in row["best"]
    ]
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


def repeated_line(row: Row) -> str:
    """What two runs measured alike, and by what of it the predictions were rebased; "" where there is nothing."""
    both, each = row.get("repeated", ()), []
    for b in dict.fromkeys(one["concurrency"] for one in both):
        here = [one for one in both if one["concurrency"] == b]
        pairs = [f"{_arm(one['steps'])} {one['before']:,.1f} and {one['after']:,.1f}" for one in here]
        each.append(f"at {b} at once {', '.join(pairs)}")
    if not each:
        return ""
    used = {m["rebased_by"] for m in row["checked"]} - {None}
    by = "the server without a draft" if used == {0} else "the nearest number of steps that both measured"
    rebased = f" Rebased: the prediction, were it changed as {by}." if used else ""
    return f"Measured by both runs, tok/s before and after: {'; '.join(each)}.{rebased}"


def fastest_line(row: Row) -> str:
    """The fastest that the check measured at each concurrency, the server without a draft and a tree among them."""
    found: dict[int, list[tuple[float, str]]] = {}
    for m in row["checked"]:
        found.setdefault(m["concurrency"], []).append((m["tok_s"], f"{_steps(m['steps'])}, {m['speedup']:.2f}x"))
    for one in row.get("repeated", ()):
        if one["steps"] is None and one["concurrency"] in found:
            found[one["concurrency"]].append((one["after"], "no draft"))
    if tree := row["tree"].get("measured"):
        said = f"a tree of {row['tree']['topk']} with {_steps(row['tree']['steps'])}, {tree['speedup']:.2f}x"
        found[row["at"]].append((tree["tok_s"], said))
    each = [f"at {b} at once {max(found[b])[1]} ({max(found[b])[0]:,.1f} tok/s)" for b in sorted(found)]
    return f"Fastest of those measured afterwards: {'; '.join(each)}."


def say_speed(e: Mapping[str, Any]) -> str:
    """Tokens a second: median, least and most."""
    return f"{e['tok_s']:,.1f} ({e['tok_s_min']:,.1f} to {e['tok_s_max']:,.1f})"


def say_rebased(m: Mapping[str, Any]) -> str:
    """A checked count's `off_rebased`, and whether it is outside; "" where it was not rebased."""
    if m.get("rebased") is None:
        return ""
    within = is_within(m["rebased"], m["tok_s"], m["tok_s_min"], m["tok_s_max"])
    return f"{m['off_rebased']:+.1%}{'' if within else ' outside'}"


def _arm(steps: int | None) -> str:
    return "no draft" if steps is None else _steps(steps)


def _steps(count: int) -> str:
    return f"{count} step{'s' if count != 1 else ''}"
