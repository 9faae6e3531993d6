"""What the use cases need from outside, as protocols. `server/` implements them; the simulation has fakes."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from fate_flow.core.access.permission import PermissionRule
from fate_flow.core.access.site import SiteRule
from fate_flow.core.metrics.form import MOST_BYTES_OF_JOB
from fate_flow.core.metrics.measures import DATABASE_SECONDS, READ, WRITE, Measures, Unmeasured
from fate_flow.core.metrics.spans import NoSpans, Spans
from fate_flow.core.model.approval import ApprovalRule
from fate_flow.core.model.artifact import Artifact, Content
from fate_flow.core.model.job import Command, EngineState, JobKey, TaskKey, Worker, WorkerPlace
from fate_flow.core.model.modules import ModuleInfo
from fate_flow.core.model.program import ProgramSpec
from fate_flow.core.model.program_scope import Program
from fate_flow.core.model.resources import EngineSize, Need, WorkerUsage
from fate_flow.core.model.spec import JobParameters, JobSpec
from fate_flow.core.model.status import WorkerStatus
from fate_flow.core.notifications.subscribers import Subscribers
from fate_flow.core.planning.participant.share_end import WorkerExit
from fate_flow.core.quotas.disk_space import DiskSpace
from fate_flow.core.quotas.queues import Queues
from fate_flow.core.quotas.quota import Quotas
from fate_flow.core.record.carried import ChannelCount
from fate_flow.core.streams.addresses import NO_STREAMS, StreamEnds
from fate_flow.core.streams.counts import PortCount
from fate_flow.jobspec.ceilings import NO_CEILINGS, Ceilings
from fate_flow.records.operator_log.events import Event
from fate_flow.services.artifacts.kinds import KINDS, Kinds
from fate_flow.services.artifacts.table_files import FilesOfTables
from fate_flow.services.context.model_files import ModelFiles, NoModels
from fate_flow.store.contract.transaction import Store, Transaction
from fate_flow.store.contract.transaction_retry import Retry
from fate_flow.store.values import Document

T = TypeVar("T")


class Record(Protocol):
    """The log files that operators read (fate_flow/records/)."""

    def emit(self, event: Event, /, *, stacklevel: int = 1, **fields: object) -> None: ...

    def http_response(self, job_id: str, endpoint: str, text: str, body: object, *, stacklevel: int = 1) -> None: ...

    def access(self, address: str, method: str, path: str, status: int, user: str = "-", trace: str = "") -> None:
        """Write a line about one request that was served; `user`: the client that has signed it."""

    def flush(self) -> None: ...


@dataclass(frozen=True)
class LaunchOrder:
    """All that a worker needs to know."""

    worker: Worker
    module: str
    incarnation: str
    parties: tuple[tuple[str, str], ...]         # (role, party id) of each party in the task
    parameters: Mapping[str, Any]
    inputs: tuple[Artifact, ...]
    task_cores: int
    timeout_seconds: int
    stop_seconds: float
    speaks_as: str                               # the worker whose token all workers of the party task use
    least_intersection: int = 0                  # ids or rows below which nothing computed of them may leave; 0: any
    stage: str = "default"
    partitions: int = 1                          # of what the worker makes of the rows of a table
    program: Program | None = None               # None: the component's own code
    collects: tuple[Worker, ...] = ()            # for the collector: the workers of the program, by rank
    document: str = ""                           # its name for other parties; empty: it is not compared with theirs
    streams: StreamEnds = NO_STREAMS
    initiator: str = ""                          # the id of the party whose job it is
    need: Need = field(default_factory=Need)                          # of this worker alone
    trace: str = ""                              # the id of the trace of its job
    gathers: bool = False                        # where it is placed, it begins when all others of its gang have
    gang_size: int = 1                           # workers of this party in its gang
    batch_size: int = 1                          # workers of this party that come with the start of its task


@dataclass(frozen=True)
class TaskOutputs:
    """The outputs that a finished worker reports."""

    artifacts: tuple[Artifact, ...] = ()
    summary: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Observation:
    """The state of a worker, as seen from outside."""

    state: str                       # created, running, exited or lost
    place: WorkerPlace | None = None       # None: it has not started, or never did
    cause: str = ""                  # how it ended; `WorkerExit` knows the words
    exit_code: int | None = None
    signal: int | None = None
    succeeded: bool = False          # the result file says so
    message: str = ""                # what went wrong, one line
    made: TaskOutputs = TaskOutputs()
    is_placed: bool = False          # in state created: a cluster decides when it starts
    waits: str = ""                  # what it waits for there
    has_arrived: bool = False        # in state created: it could begin, and waits for the others of its gang
    contents: tuple[Content, ...] = ()     # what it has run, read and made, as far as its runner has read it

    @property
    def exit(self) -> WorkerExit:
        """How it ended, if it has exited or is lost."""
        is_lost = self.state == "lost"
        return WorkerExit(is_lost, self.cause, self.exit_code, self.signal, self.succeeded, self.message)


class Engine(Protocol):
    """Runs workers. Calls are idempotent and never wait for the worker.

    A worker is known to its engine by the handle, a text that only this engine reads. It is made before the launch, so
    that a launch whose outcome is unknown can be repeated."""

    def handle_for(self, key: TaskKey, worker_id: str) -> str:
        """Return the handle of a worker that is to be launched; the same one for the same worker."""

    def launch(self, order: LaunchOrder) -> None: ...

    def observe(self, worker: Worker) -> Observation: ...

    def stop(self, worker: Worker, grace_seconds: float) -> None: ...

    def release(self, worker: Worker) -> None:
        """Let a worker begin that has arrived and waits for the others of its gang."""

    def forget(self, worker: Worker) -> None:
        """Remove the output and the working folder of a worker that has exited."""

    def printed(self, worker: Worker) -> Mapping[str, Path] | None:
        """Return the files of its `stdout` and `stderr`; None if the worker was not launched, or was forgotten."""

    def used(self, worker: Worker) -> WorkerUsage | None:
        """Return what the worker has used so far; None if nothing has measured it, or if the worker was forgotten."""

    def output_file(self, worker: Worker, name: str) -> Path | None:
        """Return the file that the collector `worker` has kept under this name; None if there is none."""

    def has_living_worker(self, job_id: str) -> bool:
        """Return whether a worker of this job runs, or is about to run, even if no row names it."""


class AbsentEngine:
    """Stands for an engine that this server does not have: it runs nothing, and nothing is known of its workers.

    What counts for its workers is `seen_without_engine`. No worker is made for it, and what its workers made is not
    published: see `UnitOfWork.why_no_engine`."""

    def handle_for(self, key: TaskKey, worker_id: str) -> str:  # noqa: ARG002  # whichever it is
        """Raises LookupError: whatever it returned, the engine could not read once it is back."""
        raise LookupError(f"no worker of {key} can be made: this server does not have its engine")

    def launch(self, order: LaunchOrder) -> None: ...

    def observe(self, worker: Worker) -> Observation:
        return seen_without_engine(worker, why_absent(worker.engine, None))

    def stop(self, worker: Worker, grace_seconds: float) -> None: ...
    def release(self, worker: Worker) -> None: ...
    def forget(self, worker: Worker) -> None: ...
    def printed(self, worker: Worker) -> None: ...
    def used(self, worker: Worker) -> None: ...
    def output_file(self, worker: Worker, name: str) -> None: ...

    def has_living_worker(self, job_id: str) -> bool:  # noqa: ARG002  # whichever it is
        return False


@dataclass(frozen=True)
class PartyEngine:
    """An engine of this party, and how much it has."""

    engine: Engine
    size: EngineSize
    devices: tuple[str, ...] = ()    # the GPUs that this server gives to workers; empty: the engine gives its own
    labels: frozenset[str] = frozenset()    # words for nodes that the engine knows


class Engines:
    """The engines of this party by name, as the configuration has them.

    A row may name an engine that was taken out of the configuration since; `of` stands in for it."""

    def __init__(self, by_name: Mapping[str, PartyEngine]) -> None:
        """Raises ValueError without an engine. The first one is the default."""
        if not by_name:
            raise ValueError("a party needs an engine")
        self._by_name = dict(by_name)

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[str]:
        """Yield the names, the default first."""
        return iter(self._by_name)

    @property
    def default(self) -> str:
        """Return the name of the engine on which jobs reserve."""
        return next(iter(self._by_name))

    @property
    def default_size(self) -> EngineSize:
        return self.size_of(self.default)

    def size_of(self, name: str) -> EngineSize:
        """Return how much a configured engine has. Raises KeyError for any other."""
        return self._by_name[name].size

    @property
    def cores(self) -> int:
        """Return how many cores all engines have together."""
        return sum(one.size.cores for one in self._by_name.values())

    @property
    def gpus(self) -> int:
        """Return how many GPUs all engines have together."""
        return sum(one.size.gpus for one in self._by_name.values())

    def nodes_of(self, name: str) -> int:
        """Return how many nodes an engine has; 1 for one that is not configured."""
        return self._by_name[name].size.nodes if name in self else 1

    def devices_of(self, name: str) -> tuple[str, ...]:
        """Return the GPUs of an engine that this server gives to its workers."""
        return self._by_name[name].devices if name in self else ()

    def labels_of(self, name: str) -> frozenset[str]:
        """Return the words for nodes that an engine knows."""
        return self._by_name[name].labels if name in self else frozenset()

    def of(self, worker: Worker) -> Engine:
        """Return the engine that runs this worker."""
        return self.named(worker.engine)

    def named(self, name: str) -> Engine:
        found = self._by_name.get(name)
        return _ABSENT if found is None else found.engine

    def has_living_worker(self, job_id: str) -> bool:
        """Return whether a worker of this job lives on any engine."""
        return any(one.engine.has_living_worker(job_id) for one in self._by_name.values())


_ABSENT = AbsentEngine()


def why_absent(name: str, state: EngineState | None) -> str:
    """Return why nothing runs on an engine that the configuration does not have, and what to do; `state`: its row."""
    back = f"put its section {state.section} back" if state is not None and state.section else "add it"
    return f"engine {name} is not in the configuration of this server: {back} until its jobs have ended"


def seen_without_engine(worker: Worker, why: str) -> Observation:
    """Return how a worker of an absent engine counts: as lost if it has started. `why`: the text of `why_absent`."""
    if worker.status is WorkerStatus.CREATED:
        return Observation("exited", cause="not_started", message=why)
    return Observation("lost", message=why)


class ProgramPolicy(Protocol):
    """Which programs this party runs for its own jobs and those of others."""

    @property
    def reads_programs(self) -> bool:
        """Whether `objection` may take long for a program or file that it has not seen before."""

    def objection(self, command: ProgramSpec, initiator: str, granted: Collection[str] | None = None) -> str:
        """Return why this party does not run the program for this initiator, naming the configuration key; empty if
        it does. `granted`: sha256:DIGEST of the programs that were granted to it; None: it has no such limit."""


class DenyAll:
    """Allows no program."""

    reads_programs = False

    def objection(
        self, command: ProgramSpec, initiator: str, granted: Collection[str] | None = None  # noqa: ARG002
    ) -> str:
        return "this server runs no commands"


@dataclass(frozen=True)
class StreamsHere:
    """An attempt of a task whose workers here have, or had, streams."""

    key: TaskKey
    incarnation: str


class Exchange(Protocol):
    """The message channel between the workers of a task."""

    def open(
        self, key: TaskKey, incarnation: str, parties: tuple[tuple[str, str], ...], worker_id: str, document: str,
        streams: StreamEnds,
    ) -> None:  # fmt: skip
        """Open the channel of one attempt of a task, and its streams; see `LaunchOrder` for the other values."""

    def close(self, key: TaskKey, incarnation: str) -> None:
        """Close it. Raises OSError."""

    def carried(self, key: TaskKey, incarnation: str) -> Iterable[ChannelCount]:
        """Return what the channels of an attempt have carried; nothing once it is closed. Raises StorageFailed."""
        ...

    def uncollected_streams(self) -> Iterable[StreamsHere]:
        """Return the attempts with streams that ended after they were closed. Raises OSError."""
        ...

    def collected_streams(self, of: StreamsHere) -> AbstractContextManager[tuple[PortCount, ...]]:
        """Yield what streams of a closed attempt have carried and was not stored before; forget it if the block ends
        well. Raises OSError."""
        ...

    def with_streams(self) -> Iterable[StreamsHere]:
        """Return the attempts whose workers here may have streams now. Raises OSError."""
        ...

    def end_streams(self, of: StreamsHere, why: str) -> None:
        """End the streams of an attempt, and let it have no others. Raises OSError."""

    def purge(self, job_id: str) -> None: ...

    def sweep(self, is_over: Callable[[str], bool]) -> None:
        """Purge the jobs that are over: a crash at their end may have left messages."""


class Files(FilesOfTables, Protocol):
    """The folders of a job, and the folder for tables."""

    def write_confs(self, key: JobKey, document: Document) -> None: ...

    def remove_job(self, job_id: str) -> None: ...

    def remove_artifact(self, artifact: Artifact) -> None:
        """Remove the content of an artifact, if it lies where this party keeps artifacts of its kind."""

    def has_confs(self, key: JobKey) -> bool:
        """Return whether all files of `write_confs` exist."""

    def jobs_on_disk(self) -> Iterable[str]:
        """Return the ids of the jobs that have a folder."""

    def uploads_before(self, at: int) -> Iterable[str]:
        """Return the complete files that clients sent before this time."""

    def logs_before(self, at: int) -> Iterable[str]:
        """Return the ids of the jobs whose logs were last written before this time."""

    def has_logs(self, job_id: str) -> bool: ...

    def logs_beyond(self, most_bytes: int, measure_all: bool) -> Iterable[str]:
        """Return the jobs whose logs to remove, oldest first, until the rest takes at most `most_bytes`.

        Without `measure_all`, logs that were not written for minutes may count with their last measured size."""

    def remove_logs(self, job_id: str) -> None: ...


class Transport(Protocol):
    """Sends the commands of the outbox to other parties; answers come back as events."""

    def post(self, commands: tuple[Command, ...]) -> None: ...

    def heartbeat(self, party_id: str, jobs: tuple[tuple[str, int], ...]) -> None: ...


@dataclass(frozen=True)
class Rules:
    """The settings that decisions depend on. Times are in milliseconds unless the name says otherwise."""

    poll_interval: int = 2_000
    hold: int = 60_000
    ready: int = 90_000
    heartbeat_interval: int = 5_000
    idle_heartbeat: int = 60_000     # the most between two heartbeats to a party that no job binds; 0: it gets none
    party_silence: int = 90_000
    initiator_silence: int = 120_000
    plain_hold: int = 300_000
    plain_silence: int = 660_000
    command_keep: int = 604_800_000
    stop_grace_seconds: float = 10.0
    longest_stop_seconds: float = 300.0
    drain: int = 60_000
    launch: int = 60_000
    retry_wait: int = 2_000
    long_backoff: int = 30_000
    queue_passes: int = 16
    queue_ageing: int = 60_000
    resource_waiting: int = 0
    scheduler_silence: int = 10_000
    copy_check: int = 60_000         # between two checks of other parties' jobs that wait here
    metrics_max_bytes: int = MOST_BYTES_OF_JOB


@dataclass(frozen=True)
class Keep:
    """How long data of ended jobs is kept, in milliseconds; 0: for ever."""

    finished_jobs: int = 0
    job_logs: int = 0
    job_logs_bytes: int = 0          # of all jobs together; 0: no limit
    most_finished_jobs: int = 0      # rows of ended jobs; 0: no limit
    outputs: Mapping[str, int] = field(default_factory=dict)      # by kind of artifact; a missing one: for ever


BoundEffect = Callable[[], None]
"""An effect (effects.py), bound to the context that it needs."""


def in_place(effects: Iterable[BoundEffect]) -> None:
    """Carry out effects at once, in the calling thread."""
    for effect in effects:
        effect()


@dataclass(frozen=True)
class Context:
    """What all use cases of a server share."""

    party_id: str
    url: str                                          # of the own server, for the log
    store: Store
    engines: Engines
    exchange: Exchange
    files: Files
    record: Record
    modules: Mapping[str, ModuleInfo]
    defaults: JobParameters
    rules: Rules
    routes: AbstractSet[str]                          # ids of parties whose address is known
    clock: Callable[[], int]                          # milliseconds since the epoch
    fresh_id: Callable[[], str]                       # 32 hex digits
    specs: dict[str, JobSpec] = field(default_factory=dict)          # by the digest of their document
    accepted: dict[str, JobSpec] = field(default_factory=dict)       # not looked up in rows yet; see documents.py
    launch_problems: dict[str, str] = field(default_factory=dict)    # by worker: why its folder could not be written
    carry_out: Callable[[Sequence[BoundEffect]], None] = in_place
    retry: Retry = field(default_factory=Retry)
    ceilings: Ceilings = NO_CEILINGS
    quotas: Quotas = field(default_factory=Quotas)
    disk: Callable[[], DiskSpace] = lambda: DiskSpace(0, 0)
    disk_use: Callable[[], Mapping[str, int]] = dict            # bytes of the jobs of each other party, by its id
    program_policy: ProgramPolicy = field(default_factory=DenyAll)
    queues: Queues = field(default_factory=Queues)
    approval: ApprovalRule = field(default_factory=ApprovalRule)
    subscribers: Subscribers = field(default_factory=Subscribers)    # who is notified of what
    permission: PermissionRule = field(default_factory=PermissionRule)
    site: SiteRule = field(default_factory=SiteRule)
    carries_streams: bool = True                      # whether other parties reach a gateway of this one
    why_no_stream: Callable[[str], str] = lambda _: ""          # can be opened to a party, by its id; empty: one can
    kinds: Kinds = field(default_factory=lambda: KINDS)
    keeps_record: bool = False                        # whether what happens is recorded (record.switch)
    models: ModelFiles = field(default_factory=NoModels)         # of the store of models
    measures: Measures = field(default_factory=Unmeasured)
    spans: Spans = field(default_factory=NoSpans)
    fresh_trace: Callable[[], str] = field(default=lambda: secrets.token_hex(16))    # of a job whose client gave none
    traces: dict[str, str] = field(default_factory=dict)                             # by job id; see traces.py
    fresh_salt: Callable[[], str] = field(default=lambda: secrets.token_hex(32))     # that nobody can guess

    def read(self, observe: Callable[[Transaction], T], of_one_moment: bool = False) -> T:
        """Return what `observe` reads, without a lock; `of_one_moment`: in one snapshot. Raises StorageFailed."""

        def once() -> T:
            with self.timed(READ), (self.store.snapshot if of_one_moment else self.store.reading)() as tx:
                return observe(tx)

        return self.retry(once, is_repeatable=True)

    def write(self, act: Callable[[Transaction], T], is_repeatable: bool = False) -> T:
        """Run `act` in one transaction without effects, and return its result. Raises StorageFailed."""

        def once() -> T:
            with self.timed(WRITE), self.store.transaction() as tx:
                return act(tx)

        return self.retry(once, is_repeatable)

    @contextmanager
    def timed(self, kind: str) -> Iterator[None]:
        """Measure a transaction, from the request for its lock to its commit."""
        begin = time.monotonic()
        try:
            yield
        finally:
            self.measures.observe(DATABASE_SECONDS, kind, value=time.monotonic() - begin)
