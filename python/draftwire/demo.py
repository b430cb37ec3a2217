"""The whole story in one run: no draft, the draft wired as trained, the same draft mis-wired."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from draftwire.acceptance import Acceptance
from draftwire.engine import Engine, find_device, small_engine
from draftwire.latent import triple_latent
from draftwire.pair import Pair, example_pair
from draftwire.server import Server

PROMPTS, TOKENS = 8, 48
LEAST_ACCEPTANCE = 2.5
NEAR_TIE = 0.1


class Arm(NamedTuple):
    """One measured server.

    `tok_s`: new tokens a second, one request at a time. `outputs`: token ids of each prompt. `ties`: how many
    outputs leave the reference's where the target gives two tokens the same probability but for rounding.
    """

    name: str
    tok_s: float
    acceptance: Acceptance
    outputs: list[list[int]]
    ties: int = 0


def is_near_tie(server: Server, prompt: Sequence[int], output: Sequence[int], reference: Sequence[int]) -> bool:
    """Whether two greedy outputs part where the target's two best tokens are within NEAR_TIE nats of each other.

    In 16 bit the target computes one token in other batches than several, and rounding decides such places.
    """
    at = next(i for i, (mine, theirs) in enumerate(zip(output, reference, strict=True)) if mine != theirs)
    answer = server.generate([*prompt, *reference[:at]], 1, return_logprob=True, top_logprobs_num=2)
    (first, one, _), (second, two, _) = answer["meta_info"]["output_top_logprobs"][0]
    return {one, two} == {output[at], reference[at]} and first - second < NEAR_TIE


@contextmanager
def kept_on_failure(prefix: str) -> Iterator[Path]:
    """A temporary folder, removed at the end unless an error, which names its log, leaves what is in it to be looked
    at."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield folder
    except Exception:
        if not any(folder.iterdir()):
            folder.rmdir()
        raise
    except BaseException:  # Interrupted: there is nothing to look at.
        shutil.rmtree(folder)
        raise
    shutil.rmtree(folder)


def run_arm(
    name: str, flags: list[str], pair: Pair, engine: Engine, console: Console, reference: Arm | None = None
) -> Arm:
    """Serve, warm up with a prompt that is not measured, then ask the first prompts one at a time."""
    prompts = pair.prompts[:PROMPTS]
    with (
        kept_on_failure("draftwire-") as folder,
        console.status(f"{name}: starting") as status,
        Server([*flags, *engine.flags], folder / "server.log", env=engine.env) as server,
    ):
        ready = server.wait_ready(
            timeout=300, tick=lambda seconds: status.update(f"{name}: starting SGLang, {seconds:.0f} s")
        )
        status.update(f"{name}: warming up")
        server.generate(pair.prompts[-1], TOKENS)
        server.flush_cache()
        answers: list[Any] = []
        start = time.perf_counter()
        for number, prompt in enumerate(prompts, 1):
            status.update(f"{name}: prompt {number} of {PROMPTS}")
            answers.append(server.generate(prompt, TOKENS))
        seconds = time.perf_counter() - start
        outputs = [answer["output_ids"] for answer in answers]
        other = zip(prompts, outputs, reference.outputs if reference else outputs, strict=True)
        ties = sum(is_near_tie(server, *three) for three in other if three[1] != three[2])
    acceptance = Acceptance.of(answers)
    arm = Arm(name, acceptance.tokens / seconds, acceptance, outputs, ties)
    console.print(f"{name}: ready after {ready:.0f} s, {acceptance.tokens} tokens in {seconds:.1f} s")
    return arm


def table_of(arms: list[Arm]) -> Table:
    """What a person reads: the first arm is the baseline that the others are compared with."""
    table = Table(caption="accepted: mean tokens a verify step; by position: share of steps")
    for heading in ("", "tok/s", "accepted", "by position", "same output"):
        table.add_column(heading, justify="left" if not heading else "right", no_wrap=True)
    for arm in arms:
        drafted = arm is not arms[0]
        same = sum(mine == theirs for mine, theirs in zip(arm.outputs, arms[0].outputs, strict=True))
        ties = f", {arm.ties} tied" if arm.ties else ""
        table.add_row(
            arm.name,
            f"{arm.tok_s:.1f}",
            f"{arm.acceptance.length:.2f}" if drafted else "-",
            " ".join(f"{share:.2f}" for share in arm.acceptance.positions) or "-",
            f"{same} of {len(arm.outputs)}{ties}" if drafted else "-",
        )
    return table


def run(out: Console | None = None, progress: Console | None = None) -> int:
    """Measure the three arms, print the table and the JSON line; 0 where the wired arm is wired and exact."""
    out, progress = out or Console(), progress or Console(stderr=True)
    progress.print("looking for SGLang and a GPU")
    from sglang.version import __version__ as release

    pair, device = example_pair(), find_device()
    engine, dtype = small_engine(device), "float32" if device == "cpu" else "bfloat16"
    progress.print(f"SGLang {release} on {device}: {PROMPTS} prompts, {TOKENS} new tokens each, {dtype}, one at a time")
    with tempfile.TemporaryDirectory(prefix="draftwire-") as folder:
        if device != "cpu":
            pair.target = triple_latent(pair.target, Path(folder) / "target")
        crossed = pair.rewire(Path(folder) / "miswired", [3, 6, 9])
        baseline = run_arm("no draft", pair.plain_flags(dtype), pair, engine, progress)
        wired = run_arm("wired [-1, 2, 5]", pair.flags(dtype=dtype), pair, engine, progress, baseline)
        miswired = run_arm("mis-wired [3, 6, 9]", pair.flags(crossed, dtype), pair, engine, progress, baseline)
    out.print(table_of([baseline, wired, miswired]))
    different = sum(mine != theirs for mine, theirs in zip(wired.outputs, baseline.outputs, strict=True))
    same = different <= wired.ties and (different == 0 or dtype != "float32")
    row = {
        "baseline_tok_s": round(baseline.tok_s, 1),
        "wired_tok_s": round(wired.tok_s, 1),
        "miswired_tok_s": round(miswired.tok_s, 1),
        "wired_accept_length": round(wired.acceptance.length, 3),
        "miswired_accept_length": round(miswired.acceptance.length, 3),
        "outputs_equal": different == 0,
        "sglang": release,
        "device": device,
    }
    if wired.acceptance.length < LEAST_ACCEPTANCE:
        progress.print(
            f"draftwire: expected an acceptance length of {LEAST_ACCEPTANCE} and more, found "
            f"{wired.acceptance.length:.2f} with the wired draft; it was not fed as trained"
        )
    if not same:
        progress.print("draftwire: expected the output of the run without a draft, found another with the wired draft")
    print(json.dumps(row), flush=True)
    return 0 if same and wired.acceptance.length >= LEAST_ACCEPTANCE else 1
