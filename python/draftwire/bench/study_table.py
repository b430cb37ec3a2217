"""What `draftwire tune` prints for a person."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from draftwire.bench.sentences import best_line, fastest_line, repeated_line, say_rebased, stop_line, tree_line
from draftwire.bench.tuning import Study


def say(study: Study, out: Console) -> None:
    """Predictions, costs and the best, for a person."""
    found = study.findings()
    table = Table(caption="tok/s: predicted (from the slowest and the fastest runs)", box=None)
    for heading in ("at once", "steps", "tok/s", "accepted", "gain", ""):
        table.add_column(heading, justify="right", no_wrap=True)
    measured = {(p.concurrency, p.steps) for p in study.drafted}
    for p in study.predictions:
        mark = "extrapolated" if p.extrapolated else "as measured" if (p.concurrency, p.steps) in measured else ""
        table.add_row(str(p.concurrency), str(p.steps), f"{p.tok_s:.1f} ({p.low:.1f}-{p.high:.1f})",
                      f"{p.accept_length:.2f}", f"{p.gain:.2f}x", mark)  # fmt: skip
    out.print(table)
    for c in found["costs"]:
        text = f"{c['concurrency']} at once: a plain step {c['plain']:.1f} ms, one more draft step and token "
        text += f"{c['another_step']:.1f} ms"
        if c["verify"] is not None:
            text += f"; verifying {c['steps'] + 1} tokens {c['verify']:.1f} ms, a draft step {c['draft']:.1f} ms"
        say_line(out, text)
    for point, speed in study.left_out():
        say_line(out, f"{point.concurrency} at once, {point.steps} steps: the other counts predict {speed:.1f} tok/s, "
                    f"measured {point.tok_s:.1f} ({point.low:.1f}-{point.high:.1f})")  # fmt: skip
    say_line(out, best_line(found))
    say_line(out, stop_line(found))
    say_line(out, tree_line(found["tree"]))


def say_checked(row: dict[str, Any], out: Console) -> None:
    """Predicted beside measured."""
    table = Table(caption="off: predicted over measured; ok: within a tenth or the runs' least and most", box=None)
    for heading in ("at once", "steps", "predicted", "measured", "spread", "off", "", "rebased"):
        table.add_column(heading, justify="right", no_wrap=True)
    known = {(m["concurrency"], m["steps"]) for m in row["measurements"]}
    for m in row["checked"]:
        spread = f"{m['tok_s_min']:.1f}-{m['tok_s_max']:.1f}"
        twice = (m["concurrency"], m["steps"]) in known
        verdict = "measured twice" if twice else "ok" if m["within"] else "outside"
        table.add_row(str(m["concurrency"]), str(m["steps"]), f"{m['predicted']:.1f}", f"{m['tok_s']:.1f}", spread,
                      f"{m['off']:+.1%}", verdict, say_rebased(m))  # fmt: skip
    out.print(table)
    if row["repeated"]:
        say_line(out, repeated_line(row))
    say_line(out, fastest_line(row))


def say_line(out: Console, text: str) -> None:
    """One sentence, neither wrapped nor read as markup."""
    out.print(text, markup=False, highlight=False, soft_wrap=True)
