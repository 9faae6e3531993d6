"""N parties in one process: the real use cases and schedulers over a store of choice, a fake engine, a faulty network.

Everything random comes from one seed and time is virtual, so a seed replays exactly. After every event the world
checks what may never happen; `stabilize()` ends the faults and demands that everything settles.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import random
import tempfile
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fate_flow.coordinator.desk import Desk
from fate_flow.coordinator.ports import Context, LaunchOrder, Made, Rules, Sight
from fate_flow.coordinator.scheduler import (
    Answered,
    HeartbeatAnswered,
    JobChanged,
    OutboxFilled,
    PartySilent,
    QueueChanged,
    Scheduler,
    WorkerChanged,
)
from fate_flow.coordinator.unit import unit_of_work
from fate_flow.core.errors import FlowError
from fate_flow.core.job import UNREACHABLE, Answer, Command, EngineState, JobKey, TaskKey, Worker
from fate_flow.core.resources import EngineSize
from fate_flow.core.spec import JobParameters
from fate_flow.core.status import JOB_END, TASK_END, JobStatus, TaskStatus
from fate_flow.federation.lanes import MAY_FAIL
from fate_flow.store.contract import Document, TableMeta
from fate_flow.store.database import open_database
from fate_flow.store.memory import MemoryStore
from fate_flow.store.migrations import upgrade
from fate_flow.store.models import MODELS
from fate_flow.store.sql import SqlStore

START = 1_700_000_000_000
ROLES = frozenset({"guest", "host", "arbiter", "local"})


class Crash(BaseException):
    """The process of a party dies here."""


@dataclass(frozen=True)
class Faults:
    """Probabilities of what may go wrong with each thing that happens."""

    lose_request: float = 0.0
    lose_reply: float = 0.0
    repeat: float = 0.0          # a copy of the request arrives later, out of order
    delay: int = 5               # milliseconds at most, ten times that now and then
    crash: float = 0.0           # at each commit
    fail_task: float = 0.0
    kill_worker: float = 0.0


CALM = Faults()
ROUGH = Faults(0.05, 0.05, 0.05, 200, 0.01, 0.03, 0.01)


@dataclass(frozen=True)
class Module:
    """A component of the simulation: anything goes."""

    roles: frozenset[str] = ROLES
    default_task_cores: int | None = None

    def check(self, parameters: Mapping[str, object], role: str) -> list[str]:
        return []


@dataclass
class FakeWorker:
    order: LaunchOrder
    started_at: int
    ends_at: int
    succeeds: bool
    killed: bool = False
    stopped: bool = False


class FakeEngine:
    """Workers outlive the server, as the real ones do."""

    def __init__(self, world: World, party_id: str) -> None:
        self._world = world
        self._party_id = party_id
        self.workers: dict[str, FakeWorker] = {}
        self.never: set[str] = set()

    def folder_for(self, key: TaskKey, worker_id: str) -> str:
        return f"/{self._party_id}/{key.task_id}/{key.version}/{worker_id}"

    def launch(self, order: LaunchOrder) -> None:
        folder = order.worker.folder
        if folder in self.workers or folder in self.never:
            return
        world = self._world
        world.check_may_run(self._party_id, order)
        begin = world.now + world.random.randint(1, 30)
        end = begin + world.random.randint(1, 400)
        faults = world.faults
        worker = FakeWorker(order, begin, end, world.random.random() >= faults.fail_task)
        worker.killed = world.random.random() < faults.kill_worker
        self.workers[folder] = worker
        for at in (begin, end):
            world.at(at, lambda: world.wake(self._party_id, WorkerChanged(order.worker.worker_id)))

    def look(self, worker: Worker) -> Sight:
        found = self.workers.get(worker.folder)
        now = self._world.now
        if worker.folder in self.never:
            return Sight("exited", cause="stopped")
        if found is None or now < found.started_at:
            return Sight("created")
        if now < found.ends_at:
            return Sight("running", 1, 1)
        if found.stopped:
            return Sight("exited", 1, 1, "stopped", None, 15)
        if found.killed:
            return Sight("exited", 1, 1, "exited", None, 9)
        if not found.succeeds:
            return Sight("exited", 1, 1, "exited", 1, None, False, "it went wrong")
        key = worker.task
        table = TableMeta("out", f"{key.task_id}_{key.version}", "standalone:///x", 1, {}, origin="output")
        return Sight("exited", 1, 1, "exited", 0, None, True, "", Made((("data", table),)))

    def stop(self, worker: Worker, grace_seconds: float) -> None:
        found = self.workers.get(worker.folder)
        if found is None:
            self.never.add(worker.folder)
        elif self._world.now < found.ends_at:
            found.stopped = True
            found.ends_at = max(self._world.now, found.started_at) + self._world.random.randint(1, 50)
        at = found.ends_at if found else self._world.now
        self._world.at(at, lambda: self._world.wake(self._party_id, WorkerChanged(worker.worker_id)))

    def living(self) -> list[FakeWorker]:
        return [one for one in self.workers.values() if one.started_at <= self._world.now < one.ends_at]


class _Errors(logging.Handler):
    """An error in a log is a broken rule: the use cases decide, they do not stumble."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []
        logger = logging.getLogger("fate_flow")
        logger.handlers[:] = [self]
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(self.format(record))


class Silent:
    """A record, an exchange and files that do nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **kwargs: None


@dataclass
class SimLane:
    """What `federation/lanes.py` promises, on virtual time: order, one request at a time, retries."""

    node: Node
    to: str
    queue: deque[Command] = field(default_factory=deque)
    busy: bool = False
    generation: int = 0
    silent_since: int | None = None

    def post(self, commands: list[Command]) -> None:
        self.queue.extend(commands)
        self.pump()

    def pump(self) -> None:
        if self.busy or not self.queue:
            return
        self.busy = True
        batch = [self.queue.popleft() for _ in range(min(64, len(self.queue)))]
        world, generation = self.node.world, self.generation
        world.at(world.later(), lambda: self._deliver(batch, generation))

    def _deliver(self, batch: list[Command], generation: int) -> None:
        world = self.node.world
        if world.chance(world.faults.repeat):
            world.note(f"repeat {self.node.party_id}->{self.to} {_words(batch)}")
            when = world.later() + world.random.randint(0, 3000)
            world.at(when, lambda: world.nodes[self.to].serve(batch, self.node.party_id))
        if world.chance(world.faults.lose_request) or not world.connected(self.node.party_id, self.to):
            world.at(world.now + 500, lambda: self._silence(batch, generation))
            return
        answers = world.nodes[self.to].serve(batch, self.node.party_id)
        is_lost = answers is None or world.chance(world.faults.lose_reply)
        if is_lost or not world.connected(self.to, self.node.party_id):
            world.at(world.now + 500, lambda: self._silence(batch, generation))
        else:
            world.at(world.later(), lambda: self._answered(batch, answers or [], generation))

    def _answered(self, batch: list[Command], answers: list[Answer], generation: int) -> None:
        if generation != self.generation:
            return
        self.busy, self.silent_since = False, None
        news = [Answered(command, answer) for command, answer in zip(batch, answers, strict=True)]
        self.node.world.wake(self.node.party_id, *news)
        self.pump()

    def _silence(self, batch: list[Command], generation: int) -> None:
        if generation != self.generation:
            return
        self.busy = False
        world = self.node.world
        if self.silent_since is None:
            self.silent_since = world.now
        self.queue.extendleft(reversed([one for one in batch if one.kind not in MAY_FAIL]))
        lost = [Answered(one, Answer(UNREACHABLE, "silence")) for one in batch if one.kind in MAY_FAIL]
        if lost:
            world.wake(self.node.party_id, *lost)
        silent = world.now - self.silent_since
        if silent > self.node.rules.party_silence:
            world.wake(self.node.party_id, PartySilent(self.to, silent / 1000))
        world.at(world.now + 300, self.pump)


class Node:
    """One party's server."""

    def __init__(self, world: World, party_id: str, cores: int, store: Any) -> None:
        self.world = world
        self.party_id = party_id
        self.rules = world.rules
        self.store = store
        self.engine = FakeEngine(world, party_id)
        self.lanes: dict[str, SimLane] = {}
        self.is_up = False
        self.lives = 0
        self.crash_in = -1
        self.context = self._context(cores)
        with store.transaction() as tx:
            tx.register_engine(EngineState("STANDALONE", cores, 0, cores, 0), {}, START)
        self.start()

    def _context(self, cores: int) -> Context:
        world = self.world
        silent: Any = Silent()
        return Context(
            party_id=self.party_id, url="http://sim", store=self._watched(), engine=self.engine, exchange=silent,
            files=silent, record=silent, modules={"Work": Module()}, outputs_of=lambda _: ("data",),
            engine_size=EngineSize(1, cores), defaults=JobParameters(task_cores=1), rules=self.rules,
            routes=frozenset(world.party_ids), clock=lambda: world.now,
            fresh_id=lambda: f"{world.random.getrandbits(128):032x}",
        )  # fmt: skip

    def _watched(self) -> Any:
        """The store, with a crash after the commit that was chosen for it."""
        node = self

        class Watched:
            def reading(self) -> Any:
                return node.store.reading()

            @contextmanager
            def transaction(self) -> Any:
                with node.store.transaction() as tx:
                    yield tx
                if node.crash_in >= 0:
                    node.crash_in -= 1
                    if node.crash_in < 0:
                        raise Crash
                elif node.world.chance(node.world.faults.crash):
                    raise Crash

        return Watched()

    def start(self) -> None:
        self.is_up = True
        self.lives += 1
        self.lanes = {}
        world = self.world
        owner = f"{self.party_id}-{self.lives}"
        self.scheduler = Scheduler(self.context, self, owner, f"{self.party_id}-", lambda: world.now / 1000)
        self.desk = Desk(self.context, self._ring, 8, 5.0)
        life = self.lives
        world.at(world.now + 1, lambda: self._poll(life))
        world.at(world.now + 3, lambda: self._beat(life))

    def crash(self) -> None:
        self.world.note(f"crash {self.party_id}")
        self.is_up = False
        for lane in self.lanes.values():
            lane.generation += 1
        self.world.at(self.world.now + self.world.random.randint(10, 5000), self._restart)

    def _restart(self) -> None:
        if not self.is_up:
            self.start()

    def alive(self, act: Callable[[], Any]) -> Any:
        """Do something in this server's process; None when it is down or dies of it."""
        if not self.is_up:
            return None
        try:
            return act()
        except Crash:
            self.crash()
            return None

    def _ring(self, jobs: Any, outbox: bool, queue: bool = False) -> None:
        news: list[Any] = [JobChanged(job_id) for job_id in jobs]
        if outbox:
            news.append(OutboxFilled())
        if queue:
            news.append(QueueChanged())
        self.world.at(self.world.now + 1, lambda: self.world.wake(self.party_id, *news))

    def _poll(self, life: int) -> None:
        if life == self.lives and self.is_up:
            self.alive(self._poll_once)
            self.world.at(self.world.now + self.rules.poll_interval, lambda: self._poll(life))

    def _poll_once(self) -> None:
        if self.scheduler.is_chosen():
            self.scheduler.poll()

    def _beat(self, life: int) -> None:
        if life == self.lives and self.is_up:
            self.alive(self.scheduler.beat)
            self.world.at(self.world.now + self.rules.heartbeat_interval, lambda: self._beat(life))

    def take(self, news: list[Any]) -> None:
        self.alive(lambda: self.scheduler.step(news) if self.scheduler.is_chosen() else None)

    def serve(self, batch: list[Command], caller: str) -> list[Answer] | None:
        return self.alive(lambda: self.desk.carry_out(batch, caller))

    # the transport of its scheduler

    def post(self, commands: tuple[Command, ...]) -> None:
        for command in commands:
            self._lane(command.to.party_id).post([command])

    def heartbeat(self, party_id: str, jobs: tuple[tuple[str, int], ...]) -> None:
        world, life = self.world, self.lives

        def deliver() -> None:
            if world.chance(world.faults.lose_request) or not world.connected(self.party_id, party_id):
                lane = self._lane(party_id)
                lane.silent_since = lane.silent_since or world.now
                if world.now - lane.silent_since > self.rules.party_silence:
                    world.wake(self.party_id, PartySilent(party_id, 1))
                return
            ended = world.nodes[party_id].alive(lambda: world.nodes[party_id].desk.heartbeat(self.party_id, jobs))
            if ended is not None and life == self.lives:
                self._lane(party_id).silent_since = None
                if ended:
                    world.wake(self.party_id, HeartbeatAnswered(party_id, ended))

        world.at(world.later(), deliver)

    def _lane(self, party_id: str) -> SimLane:
        return self.lanes.setdefault(party_id, SimLane(self, party_id))


class World:
    """All parties, the network between them, and the clock."""

    def __init__(
        self, seed: int, parties: int = 2, cores: int = 4, faults: Faults = CALM, store: str = "memory",
        rules: Rules | None = None,
    ) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.faults = faults
        self.rules = rules or Rules(
            hold=8_000, ready=15_000, party_silence=20_000, initiator_silence=30_000, drain=10_000, launch=20_000,
            retry_wait=1_000,
        )
        self.now = START
        self.transcript: list[str] = []
        self.submitted: list[str] = []
        self.steps = 0
        self._errors = _Errors()
        self._steps_a_check = 1 if store == "memory" else 8     # reading SQLite costs more than a step does
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._cut: set[tuple[str, str]] = set()
        self.party_ids = [str(9999 + number) for number in range(parties)]
        self.nodes: dict[str, Node] = {}
        for party_id in self.party_ids:
            self.nodes[party_id] = Node(self, party_id, cores, make_store(store))

    # ------------------------------------------------------------------ time

    def at(self, when: int, act: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (max(when, self.now), next(self._count), act))

    def later(self) -> int:
        delay = self.random.randint(1, max(1, self.faults.delay))
        return self.now + (delay * 10 if self.chance(0.02 if self.faults.delay > 10 else 0) else delay)

    def chance(self, probability: float) -> bool:
        return probability > 0 and self.random.random() < probability

    def note(self, text: str) -> None:
        self.transcript.append(f"{self.now - START:>8} {text}")

    def run_for(self, seconds: float) -> None:
        end = self.now + int(seconds * 1000)
        while self._queue and self._queue[0][0] <= end:
            when, _, act = heapq.heappop(self._queue)
            self.now = when
            act()
            self.steps += 1
            if self.steps % self._steps_a_check == 0:
                self.check()
        self.now = end

    def wake(self, party_id: str, *news: Any) -> None:
        if news:
            self.nodes[party_id].take(list(news))

    # ------------------------------------------------------------------ what users and faults do

    def submit(self, at: str, document: Document) -> str | None:
        """A submit without waiting for the others, as the handler leaves it; None when it was refused at once."""
        job_id = f"{20260101000000000000 + len(self.submitted):020d}0"
        node = self.nodes[at]

        def act() -> str:
            with unit_of_work(node.context) as unit:
                node.desk._initiator.submit(unit, job_id, document, job_id)
                node.desk._initiator.advance(unit, job_id)
            node._ring((job_id,), True)
            return job_id

        try:
            found = node.alive(act)
        except FlowError:
            return None
        self.submitted.append(job_id)
        self.note(f"submit {job_id} at {at}")
        return found

    def stop(self, at: str, job_id: str) -> None:
        def act() -> None:
            with suppress(FlowError):
                self.nodes[at].desk.stop(job_id)

        self.note(f"stop {job_id} at {at}")
        self.nodes[at].alive(act)

    def cut(self, one: str, other: str) -> None:
        """Nothing gets from one to the other any more; the other direction stays."""
        self.note(f"cut {one}->{other}")
        self._cut.add((one, other))

    def heal(self) -> None:
        self._cut.clear()

    def connected(self, one: str, other: str) -> bool:
        return (one, other) not in self._cut and self.nodes[other].is_up

    def stabilize(self, seconds: float = 300) -> None:
        """The faults stop; everything has to settle within a bound."""
        self.faults = CALM
        self.heal()
        for node in self.nodes.values():
            node._restart()
        self.run_for(seconds)
        self._check_settled()

    # ------------------------------------------------------------------ what is seen

    def status(self, job_id: str) -> dict[str, str]:
        found = {}
        for party_id, node in self.nodes.items():
            with node.store.transaction() as tx:
                for job in tx.jobs_here(job_id):
                    found[f"{job.party.role} {party_id}"] = job.status.value
        return found

    def job(self, at: str, job_id: str) -> Any:
        with self.nodes[at].store.transaction() as tx:
            return tx.job_here(job_id)

    def check(self) -> None:
        """What may never happen."""
        self.demand(not self._errors.seen, f"an error was logged: {self._errors.seen[:1]}")
        for node in self.nodes.values():
            self._check_books(node)
            self._check_workers(node)

    def _check_books(self, node: Node) -> None:
        with node.store.reading() as tx:
            engine = tx.engine()
            held = 0
            for job_id in self.submitted:
                for job in tx.jobs_here(job_id):
                    held += job.claim.cores if job.holds else 0
                    self.demand(not (job.is_final and job.holds), f"{job.key} is final and holds")
                    needs = job.status is JobStatus.RUNNING
                    self.demand(not needs or job.holds, f"{job.key} runs and holds nothing")
        self.demand(engine.remaining_cores + held == engine.cores, f"party {node.party_id}: {engine} and {held} held")
        self.demand(engine.remaining_cores >= 0, f"party {node.party_id}: {engine}")

    def _check_workers(self, node: Node) -> None:
        seen = set()
        for worker in node.engine.living():
            key = worker.order.worker.task
            name = (key.task_id, key.party)
            self.demand(name not in seen, f"two workers of {key.task_id} on {key.party}")
            seen.add(name)

    def check_may_run(self, party_id: str, order: LaunchOrder) -> None:
        """No task begins before its inputs have succeeded everywhere."""
        key = order.worker.task
        node = self.nodes[party_id]
        spec = node.context.specs.get(key.job_id)
        if spec is None:
            return
        for name in spec.tasks[key.name].upstream:
            for party in spec.tasks[name].parties:
                with self.nodes[party.party_id].store.reading() as tx:
                    done = [t for t in tx.tasks(key.job_id) if t.key.name == name and t.key.party == party]
                    good = (TaskStatus.SUCCESS, TaskStatus.PASS)
                    self.demand(
                        any(t.party_status in good for t in done), f"{key} began before {name} succeeded on {party}"
                    )

    def _check_settled(self) -> None:
        for job_id in self.submitted:
            for where, status in self.status(job_id).items():
                self.demand(JobStatus(status) in JOB_END, f"job {job_id} is still {status} on {where}")
        for node in self.nodes.values():
            self.demand(not node.engine.living(), f"party {node.party_id} has workers left")
            with node.store.transaction() as tx:
                engine = tx.engine()
                self.demand(engine.remaining_cores == engine.cores, f"party {node.party_id} lacks cores: {engine}")
                for job_id in self.submitted:
                    for task in tx.tasks(job_id):
                        self.demand(task.party_status in TASK_END, f"{task.key} is {task.party_status}")
                        self.demand(task.is_final, f"{task.key} is {task.status} at party {node.party_id}")

    def demand(self, holds: bool, message: str) -> None:
        if not holds:
            lines = "\n".join(self.transcript[-60:])
            raise AssertionError(f"seed {self.seed}, step {self.steps}: {message}\n{lines}")


def make_store(kind: str) -> Any:
    if kind == "memory":
        return MemoryStore()
    database = open_database("sqlite:///:memory:", Path(tempfile.gettempdir()))
    database.connect()
    upgrade(database)
    return _OneOfMany(database)


class _OneOfMany(SqlStore):
    """The models of a process are bound to one database; here every party has its own, one after the other."""

    @contextmanager
    def transaction(self) -> Any:
        self._bind()
        with super().transaction() as tx:
            yield tx

    @contextmanager
    def reading(self) -> Any:
        self._bind()
        with super().reading() as tx:
            yield tx

    def _bind(self) -> None:
        if MODELS[0]._meta.database is not self.database:
            self.database.bind(MODELS)


def job(
    parties: dict[str, list[str]], tasks: dict[str, list[str]] | None = None, cores: int = 1, parallelism: int = 1,
    retries: int = 0, initiator: str = "",
) -> Document:
    """A document: tasks by name with the names of those they need."""
    graph = tasks or {"work_0": []}
    components = {
        name: {
            "module": "Work",
            **({"input": {"data": {"data": [f"{up}.data" for up in needs]}}} if needs else {}),
            "output": {"data": ["data"]},
        }
        for name, needs in graph.items()
    }
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": int(initiator or parties["guest"][0])},
        "role": {role: [int(one) for one in ids] for role, ids in parties.items()},
        "job_parameters": {
            "common": {"task_cores": cores, "task_parallelism": parallelism, "auto_retries": retries}
        },
    }
    return Document({"components": components}, conf, {})


def _words(batch: list[Command]) -> str:
    return ", ".join(f"{one.kind.value} {one.task}" for one in batch)


__all__ = ["CALM", "ROUGH", "Faults", "JobKey", "World", "job", "replace"]
