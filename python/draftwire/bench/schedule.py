"""The order of a benchmark: baseline, speculative, speculative, baseline, so that a drift hits both alike."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from draftwire.bench.client import Client, Load, Run
from draftwire.bench.deployment import Arm, Deployment
from draftwire.bench.ratios import refuse_early
from draftwire.bench.stages import GUESSES, Stages
from draftwire.bench.warmup import Pass, probe, warm
from draftwire.server import Server

SET = "requests.jsonl"


class Plan(NamedTuple):
    """`loads`: to measure in every visit of an arm. `fixed`: once an arm, in its second visit, or none. `rounds`: runs
    of each load a visit. `batches`: further loads of the baseline alone.

    `timeout`: seconds that any stage may last. `port`: 0 takes a free one for each server. For the time left: `later`,
    kinds of stages that follow on this plan; `seconds`, what each kind lasts, brought up to date as they end.
    """

    arms: Sequence[Arm]
    loads: Sequence[Load]
    fixed: Sequence[Load]
    rounds: int
    timeout: float
    port: int = 0
    batches: Sequence[Load] = ()
    later: Sequence[str] = ()
    seconds: dict[str, float] | None = None

    def visits(self) -> Iterator[tuple[Arm, bool]]:
        """Arm, and whether it is its first visit: A B C C B A. Each is a server of its own, since the same command
        started twice is not the same server to the percent.
        """
        yield from ((arm, True) for arm in self.arms)
        yield from ((arm, False) for arm in reversed(self.arms))

    def of(self, arm: Arm) -> list[Load]:
        """What is measured of an arm in each visit."""
        return [*self.loads, *(self.batches if arm.name == "baseline" else ())]

    def stages(self) -> Iterator[tuple[str, str]]:
        """Kind and text of every stage."""
        for arm, first in self.visits():
            yield "start", f"{arm.label}: starting SGLang"
            yield "warm", f"{arm.label}: warming up"
            if first:
                yield from (("probe", f"{arm.label}: {_say(load)}, untimed") for load in self.of(arm))
            for _ in range(self.rounds):
                yield from (("run", f"{arm.label}: {_say(load)}") for load in self.of(arm))
            if not first:
                yield from (("run", f"{arm.label}: {_say(load)}, length fixed") for load in self.fixed)


def _say(load: Load) -> str:
    return f"{load.requests} requests, {load.concurrency} at once"


@dataclass
class Measured:
    """What an arm has brought. `info`: what its server says of itself."""

    arm: Arm
    info: dict[str, Any] = field(default_factory=dict)
    runs: dict[Load, list[Run]] = field(default_factory=dict)
    passes: dict[Load, Pass] = field(default_factory=dict)

    def is_cut(self, loads: Sequence[Load]) -> bool:
        """Whether none of its answers ended by itself."""
        return all(len(output) == load.tokens for load in loads for output in self.passes[load].outputs)


def measure(plan: Plan, deployment: Deployment, prompts: list[Any], folder: Path, console: Console) -> list[Measured]:
    """Every arm of the plan, in the plan's order. Raises ServerError or BenchError, one line, and leaves no process;
    RatioRefused as soon as an arm has failed requests or outputs that loop.
    """
    stages = Stages(list(plan.stages()), plan.seconds or dict(GUESSES), console, plan.later)
    measured = {arm.label: Measured(arm) for arm in plan.arms}
    with Client(folder, deployment.tokenizer, deployment.target) as client:
        # What needs a tokenizer is refused before a server is started; the rest is written while the first one starts.
        plain = all(isinstance(prompt, str) for prompt in prompts)
        texts = [] if plain else client.render(prompts, SET, plan.timeout)
        for number, (arm, first) in enumerate(plan.visits(), 1):
            log = folder / f"server-{number}.log"
            flags = ["--config", str(arm.write(folder)), *deployment.beside]
            with Server(flags, log, env=deployment.environment(), port=plan.port or None) as server:
                with stages.next():
                    server.wait_ready(plan.timeout, stages.tick)
                    texts = texts or client.render(prompts, SET, plan.timeout)
                same = not first and all(one.is_cut(plan.loads) for one in measured.values())
                Visit(plan, server, client, texts, stages, measured[arm.label]).run(first, same)
            for load in plan.loads:
                refuse_early(list(measured.values()), load)
    return list(measured.values())


def _say_of(server: Server) -> dict[str, Any]:
    """What upstream's /server_info says, and in it the first scheduler of itself."""
    info = json.loads(server.get("/server_info"))
    return info | (info.get("internal_states") or [{}])[0]


class Visit(NamedTuple):
    """One server of an arm, from warm-up to its last run."""

    plan: Plan
    server: Server
    client: Client
    texts: list[str]
    stages: Stages
    arm: Measured

    def run(self, first: bool, same: bool) -> None:
        """`same`: that every answer of every arm was cut at the most tokens, so that fixed length asks for the same."""
        plan, tick, loads = self.plan, self.stages.tick, self.plan.of(self.arm.arm)
        with self.stages.next():
            warm(self.server, self.texts, max(load.concurrency for load in loads), plan.timeout, tick)
        if first:
            self.arm.info = _say_of(self.server)
            for load in loads:
                with self.stages.next():
                    self.arm.passes[load] = probe(self.server, self.texts, load, plan.timeout, tick)
        for load in loads * plan.rounds:
            with self.stages.next():
                self._time(load)
        for load in () if first else plan.fixed:
            if same:
                self.stages.skip()
                continue
            with self.stages.next():
                self._time(load)
                self.arm.passes[load] = probe(self.server, self.texts, load, plan.timeout, tick)

    def _time(self, load: Load) -> None:
        run = self.client.measure(self.server, load, SET, self.plan.timeout, self.stages.tick)
        self.arm.runs.setdefault(load, []).append(run)
