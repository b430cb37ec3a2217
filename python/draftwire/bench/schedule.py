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
from draftwire.bench.stages import Stages
from draftwire.bench.warmup import Pass, probe, warm
from draftwire.server import Server

SET = "requests.jsonl"
GUESSES = {"start": 40.0, "warm": 5.0, "probe": 15.0, "run": 15.0}


class Plan(NamedTuple):
    """`loads`: to measure in every visit of an arm. `fixed`: once an arm, or none. `rounds`: runs of each load a visit.

    `timeout`: seconds that any stage may last. `port`: 0 takes a free one for each server.
    """

    arms: Sequence[Arm]
    loads: Sequence[Load]
    fixed: Sequence[Load]
    rounds: int
    timeout: float
    port: int = 0

    def visits(self) -> Iterator[tuple[Arm, bool, int]]:
        """Arm, whether it is its first server, visits by that server: A B C C B A with five servers."""
        *others, last = self.arms
        yield from ((arm, True, 1) for arm in others)
        yield last, True, 2
        yield from ((arm, False, 1) for arm in reversed(others))

    def stages(self) -> Iterator[tuple[str, str]]:
        """Kind and text of every stage."""
        for arm, first, times in self.visits():
            yield "start", f"{arm.label}: starting SGLang"
            yield "warm", f"{arm.label}: warming up"
            if first:
                yield from (("probe", f"{arm.label}: {_say(load)}, untimed") for load in self.loads)
            for _ in range(times * self.rounds):
                yield from (("run", f"{arm.label}: {_say(load)}") for load in self.loads)
            if first:
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


def measure(plan: Plan, deployment: Deployment, prompts: list[Any], folder: Path, console: Console) -> list[Measured]:
    """Every arm of the plan, in the plan's order. Raises ServerError or BenchError, one line, and leaves no process."""
    stages = Stages(list(plan.stages()), GUESSES, console)
    measured = {arm.label: Measured(arm) for arm in plan.arms}
    with Client(folder, deployment.tokenizer, deployment.target) as client:
        texts: list[str] = []
        for number, (arm, first, times) in enumerate(plan.visits(), 1):
            log = folder / f"server-{number}.log"
            flags = ["--config", str(arm.write(folder))]
            with Server(flags, log, env=deployment.environment(), port=plan.port or None) as server:
                with stages.next():
                    server.wait_ready(plan.timeout, stages.tick)
                    texts = texts or client.render(prompts, SET, plan.timeout)
                Visit(plan, server, client, texts, stages, measured[arm.label]).run(first, times)
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

    def run(self, first: bool, times: int) -> None:
        plan, tick = self.plan, self.stages.tick
        with self.stages.next():
            warm(self.server, self.texts, max(load.concurrency for load in plan.loads), plan.timeout, tick)
        if first:
            self.arm.info = _say_of(self.server)
            for load in plan.loads:
                with self.stages.next():
                    self.arm.passes[load] = probe(self.server, self.texts, load, plan.timeout, tick)
        for _ in range(times * plan.rounds):
            for load in plan.loads:
                self._time(load)
        if first:
            for load, fixed in zip(plan.loads, plan.fixed, strict=bool(plan.fixed)):
                self._time(fixed, self.arm.passes[load])

    def _time(self, load: Load, seen: Pass | None = None) -> None:
        with self.stages.next():
            run = self.client.measure(self.server, load, SET, self.plan.timeout, self.stages.tick)
            if seen is not None:
                # Where no answer of the load that ends with a sequence was short, both are the same requests.
                same = all(len(output) == load.tokens for output in seen.outputs)
                tick = self.stages.tick
                other = seen if same else probe(self.server, self.texts, load, self.plan.timeout, tick)
                self.arm.passes[load] = other
        self.arm.runs.setdefault(load, []).append(run)
