"""One party's server without processes, network or clock: the use cases over the memory store, all else by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fate_flow.core.model.approval import ApprovalRule
from fate_flow.core.model.job import Answer, Command, CommandKind, EngineState, Job, JobKey, Task, TaskKey, Worker
from fate_flow.core.model.resources import EngineSize
from fate_flow.core.model.spec import JobParameters, Party
from fate_flow.jobspec.ceilings import NO_CEILINGS, Ceilings
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.ports import Context, LaunchOrder, Observation, Rules, TaskOutputs
from fate_flow.services.context.unit_of_work import UnitOfWork, unit_of_work
from fate_flow.services.initiator.initiator import Coordinator
from fate_flow.services.participant.participant import Participant
from fate_flow.services.workers.watch import WorkerWatch
from fate_flow.store.contract.retry import Retry
from fate_flow.store.memory.store import MemoryStore
from fate_flow.store.values import Document, TableMeta
from tests.factories import HOST, JOB_ID, NOW
from tests.simulation.world import Module, job

DOCUMENT = job({"guest": ["9999"], "host": ["10000"]}, {"a": [], "b": ["a"]}, cores=2)
INCARNATIONS = {"a": "a1" * 16, "b": "b1" * 16}


@dataclass
class HandEngine:
    """Workers are seen as the test says: `sights[worker id]`, else as ordered and not begun."""

    sights: dict[str, Observation] = field(default_factory=dict)
    launched: list[LaunchOrder] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    graces: list[float] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)

    def folder_for(self, key: TaskKey, worker_id: str) -> str:
        return f"/{key.party.party_id}/{key.task_id}/{key.version}/{worker_id}"

    def launch(self, order: LaunchOrder) -> None:
        self.launched.append(order)

    def observe(self, worker: Worker) -> Observation:
        return self.sights.get(worker.worker_id, Observation("created"))

    def stop(self, worker: Worker, grace_seconds: float) -> None:
        self.stopped.append(worker.worker_id)
        self.graces.append(grace_seconds)

    def forget(self, worker: Worker) -> None:
        self.forgotten.append(worker.worker_id)


@dataclass
class Said:
    """Takes any call and keeps it: what was asked of the exchange and of the files."""

    calls: list[tuple[Any, ...]] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.calls.append((name, *arguments))

    def names(self) -> list[str]:
        return [call[0] for call in self.calls]


@dataclass
class HandRecord:
    """Checks that every event has the fields it needs, and keeps them."""

    events: list[tuple[Event, dict[str, object]]] = field(default_factory=list)

    def emit(self, event: Event, /, *, stacklevel: int = 1, **fields: object) -> None:
        event.message(fields)
        self.events.append((event, fields))

    def http_response(self, job_id: str, endpoint: str, text: str, body: object, *, stacklevel: int = 1) -> None: ...

    def access(self, address: str, method: str, path: str, status: int) -> None: ...

    def flush(self) -> None: ...

    def seen(self, event: Event) -> list[dict[str, object]]:
        return [fields for one, fields in self.events if one is event]


@dataclass
class HandTransport:
    posted: list[Command] = field(default_factory=list)
    heartbeats: dict[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)

    def post(self, commands: tuple[Command, ...]) -> None:
        self.posted.extend(commands)

    def heartbeat(self, party_id: str, jobs: tuple[tuple[str, int], ...]) -> None:
        self.heartbeats[party_id] = jobs

    def take(self) -> list[Command]:
        """What was posted since the last time."""
        taken, self.posted = self.posted, []
        return taken


class HandServer:
    """Its clock stands at `now`, its steady time where the test puts it (else where the store has it); ids count."""

    def __init__(
        self, party_id: str = "9999", cores: int = 8, rules: Rules | None = None, store: Any = None, memory: int = 0,
        ceilings: Ceilings = NO_CEILINGS, approval: ApprovalRule | None = None,
    ) -> None:  # fmt: skip
        self.now = NOW
        self.steady: int | None = None
        self.engine, self.exchange, self.files, self.record = HandEngine(), Said(), Said(), HandRecord()
        self.store = store or MemoryStore()
        self._ids = 0
        self.paused = 0.0        # seconds, before transactions that were begun anew
        self.context = Context(
            party_id=party_id, url="http://127.0.0.1:9380", store=self.store, engine=self.engine,
            exchange=self.exchange, files=self.files, record=self.record,
            modules={"Work": Module(), "Upload": Module()}, outputs_of=lambda _: ("data", "other"),
            engine_size=EngineSize(1, cores, memory), defaults=JobParameters(task_cores=1), rules=rules or Rules(),
            routes=frozenset({"9999", "10000", "10001"}), clock=lambda: self.now, fresh_id=self._fresh_id,
            retry=Retry(lambda: self.paused, self._pause), ceilings=ceilings, approval=approval or ApprovalRule(),
        )  # fmt: skip
        with self.store.transaction() as tx:
            tx.register_engine(EngineState("STANDALONE", cores, memory, cores, memory), {}, NOW)

    def _pause(self, seconds: float) -> None:
        self.paused += seconds

    def _fresh_id(self) -> str:
        self._ids += 1
        return f"{self._ids:032x}"

    @contextmanager
    def unit(self) -> Iterator[UnitOfWork]:
        with unit_of_work(self.context, steady=self.steady) as unit:
            yield unit

    def handle(self, command: Command, caller: str = "9999") -> Answer:
        """Carry out a command of another party."""
        with self.unit() as unit:
            return Participant().handle(unit, command, caller)

    # ------------------------------------------------------------------ what is there

    def job(self, party: Party = HOST, job_id: str = JOB_ID) -> Job:
        found = self.job_or_none(party, job_id)
        assert found is not None
        return found

    def job_or_none(self, party: Party = HOST, job_id: str = JOB_ID) -> Job | None:
        with self.store.reading() as tx:
            found: Job | None = tx.job(JobKey(job_id, party))
        return found

    def task(self, name: str = "a", party: Party = HOST, version: int = 0) -> Task:
        with self.store.reading() as tx:
            found = tx.task(TaskKey(JOB_ID, name, version, party))
        assert isinstance(found, Task)
        return found

    def free_cores(self) -> int:
        with self.store.reading() as tx:
            return int(tx.engine().remaining_cores)

    def outbox(self) -> list[Command]:
        with self.store.reading() as tx:
            return list(tx.commands_after(0))

    def watch(self, name: str = "a", party: Party = HOST) -> None:
        """Look at the worker of a task, as the scheduler does when it has events."""
        with self.unit() as unit:
            WorkerWatch().observe(unit, worker_of(self, name, party))
            self.settle(unit)

    def settle(self, unit: UnitOfWork) -> None:
        """Carry what changed as far as it goes, as the scheduler does."""
        for job_id in tuple(unit.dirty):
            Coordinator(Participant(), "owner").advance(unit, job_id)

    def snapshot(self) -> dict[str, Any]:
        """All that a command may change, to be compared."""
        with self.store.reading() as tx:
            return {
                "jobs": tx.jobs_here(JOB_ID), "tasks": tx.tasks(JOB_ID), "workers": tx.workers_of(JOB_ID),
                "engine": tx.engine(), "outbox": tx.commands_after(0),
            }


def command(kind: CommandKind, to: Party = HOST, argument: str = "", run: int = 0, **body: Any) -> Command:
    return Command(kind, JOB_ID, to, run, argument=argument, body=body)


def task_command(
    kind: CommandKind, name: str = "a", to: Party = HOST, argument: str = "", version: int = 0, **body: Any
) -> Command:
    return Command(kind, JOB_ID, to, 0, name, version, argument, body or {"incarnation": INCARNATIONS.get(name, "")})


def create(to: Party = HOST, document: Document = DOCUMENT, **more: Any) -> Command:
    """`create` as an initiator with our extensions sends it."""
    body = {
        "dsl": document.dsl, "runtime_conf": document.runtime_conf, "name": "n", "description": "d",
        "extensions": {"batch": 1}, "incarnations": INCARNATIONS, **more,
    }  # fmt: skip
    return command(CommandKind.CREATE, to, **body)


JOIN = (create(), command(CommandKind.STATUS, argument="waiting"))
HOLD = (*JOIN, command(CommandKind.CHECK, turn=1), command(CommandKind.APPLY, turn=1))
RUN = (*HOLD, command(CommandKind.START))
"""The commands that bring a host so far."""


def a_host(*commands: Command, **server: Any) -> HandServer:
    """The server of host 10000 after these commands of guest 9999, each of which it carried out."""
    host = HandServer("10000", **server)
    for one in commands:
        answer = host.handle(one)
        assert answer.is_ok, (one, answer)
    return host


def made(name: str, namespace: str = "out") -> Observation:
    """A worker that succeeded and made one table under each key."""
    table = TableMeta(namespace, name, f"standalone:///{namespace}/{name}", 3, {}, origin="output")
    metrics = (("train", "work", (("loss", 1),), {}),)
    return Observation(
        "exited", 7, 70, "exited", 0, None, True, "", TaskOutputs((("data", table),), metrics, {"rows": 3})
    )


RUNS = Observation("running", 7, 70)
FAILED = Observation("exited", 7, 70, "exited", 1, None, False, "it went wrong")
STOPPED = Observation("exited", 7, 70, "stopped", None, 15)


def worker_of(server: HandServer, name: str = "a", party: Party = HOST, version: int = 0) -> str:
    return server.task(name, party, version).worker_id

