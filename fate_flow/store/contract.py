"""What every store promises: one contract for SQLite, MySQL and the memory of a simulation.

All reads and writes happen inside `Store.transaction()`: it commits as a whole or not at all. Within it, `savepoint()`
undoes a part. Every write that depends on what was read before carries that in its condition and answers False when
the row has moved on; nothing is overwritten in silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from fate_flow.core.job import Command, EngineState, Job, JobKey, Report, Seat, Task, TaskKey, Worker
from fate_flow.core.plan import MoveJob, MoveTask
from fate_flow.core.queue import Waiting
from fate_flow.core.reasons import Reason
from fate_flow.core.spec import Party
from fate_flow.core.status import SeatStatus, TaskStatus, WorkerStatus


@dataclass(frozen=True)
class Document:
    """A job as it was submitted, in JSON values."""

    dsl: Mapping[str, Any]
    runtime_conf: Mapping[str, Any]
    on_party: Mapping[str, Any]
    name: str = ""
    description: str = ""
    tag: str = ""
    federated_mode: str = "MULTIPLE"
    collect_type: str = "PUSH"


@dataclass(frozen=True)
class Submission:
    request_id: str
    job_id: str
    digest: str
    retcode: int | None = None       # None: not decided yet
    retmsg: str = ""


@dataclass(frozen=True)
class TableMeta:
    namespace: str
    name: str
    uri: str
    count: int
    schema: Mapping[str, Any]
    partitions: int = 1
    origin: str = "upload"
    job_id: str = ""
    id_delimiter: str = ","
    have_head: bool = True
    is_disabled: bool = False
    create_time: int = 0


@dataclass(frozen=True)
class Output:
    """A table that a party task made."""

    task: TaskKey
    data_name: str
    namespace: str
    name: str


@dataclass(frozen=True)
class Metric:
    task: TaskKey
    namespace: str
    name: str
    data: tuple[tuple[Any, Any], ...]
    meta: Mapping[str, Any]


class Transaction(Protocol):
    """One unit of work. Times are milliseconds since the epoch."""

    def savepoint(self) -> AbstractContextManager[None]:
        """An exception inside undoes what was done inside, and is raised on."""

    # ---- jobs

    def add_job(self, job: Job, document: Document) -> bool:
        """False when the row exists already."""

    def job(self, key: JobKey) -> Job | None: ...

    def job_here(self, job_id: str) -> Job | None:
        """The initiator's row when this is its database."""

    def jobs_here(self, job_id: str) -> tuple[Job, ...]:
        """All seats of the job in this database."""

    def document(self, job_id: str) -> Document | None: ...

    def move_job(self, job: Job, move: MoveJob, at: int, caused_by: str = "") -> bool:
        """Compare-and-set on status and run; stamps start and end, and the tag `job_end`."""

    def request_stop(self, key: JobKey, reason: Reason, message: str, at: int, by_user: bool, caused_by: str) -> bool:
        """Record the wish that an unfinished job ends; the first reason stays."""

    def set_progress(self, key: JobKey, percent: int) -> bool:
        """Only forward."""

    def begin_turn(self, key: JobKey, owner: str, at: int) -> bool:
        """Set the ready signal of a waiting job nobody works on, count up its turn, forget refusals."""

    def end_turn(
        self, key: JobKey, owner: str, wait_reason: str, blocked_on: str, blocked_cores: int, retry_at: int,
        conflicts: int,
    ) -> bool:
        """Reset the ready signal that `owner` set."""

    def postpone(self, key: JobKey, wait_reason: str, blocked_on: str, blocked_cores: int, retry_at: int) -> bool:
        """Why a waiting job is not even asked for."""

    def take_over(self, owner: str) -> tuple[str, ...]:
        """Hand over the ready signals of all other owners to this one; the job ids."""

    def ready_signals(self) -> tuple[str, ...]:
        """Ids of the jobs whose ready signal is set."""

    def forget_job(self, job_id: str) -> None:
        """Every row of the job goes, but for its submission."""

    def forget_seat(self, key: JobKey) -> None:
        """Every row of one seat goes."""

    def unfinished_jobs(self) -> tuple[Job, ...]:
        """Rows of this party in ready, running or stopping, or with a ready signal, and those that hold something."""

    def jobs_to_forget(self) -> tuple[str, ...]:
        """Refused submits of this initiator that still have rows."""

    def last_create_time(self) -> int: ...

    # ---- the queue

    def unblocked_waiting(self, limit: int) -> tuple[Waiting, ...]:
        """Waiting jobs of this initiator that nothing is known against, first in first out."""

    def queue_heads(self) -> tuple[Waiting, ...]:
        """The first waiting job for every party that some job is blocked on."""

    def blocked_waiting(self, party_id: str, at_most_cores: int, limit: int) -> tuple[Waiting, ...]:
        """Jobs blocked on this party that ask it for no more than so many cores, first in first out."""

    def count_pass(self, party_id: str, before: int) -> None:
        """A job created after `before` took what the first one blocked on this party lacks."""

    def place_in_queue(self, job: Job) -> int:
        """1 for the first."""

    def waiting_jobs(self) -> tuple[Job, ...]:
        """All waiting jobs of this initiator, first in first out."""

    def count_waiting(self) -> int: ...

    def cancelled_waiting(self) -> tuple[str, ...]:
        """Waiting jobs with a wish to stop, and those that waited too long are the caller's to find."""

    # ---- resources

    def engine(self) -> EngineState | None: ...

    def register_engine(self, state: EngineState, config: Mapping[str, Any], at: int) -> EngineState:
        """Set the totals; what is in use stays in use."""

    def reserve(self, key: JobKey, cores: int, memory: int, token: str, turn: int, at: int) -> bool:
        """Both rows or none: the job holds nothing yet, and the engine has enough."""

    def renew_claim(self, key: JobKey, turn: int) -> None:
        """The same claim, asked for again in a later turn."""

    def give_back(self, key: JobKey, at_most_turn: int | None, at: int) -> bool:
        """Return what the reservation recorded; False when nothing was held, or a later turn holds it."""

    # ---- seats

    def add_seats(self, seats: Iterable[Seat]) -> None: ...

    def seats(self, job_id: str) -> tuple[Seat, ...]: ...

    def move_seat(self, seat: Seat, new: SeatStatus, message: str, free_cores: int = -1) -> bool: ...

    def seats_at(self, party_id: str) -> tuple[Seat, ...]:
        """Seats of unfinished jobs at this party, this initiator's."""

    def parties_with_seats(self) -> tuple[str, ...]:
        """Parties that run or hold something for us."""

    # ---- tasks

    def add_tasks(self, tasks: Iterable[Task], job: Job, document: Document) -> None:
        """Rows that exist already stay as they are."""

    def task(self, key: TaskKey) -> Task | None: ...

    def tasks(self, job_id: str) -> tuple[Task, ...]:
        """The newest version of each task, in the rows of all parties."""

    def move_task(self, job_id: str, move: MoveTask) -> bool:
        """The federated status, in all rows of that version here."""

    def move_party_task(
        self, task: Task, new: TaskStatus, at: int, reason: Reason | None = None, message: str = "",
        target: TaskStatus | None = None,
    ) -> bool:
        """Compare-and-set on party status and incarnation."""

    def take_report(self, task: Task, report: Report) -> bool:
        """The same in the row that the initiator holds for another party."""

    def set_worker(self, key: TaskKey, worker_id: str) -> bool:
        """False when the party task has a worker already."""

    # ---- workers

    def add_worker(self, worker: Worker) -> None: ...

    def worker(self, worker_id: str) -> Worker | None: ...

    def unfinished_workers(self) -> tuple[Worker, ...]: ...

    def workers_of(self, job_id: str) -> tuple[Worker, ...]: ...

    def move_worker(self, worker: Worker, new: WorkerStatus, at: int, pid: int = 0, pid_started: int = 0) -> bool: ...

    def mark_stopping(self, worker_id: str) -> None: ...

    # ---- outbox

    def put_command(self, command: Command, at: int) -> int: ...

    def commands_after(self, command_id: int) -> tuple[Command, ...]: ...

    def take_command(self, command_id: int) -> bool:
        """Remove it; False when somebody has already."""

    # ---- peers and schedulers

    def hear(self, party_id: str) -> None:
        """Count one sign of life."""

    def heard(self) -> Mapping[str, int]: ...

    def scheduler(self) -> tuple[str, int]:
        """Who schedules, and the counter of its signs of life."""

    def depose(self, owner: str, counter: int, new_owner: str) -> bool:
        """Take the schedule from whoever has stood still at this counter."""

    def still_schedules(self, owner: str) -> bool:
        """The fence: counts up while `owner` schedules; every transaction of a scheduler begins with it."""

    # ---- submissions

    def begin_submission(self, submission: Submission, at: int) -> Submission | None:
        """None when it is new; otherwise what is known under this request id."""

    def decide_submission(self, job_id: str, retcode: int, retmsg: str) -> None: ...

    def submission_of(self, job_id: str) -> Submission | None: ...

    # ---- results

    def save_table(self, table: TableMeta, at: int) -> None: ...

    def table(self, namespace: str, name: str) -> TableMeta | None: ...

    def drop_table(self, namespace: str, name: str) -> bool: ...

    def save_outputs(self, outputs: Iterable[Output], at: int) -> None: ...

    def outputs(self, job_id: str, task: str, party: Party) -> tuple[Output, ...]:
        """Of the newest version that has any."""

    def save_metrics(self, metrics: Iterable[Metric], at: int) -> None: ...

    def metrics(self, job_id: str, task: str, party: Party) -> tuple[Metric, ...]: ...

    def save_summary(self, key: TaskKey, summary: Mapping[str, Any], at: int) -> None: ...

    def summary(self, job_id: str, task: str, party: Party) -> Mapping[str, Any] | None: ...


class Store(Protocol):
    def reading(self) -> AbstractContextManager[Transaction]:
        """For reads that need no lock and no common moment; who writes in it breaks the contract."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Commits at the end, rolls back on an exception; retried by nobody: the caller decides anew."""
