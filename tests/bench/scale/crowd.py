"""Many parties of the simulation whose users submit jobs all day, on virtual time.

Use cases, schedulers, planning and store are the real ones; every party has an SQLite of its own in memory. Workers are
fake, and processors and disks take no virtual time: what a job waits for is the network, cores and the rules.
"""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fate_flow.core.model.job import Command
from fate_flow.services.context.ports import LaunchOrder, Rules
from fate_flow.store.values import Document
from tests.kit.job_documents import job
from tests.simulation.chaos import no_gc
from tests.simulation.world.party import SimParty
from tests.simulation.world.process import Process
from tests.simulation.world.world import World

DAY = 86_400
TASKS = (1, 2, 2, 3)                    # of a job, one after the other
HOSTS = (1, 1, 1, 2)                    # beside the guest
CORES = (1, 1, 2, 4)                    # that a task takes at each party
_SPREAD = 1.0                           # of the logarithm of the length of a task
_FORGET = 60_000                         # milliseconds between two looks for workers that ended long ago


@dataclass(frozen=True)
class Load:
    """What the users of all parties do."""

    parties: int = 50
    jobs_a_day: int = 10_000            # that each of them submits
    task_seconds: float = 40.0          # the median
    used: float = 0.7                   # of the cores of a party, on average
    round_trip: int = 30                # milliseconds, between any two parties

    @property
    def jobs_a_second(self) -> float:
        return self.parties * self.jobs_a_day / DAY

    @property
    def cores(self) -> int:
        """Of a party, so that the share `used` of them is busy."""
        seats = self.jobs_a_second * (1 + _mean(HOSTS)) / self.parties
        mean_seconds = self.task_seconds * 2.718281828 ** (_SPREAD**2 / 2)
        busy = seats * _mean(TASKS) * mean_seconds * _mean(CORES)
        return max(max(CORES), round(busy / self.used))


def _mean(values: Sequence[int]) -> float:
    return sum(values) / len(values)


@dataclass
class Counts:
    """What happened while it was measured."""

    commands: Counter[str] = field(default_factory=Counter)          # by kind, between parties
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)      # by who asks whom
    statements: Counter[str] = field(default_factory=Counter)        # by their first word
    transactions: int = 0
    seconds: Counter[tuple[str, str]] = field(default_factory=Counter)       # of the processor, by process and party
    launched: int = 0


class Crowd(World):
    """The world of these parties. Its invariants are not checked: they take longer than all that is measured."""

    def __init__(self, load: Load, seed: int = 1, *, is_checked: bool = False, store: str = "sqlite") -> None:
        self.load = load
        self.counts = Counts()
        self._lengths: dict[tuple[str, str], int] = {}
        super().__init__(
            seed, load.parties, load.cores, store=store, rules=Rules(), keeps_record=False
        )
        self.is_checked = is_checked
        if not is_checked:
            self.invariants = _Unchecked()
        for party in self.parties.values():
            _count_statements(party, self.counts)
            for server in party.servers:
                for kind, process in (("http", server.http), ("scheduler", server.scheduling)):
                    _time(process, kind, party.party_id, self)
        self._arrivals = random.Random(f"arrivals {seed}")

    def reset(self) -> None:
        """Count from now on."""
        for one in vars(self.counts).values():
            if isinstance(one, Counter):
                one.clear()
        self.counts.transactions = self.counts.launched = 0

    # ------------------------------------------------------------------ the world

    def later(self) -> int:
        return self.now + self.load.round_trip // 2

    def note(self, text: str) -> None:
        """Nothing: the transcript of a day is long."""

    def asked(self, one: str, other: str) -> None:
        super().asked(one, other)
        self.counts.requests[one, other] += 1

    def as_sent(self, sender: str, to: str, command: Command) -> Command:
        self.counts.commands[command.kind.value] += 1
        return super().as_sent(sender, to, command)

    def length_of(self, order: LaunchOrder) -> int:
        """Milliseconds that a task takes; all its parties work on it together."""
        key = order.worker.task
        self.counts.launched += 1
        if (key.job_id, key.name) not in self._lengths:
            draw = random.Random(f"{self.seed} {key.job_id} {key.name}")
            seconds = self.load.task_seconds * draw.lognormvariate(0, _SPREAD)
            self._lengths[key.job_id, key.name] = max(50, int(1000 * seconds))
        return self._lengths[key.job_id, key.name]

    # ------------------------------------------------------------------ its users

    def arrive(self, until: int) -> None:
        """Submit jobs at random moments (Poisson), from now until then."""
        pause = self._arrivals.expovariate(self.load.jobs_a_second) * 1000
        when = self.now + max(1, round(pause))
        if when < until:
            self.at(when, partial(self._one_arrives, until))

    def _one_arrives(self, until: int) -> None:
        self.submit_one(self._document())
        self.arrive(until)

    def forget_workers(self) -> None:
        """Forget workers that ended long ago, now and from time to time."""
        for party in self.parties.values():
            old = [name for name, one in party.engine.workers.items() if one.ends_at < self.now - _FORGET]
            for name in old:
                del party.engine.workers[name]
        self.at(self.now + _FORGET, self.forget_workers)

    def submit_one(self, document: Document) -> str:
        job_id = self._new_job(document)
        self._submit(self.seats[job_id][0].party_id, job_id, job_id, document)
        return job_id

    def _document(self) -> Document:
        draw = self._arrivals
        count = draw.choice(HOSTS)
        guest, *hosts = draw.sample(self.party_ids, 1 + count)
        names = [f"task_{number}" for number in range(draw.choice(TASKS))]
        graph = {name: names[place - 1 : place] for place, name in enumerate(names)}
        return job({"guest": [guest], "host": hosts}, graph, cores=draw.choice(CORES))

    # ------------------------------------------------------------------ what is seen

    def rows(self, sql: str, *values: object) -> Iterator[tuple[str, Any]]:
        """What each party answers, by its id."""
        for party_id, party in self.parties.items():
            for row in party.books.database.connection().execute(sql, values):
                yield party_id, row

    def database_of(self, party_id: str) -> bytes:
        """The bytes of the database file of a party."""
        found: bytes = self.parties[party_id].books.database.connection().serialize()
        return found


@contextmanager
def crowd_of(load: Load, *, is_checked: bool = False, store: str = "sqlite") -> Iterator[Crowd]:
    """A crowd. A world takes the log of the package for itself; at the end of the block the log is as it was."""
    logger = logging.getLogger("fate_flow")
    handlers, propagates = logger.handlers[:], logger.propagate
    try:
        with no_gc():
            yield Crowd(load, is_checked=is_checked, store=store)
    finally:
        logger.handlers[:] = handlers
        logger.propagate = propagates


class _Unchecked:
    """Rules that nobody checks."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *args: object, **kwargs: object) -> None: ...

    @contextmanager
    def touches_only_what_it_means(self, *args: object) -> Iterator[None]:
        yield


def _count_statements(party: SimParty, counts: Counts) -> None:
    if not hasattr(party.books, "database"):
        return
    database = party.books.database
    execute = database.execute_sql

    def execute_sql(sql: str, *args: Any) -> Any:
        counts.statements[sql[: sql.find(" ")]] += 1
        return execute(sql, *args)

    database.execute_sql = execute_sql


def _time(process: Process, kind: str, party_id: str, crowd: Crowd) -> None:
    """Count the processor time of a process of a party."""
    run = process.run

    def timed(act: Callable[[], Any]) -> Any:
        begun = time.process_time()
        try:
            return run(act)
        finally:
            crowd.counts.seconds[kind, party_id] += time.process_time() - begun

    process.run = timed     # type: ignore[method-assign]
