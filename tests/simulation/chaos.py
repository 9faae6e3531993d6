"""Everything at once, from seeds.

`python -m tests.simulation.chaos SEED [memory|sqlite]` replays one with its transcript;
`python -m tests.simulation.chaos --seeds N [--first K] [--jobs J] [--store memory|sqlite]` runs many and sums up."""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any

from fate_flow.core.model.approval import ApprovalRule
from fate_flow.jobspec.parameters import Change
from tests.kit.job_documents import job
from tests.kit.task_needs import with_needs
from tests.simulation.parsing import parsed_once
from tests.simulation.policies import restart, some_ceilings, some_policies
from tests.simulation.troubles import (
    TROUBLES,
    Trouble,
    clock_step,
    dead_route,
    death,
    long_partition,
    long_stall,
    stall,
    unheard_start,
)
from tests.simulation.world.faults import CALM, rough
from tests.simulation.world.releases import coordinators
from tests.simulation.world.world import RULES, Violation, World

BOUND = 180.0
"""Virtual seconds after the last fault in which everything settles, by the rules in `world.RULES`."""

LONG_TASK = 90_000
"""Milliseconds: while such a task runs, leases and the patience of parties may run out."""

GRAPHS: tuple[dict[str, list[str]], ...] = (
    {"a": []},
    {"a": [], "b": ["a"]},
    {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]},
)

_FREQUENT = (*GRAPHS, *GRAPHS[:2])
"""Small stories: they are told faster, so that more are, and what breaks a rule mostly needs no more than these."""


def run_seed(seed: int, store: str = "memory") -> World:
    """Parties, jobs, faults and requests drawn from the seed. Raises Violation when a rule is broken."""
    return Story(seed, store).run()


@dataclass(frozen=True)
class Style:
    """What the world of a seed is like."""

    parties: int
    cores: int
    servers: int                 # of each party, on one database
    has_memory: bool
    is_crowded: bool             # more jobs than there is capacity for, all at once
    is_gentle: bool              # the network is good while jobs are submitted: few get in while it is at its worst
    rate: float                  # of what goes wrong with a request or a reply
    delay: int
    has_echoes: bool             # requests and replies that come again in every reservation round
    crash: float
    broken: float                # of the workers
    trouble: float               # how often one of `troubles` comes after a submit
    troubles: tuple[Trouble, ...]
    longest_task: int
    longest_stop: int
    reruns: float                # how often a user has a job begin again
    policies: float              # how many jobs have rules for what may happen
    partial: float               # how many jobs say how many hosts are enough
    command_keep: int            # milliseconds until a command that nobody answers is dropped
    programs: float = 0.5        # how many jobs have tasks that are programs of the user's own
    elastic: float = 0.4         # how many of those have workers that come and go
    needs: float = 0.0           # how many jobs have tasks that state resources of their own
    gpus: float = 0.0            # how many jobs ask for GPUs, which each party has two of, on an engine of their own


REPLICAS: tuple[Mapping[str, Any], ...] = (
    {}, {"replicas": 2}, {"replicas": 3, "size": 2}, {"replicas": 2, "max_failed_workers": 2},
)  # fmt: skip

ELASTIC: tuple[Mapping[str, Any], ...] = (
    {"replicas": 3, "min_replicas": 1, "max_failed_workers": 1}, {"replicas": 3, "size": 1, "min_replicas": 1},
    {"replicas": 4, "min_replicas": 2, "max_failed_workers": 2}, {"replicas": 4, "size": 2, "min_replicas": 3},
)  # fmt: skip


def style_of(draw: Random) -> Style:
    is_crowded = draw.random() < 0.04
    servers = draw.choice([1, 1, 1, 2])
    troubles = draw.choice([TROUBLES, TROUBLES, TROUBLES, (clock_step,), (death, clock_step), (unheard_start, death)])
    longest_task = 400 if is_crowded else draw.choice([50, 400, 8_000, LONG_TASK])
    if longest_task == LONG_TASK:
        troubles = draw.choice([TROUBLES, (long_partition,), (long_partition, clock_step, death)])
    return Style(
        parties=draw.choice([3, 4, 5] if is_crowded else [2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 5, 7]),
        cores=2 if is_crowded else draw.randint(2, 6),
        servers=servers,
        has_memory=draw.random() < 0.5,
        is_crowded=is_crowded,
        is_gentle=draw.random() < 0.6,
        rate=draw.choice([0.0, 0.04, 0.08]),
        delay=draw.choice([5, 50, 200]),
        has_echoes=is_crowded and draw.random() < 0.5,
        crash=draw.choice([0.0, 0.01, 0.04]),
        broken=draw.choice([0.0, 0.0, 0.05, 0.3]),
        trouble=draw.choice([0.0, 0.5, 0.9]),
        troubles=troubles + ((stall,) * 5 if servers > 1 else ()),      # two servers are there to take over
        longest_task=longest_task,
        longest_stop=draw.choice([50, 50, 50, 20_000]),
        reruns=draw.choice([0.0, 0.3, 0.8]),
        command_keep=draw.choice([45_000, RULES.command_keep, RULES.command_keep]),
        policies=draw.choice([0.0, 0.0, 0.5, 1.0]),
        partial=draw.choice([0.0, 0.0, 0.5, 1.0]),
    )


def _stalled(draw: Random, style: Style) -> Style:
    """Now and then, where tasks last that long, a party stands still until the others have given it up."""
    if style.longest_task < LONG_TASK or draw.random() < 0.7:
        return style
    return replace(style, troubles=(*style.troubles, long_stall, long_stall))


def _with_dead_routes(draw: Random, style: Style) -> Style:
    """Now and then, where tasks last that long, ways lead nowhere; else nothing is wrong with the parties."""
    if style.longest_task < LONG_TASK or draw.random() < 0.6:
        return style
    return replace(style, troubles=(dead_route,), trouble=0.9, crash=draw.choice([0.0, 0.0, style.crash]))


class Story:
    """One seed: what the world is like and what happens in it; `fixed` is not left to the seed."""

    def __init__(self, seed: int, store: str, keeps_record: bool = True, **fixed: Any) -> None:
        self._draw = Random(f"story {seed}")
        self._rerun_draw = Random(f"rerun {seed}")      # what users ask for later moves nothing of the story itself
        self._delay_draw = Random(f"delay {seed}")
        self._change_draw = Random(f"change {seed}")
        self._changes = fixed.pop("changes", self._change_draw.choice([0.0, 0.5]))
        self._queue_draw = Random(f"queue {seed}")      # nor does what they do to the queue
        self._holds = fixed.pop("holds", self._queue_draw.choice([0.0, 0.0, 0.5]))
        self._command_draw = Random(f"command {seed}")  # the same of what is a program of the user's own
        self._elastic_draw = Random(f"elastic {seed}")
        self._policy_draw = Random(f"policy {seed}")
        self._limit_draw = Random(f"limit {seed}")
        self._approvals = fixed.pop("approvals", 0.25)
        self._gpu_draw = Random(f"gpu {seed}")
        self._need_draw = Random(f"need {seed}")
        self._return_draw = Random(f"return {seed}")
        self._reserves_early = fixed.pop("reserves_early", Random(f"early {seed}").random() < 0.6)
        self._returns = fixed.pop("returns", self._return_draw.choice([0.0, 0.0, 0.7]))     # of jobs that ask for it
        style = _stalled(Random(f"stall {seed}"), style_of(self._draw))
        style = self._style = replace(_with_dead_routes(Random(f"route {seed}"), style), **fixed)
        self._faults = rough(style.rate, style.delay, style.crash, style.broken)
        if style.has_echoes:
            self._faults = replace(self._faults, repeat_request=0.4, repeat_reply=0.4, delay=400)
        self.world = World(
            seed, parties=style.parties, cores=style.cores, faults=self._faults, store=store,
            rules=replace(RULES, command_keep=style.command_keep), memory=4_000 if style.has_memory else 0,
            servers=style.servers, ceilings_at=some_ceilings(Random(f"ceilings {seed}")),
            approval=self._approval(style.parties), gpus=2 if style.gpus else 0, keeps_record=keeps_record,
        )  # fmt: skip
        self.world.longest_task, self.world.longest_stop = style.longest_task, style.longest_stop
        self.settled = 0.0

    def _approval(self, parties: int) -> ApprovalRule:
        """In some worlds all parties want to approve what comes from most others."""
        draw, is_asked = self._queue_draw, self._queue_draw.random() < self._approvals
        spared = [str(9999 + number) for number in range(parties) if draw.random() < 0.3]
        return ApprovalRule(is_asked, frozenset(spared))

    def run(self) -> World:
        with parsed_once(), coordinators(reserve_early=self._reserves_early):
            self._happen()
            self.settled = self.world.stabilize(BOUND)
        return self.world

    def _happen(self) -> None:
        world, draw, style = self.world, self._draw, self._style
        for _ in range(draw.randint(6, 10) if style.is_crowded else draw.choice([1, 1, 1, 2, 2, 3])):
            world.faults = CALM if style.is_gentle else self._faults
            self._submit()
            world.run_for(0.2 if style.is_gentle else 0.0)
            world.faults = self._faults
            world.run_for(0.0 if style.is_crowded else draw.choice([0.0, 0.1, 1.0, 2.5]))
            self._request()
            if draw.random() < style.trouble:
                draw.choice(style.troubles)(world, draw)
        if draw.random() < style.reruns:
            for _ in range(draw.randint(1, 2)):
                self._rerun_within(30_000)
        if draw.random() < 0.5:
            for party in world.parties.values():
                party.stays_shrunk = party.was_shrunk
        longest = 75 if style.longest_task == LONG_TASK else 10
        world.run_for(10 if style.is_crowded else draw.choice([0, 2, longest]))

    def _submit(self) -> None:
        world, draw = self.world, self._draw
        fewest = min(3, len(world.party_ids)) if self._style.is_crowded else 2
        parties = draw.sample(world.party_ids, draw.randint(fewest, len(world.party_ids)))
        cores = 2 if self._style.is_crowded else draw.randint(1, 2)
        hosts = parties if draw.random() < 0.15 else parties[1:]      # a party may hold two seats of a job
        parallelism = draw.choice([1, 1, 2]) if cores == 1 and hosts != parties else 1
        graph, retries = draw.choice(_FREQUENT), draw.choice([0, 1, 2])
        fewest, rules = self._fewest(hosts), self._rules(graph)
        limit = self._limit_draw.randint(2, 30) if self._limit_draw.random() < 0.1 else 0
        commands = self._commands(graph, retries, rules)
        if self._need_draw.random() < self._style.needs:
            parallelism = 2 if self._style.cores >= 2 * cores and hosts != parties else parallelism
            most = self._style.cores // (2 if hosts == parties else parallelism)
            queues = {"plain": 0, "rich": 2} if self._style.gpus else {}
            conf = with_needs(self._need_draw, graph, rules, most, self._style.has_memory, queues)
            rules = {**rules, "task_conf": conf}
        document = job(
            {"guest": parties[:1], "host": hosts}, graph, cores=cores, parallelism=parallelism, retries=retries,
            retry_delay=self._delay_draw.choice([1, 1, 3, 6]),
            memory=draw.choice([0, 900]) if self._style.has_memory else 0,
            priority=self._queue_draw.choice([0, 0, 0, -3, 1, 5]), commands=commands,
            fewest_hosts=fewest, timeout=limit, returns=self._waits_for_return(),
            gpus=self._gpus(hosts == parties, commands), **rules,
        )  # fmt: skip
        world.submit(parties[0], document)

    def _gpus(self, has_two_seats: bool, commands: Mapping[str, Mapping[str, Any]]) -> int:
        """How many GPUs each task of a job asks for at each party: so many that the workers of a program can share."""
        draw = self._gpu_draw
        if draw.random() >= self._style.gpus:
            return 0
        shared_by = {one.get("min_replicas") or one.get("replicas") or 1 for one in commands.values()}
        found = [gpus for gpus in ((1,) if has_two_seats else (1, 2)) if not any(gpus % one for one in shared_by)]
        return draw.choice(found or [0])

    def _waits_for_return(self) -> float | None:
        """For how many seconds a job waits for a party that it has lost; 0: for any time; None: not at all."""
        draw = self._return_draw
        if self._style.longest_task < LONG_TASK or draw.random() >= self._returns:
            return None
        return draw.choice([0, 0, 20, 60])

    def _commands(
        self, graph: Mapping[str, list[str]], retries: int, rules: Mapping[str, Any]
    ) -> dict[str, Mapping[str, Any]]:
        """Which tasks are programs, and of how many workers."""
        draw = self._command_draw
        if draw.random() >= self._style.programs:
            return {}
        once = {"replicas": 2, "fail_on_worker_restart": True}      # excludes whatever begins a task again
        replicas = [*REPLICAS, *([] if retries else [{"replicas": 2} if restart(rules) else once])]
        outputs = [{"name": "data", "path": "data.csv", "kind": "table"}]
        found = {name: {**draw.choice(replicas), "outputs": outputs} for name in graph if draw.random() < 0.6}
        for name in found:
            if self._elastic_draw.random() < self._style.elastic:
                found[name] = {**self._elastic_draw.choice(ELASTIC), "outputs": outputs}
        return found

    def _rules(self, graph: Mapping[str, list[str]]) -> dict[str, Any]:
        """The policies of a job and of one of its tasks."""
        draw = self._policy_draw
        if draw.random() >= self._style.policies:
            return {}
        own = some_policies(draw)
        name = draw.choice(list(graph))
        return {"policies": some_policies(draw), "task_conf": {name: {"policies": own}} if own else {}}

    def _fewest(self, hosts: list[str]) -> int:
        """How many hosts are enough for a job; 0: it does not say."""
        draw = self._policy_draw
        return draw.randint(1, len(hosts)) if hosts and draw.random() < self._style.partial else 0

    def _request(self) -> None:
        world, draw, style = self.world, self._draw, self._style
        if draw.random() < 0.2:
            at, job_id = draw.choice(world.party_ids), draw.choice(list(world.graphs))
            world.stop(at, job_id)
            if draw.random() < style.reruns:
                for _ in range(4):
                    self._rerun_within(15_000, job_id)
        if draw.random() < style.reruns:
            self._rerun_within(20_000)
        self._tend_queue()

    def _tend_queue(self) -> None:
        """What users do to jobs that wait, some time from now."""
        world, draw = self.world, self._queue_draw
        if draw.random() < 0.4:
            job_id, priority = draw.choice(list(world.graphs)), draw.randint(-5, 5)
            at = world.seats[job_id][0].party_id
            world.at(world.now + draw.randint(0, 3_000), lambda: world.set_priority(at, job_id, priority))
        if world.approval.required:
            job_id = draw.choice(list(world.graphs))
            for seat in world.seats[job_id]:
                decide = world.approve if draw.random() < 0.8 else world.reject
                world.at(world.now + draw.randint(0, 8_000), partial(decide, seat.party_id, job_id))
        if self._change_draw.random() < self._changes / 4:
            waiting = self._change_draw.choice(list(world.graphs))
            world.at(
                world.now + self._change_draw.randint(0, 3_000),
                lambda: self._change(world.seats[waiting][0].party_id, waiting),
            )
        if draw.random() < self._holds:
            job_id, held_at = draw.choice(list(world.graphs)), world.now + draw.randint(0, 1_500)
            initiator = world.seats[job_id][0].party_id
            world.at(held_at, lambda: world.hold(initiator, job_id))
            world.at(held_at + draw.randint(0, 30_000), lambda: world.release(initiator, job_id))
        if draw.random() < self._holds / 2:
            party_id, held_at = draw.choice(world.party_ids), world.now + draw.randint(0, 1_500)
            world.at(held_at, lambda: world.hold_intake(party_id))
            world.at(held_at + draw.randint(0, 30_000), lambda: world.release_intake(party_id))

    def _rerun_within(self, milliseconds: int, job_id: str = "") -> None:
        world = self.world
        world.under_way += 1
        world.at(world.now + self._rerun_draw.randint(0, milliseconds), lambda: self._rerun(job_id))

    def _rerun(self, job_id: str) -> None:
        """This job, else one of somebody, mostly one that is over by then."""
        world, draw = self.world, self._rerun_draw
        world.under_way -= 1
        job_id = job_id or self._some_job(draw)
        at = world.seats[job_id][0].party_id if draw.random() < 0.95 else draw.choice(world.party_ids)
        names = ["", "", "", *world.graphs[job_id]]
        component, force, resumes = draw.choice(names), draw.random() < 0.5, draw.random() < 0.1
        if self._change_draw.random() < self._changes:
            self._change(at, job_id)
        world.rerun(at, job_id, component, force, resumes)
        if draw.random() < 0.15:
            world.at(world.now + draw.randint(0, 300), lambda: world.stop(at, job_id))      # while parties are told

    def _change(self, at: str, job_id: str) -> None:
        """Other parameters for one of its components, and perhaps other cores, before it begins again or while it
        waits."""
        draw, name = self._change_draw, self._change_draw.choice(list(self.world.graphs[job_id]))
        cores = {"common": {"task_cores": draw.randint(1, 2)}} if draw.random() < 0.5 else {}
        self.world.change(at, job_id, Change(cores, {"common": {name: {"x": draw.randint(1, 1_000)}}}))

    def _some_job(self, draw: Random) -> str:
        world = self.world
        job_id = draw.choice(list(world.graphs))
        ended = sorted(            # in one order, whatever the store
            row.job_id
            for party in world.parties.values()
            for row in world.invariants.seen(party).jobs.values()
            if row.is_initiator and row.is_final
        )
        return draw.choice(ended) if ended and draw.random() < 0.9 else job_id


@dataclass
class Totals:
    """What many seeds came to."""

    seeds: int = 0
    steps: int = 0
    slowest: float = 0.0                                     # virtual seconds to settle
    faults: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    reruns: int = 0
    not_allowed: int = 0                                     # jobs that asked a party for more than it allows
    requests: Counter[str] = field(default_factory=Counter)
    acted: Counter[str] = field(default_factory=Counter)     # what rules of jobs did
    hints: Counter[str] = field(default_factory=Counter)     # that a party has capacity
    violations: list[tuple[int, str]] = field(default_factory=list)

    def add(self, other: Totals) -> None:
        self.seeds += other.seeds
        self.steps += other.steps
        self.slowest = max(self.slowest, other.slowest)
        self.faults += other.faults
        self.ends += other.ends
        self.reruns += other.reruns
        self.not_allowed += other.not_allowed
        self.requests += other.requests
        self.acted += other.acted
        self.hints += other.hints
        self.violations += other.violations

    def text(self) -> str:
        lines = [
            f"{self.seeds} seeds, {self.steps} steps, {sum(self.faults.values())} faults, "
            f"{sum(self.ends.values())} jobs, {self.reruns} reruns, {self.not_allowed} not allowed, "
            f"{len(self.violations)} violations; "
            f"settled within {self.slowest:.0f} virtual seconds",
            "faults: " + ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items())),
            "requests: " + ", ".join(f"{kind} {count}" for kind, count in sorted(self.requests.items())),
            "rules: " + ", ".join(f"{what} {count}" for what, count in sorted(self.acted.items())),
            "jobs: " + ", ".join(f"{end} {count}" for end, count in sorted(self.ends.items())),
            "capacity notices: " + ", ".join(f"{what} {count}" for what, count in sorted(self.hints.items())),
        ]
        return "\n".join(lines + [f"VIOLATION, seed {seed}: {what}" for seed, what in self.violations])


def tell(seed: int, store: str) -> Totals:
    """The totals of one seed."""
    with no_gc():
        return _formatted(seed, store)


def _formatted(seed: int, store: str) -> Totals:
    story = Story(seed, store)
    violations = []
    try:
        story.run()
    except Violation as error:
        violations.append((seed, error.message))
    world = story.world
    return Totals(
        1, world.steps, story.settled, world.injected, world.ends(), world.reruns, len(world.not_allowed),
        world.requests,
        world.acted, world.hints, violations,
    )  # fmt: skip


@contextmanager
def no_gc() -> Iterator[None]:
    """A story is over before what it leaves behind is worth looking for, which takes a tenth of its time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def processes() -> int:
    """How many a test takes: one where other processes of tests have the other processors."""
    return 1 if "PYTEST_XDIST_WORKER" in os.environ else min(4, os.cpu_count() or 1)


def run_seeds(seeds: Iterable[int], store: str, jobs: int) -> Totals:
    """Many seeds over some processes; nothing stops at a violation."""
    totals = Totals()
    for one in _each(seeds, store, jobs):
        totals.add(one)
    return totals


def _each(seeds: Iterable[int], store: str, jobs: int) -> Iterator[Totals]:
    act = partial(tell, store=store)
    if jobs == 1:
        yield from map(act, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(act, seeds, chunksize=8)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.chaos", description=__doc__)
    parser.add_argument("seed", nargs="?", type=int, help="replay this one with its transcript")
    parser.add_argument("kind", nargs="?", choices=["memory", "sqlite"], default="memory", help="the store of a replay")
    parser.add_argument("--seeds", type=int, help="run so many")
    parser.add_argument("--first", type=int, default=0, help="beginning with this one (0)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--store", choices=["memory", "sqlite"], default="memory")
    options = parser.parse_args()
    if (options.seed is None) == (options.seeds is None):
        parser.error("either SEED or --seeds N")
    if options.seeds is None:
        return _replay(options.seed, options.kind)
    began = time.monotonic()
    totals = run_seeds(range(options.first, options.first + options.seeds), options.store, options.jobs)
    print(totals.text())
    print(f"{time.monotonic() - began:.1f} s on {options.jobs} processes, store {options.store}")
    return 1 if totals.violations else 0


def _replay(seed: int, store: str) -> int:
    began = time.monotonic()
    story = Story(seed, store)
    problem = ""
    try:
        story.run()
    except Violation as error:
        problem = error.message
    world = story.world
    print("\n".join(world.transcript))
    print(f"seed {seed}: {world.steps} steps, {sum(world.injected.values())} faults, {time.monotonic() - began:.1f} s")
    print(f"VIOLATION: {problem}" if problem else f"settled within {story.settled:.0f} virtual seconds")
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
