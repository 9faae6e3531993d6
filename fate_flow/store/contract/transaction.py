"""What every store promises: one contract for SQLite, MySQL and the memory of a simulation.

All reads and writes happen inside `Store.transaction()`: it commits as a whole or not at all. Within it, `savepoint()`
undoes a part. Every write that depends on what was read before carries that in its condition and answers False when
the row has moved on; nothing is overwritten in silence.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from fate_flow.core.access.permission import Thing
from fate_flow.core.access.site import SiteKey
from fate_flow.core.model.approval import Consent
from fate_flow.core.model.history import HistoryEntry
from fate_flow.core.model.job import (
    Blocker,
    Command,
    EngineState,
    Hold,
    Job,
    JobKey,
    Report,
    Seat,
    Task,
    TaskKey,
    Worker,
    WorkerEnd,
)
from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import SeatStatus, TaskStatus, WorkerStatus
from fate_flow.core.planning.actions import MoveJob, MoveTask
from fate_flow.core.planning.queue import Waiting
from fate_flow.store.contract.bindings import Bindings


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
    extend_sid: bool = False          # its ids were made up
    replaced: int = 0                 # rows that are not in it, since a later one had the same id


@dataclass(frozen=True)
class Connector:
    """A place outside of the tables, by a name that clients use for it."""

    name: str
    engine: str
    info: Mapping[str, Any]


READ = "(read)"
"""The data name, which no document can give, of a table that a task found by its parameters and did not hand on."""


@dataclass(frozen=True)
class OutputTable:
    """A table that a party task made; with the data name READ, one that it read."""

    task: TaskKey
    data_name: str
    namespace: str
    name: str
    written_by: str = ""        # the job whose words the table was then; empty where that is not known


@dataclass(frozen=True)
class Metric:
    task: TaskKey
    namespace: str
    name: str
    data: tuple[tuple[Any, Any], ...]
    meta: Mapping[str, Any]


@dataclass(frozen=True)
class Scope:
    """Tasks of a job: all, those at one of its parties, those of one component."""

    job_id: str
    party: Party | None = None
    task: str = ""

    def has(self, key: TaskKey) -> bool:
        return key.job_id == self.job_id and self.party in (None, key.party) and self.task in ("", key.name)


class Transaction(Bindings, Protocol):
    """One unit of work. Times are milliseconds since the epoch; `retry_at` is steady time (see `steady`)."""

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

    def document(self, job_id: str, party: Party | None = None) -> Document | None:
        """As it stands in the row of this party; without one, in the initiator's, else in the first of the rows here.

        All rows of a job have the same `dsl` and `runtime_conf`, those of its binding."""

    def move_job(self, job: Job, move: MoveJob, at: int, caused_by: str = "") -> bool:
        """Compare-and-set on status and run; stamps start and end, and the tag `job_end`."""

    def begin_again(self, job: Job, run: int, since: int, wait_reason: str, *, is_loss: bool = False) -> bool:
        """An ended job waits in a later run: compare-and-set on status and run; what the last one left is reset.

        In the row of its initiator the rerun signal is set. `since` is the steady time."""

    def requeue_job(self, job: Job, wait_reason: str, retry_at: int) -> bool:
        """A running job waits in the same run, at its initiator until `retry_at` (steady time): compare-and-set.

        In the row of its initiator the rerun signal is set. What it holds is not touched."""

    def revise(self, job: Job, new: Job, document: Document) -> bool:
        """Other parameters: compare-and-set on status, run and revision.

        Written are the configuration, what `new` asks for, its limit of time, revision and what has changed; and
        that `new` has to be approved, where `job` had not."""

    def forgo_return(self, key: JobKey) -> bool:
        """Somebody asks for the end of a job that ends already: it is not to wait for a party that it lost."""

    def all_rejoined(self, key: JobKey, queued: int = 0) -> bool:
        """Every party knows that the job waits again: reset the signal, and with it the reason to wait."""

    def rerun_after_end(self, job: Job) -> bool:
        """A job of another initiator, which still ends here, is to wait again once it has: set the signal."""

    def request_force_stop(self, key: JobKey) -> bool:
        """Note the request that what drains for the end of this job is killed now."""

    def force_stop_sent(self, key: JobKey, stop_by: int) -> bool:
        """The request has been passed on; nobody is waited for beyond `stop_by` (steady time)."""

    def request_stop(self, key: JobKey, reason: Reason, message: str, at: int, by_user: bool, caused_by: str) -> bool:
        """Record the request that an unfinished job ends; the first reason stays."""

    def describe(self, key: JobKey, text: str) -> bool:
        """Notes on a job, in place of those that its row has."""

    def job_ids(self, first: str, last: str, limit: int) -> tuple[str, ...]:
        """Ids of jobs here from one to the other, each once, in their order."""

    def add_message(self, key: JobKey, text: str) -> bool:
        """Text for people behind those that the row has; False when it has them already."""

    def set_progress(self, key: JobKey, percent: int) -> bool:
        """Only forward."""

    def name_unconfirmed(self, key: JobKey, party: Party) -> bool:
        """Name a party that does not share the end of this job; False when it was named already. The end stays."""

    def name_missing(self, key: JobKey, parties: tuple[str, ...]) -> bool:
        """The job is a partial success: without these parties."""

    def set_timers(self, key: JobKey, timers: Mapping[str, int]) -> bool:
        """What has happened to the job and waits for its policy, with the steady time at which that acts."""

    def restart_job(self, key: JobKey) -> bool:
        """Its tasks are to begin again; count it."""

    def restarted(self, key: JobKey) -> bool:
        """They begin again."""

    def begin_round(self, key: JobKey, owner: str, at: int) -> bool:
        """Set the ready signal of a waiting job nobody works on, count up its reservation rounds, forget refusals.

        Not whose approval it awaits: only who is asked says whether that has changed."""

    def end_round(
        self, key: JobKey, owner: str, wait_reason: str, blocked_on: str, blocked_cores: int, retry_at: int,
        conflicts: int, blocked_by: Blocker | None, rejoins: bool = False,
    ) -> bool:
        """Reset the ready signal that `owner` set; with `rejoins`, no reservation round before `all_rejoined`."""

    def postpone(self, key: JobKey, wait_reason: str, blocked_on: str, blocked_cores: int, retry_at: int) -> bool:
        """Why a waiting job is not even asked for."""

    def take_over(self, owner: str) -> tuple[str, ...]:
        """Hand over the ready signals of all other owners to this one; the job ids."""

    def jobs_in_round(self) -> tuple[Waiting, ...]:
        """Waiting jobs of this initiator whose ready signal is set, in the order of the queue."""

    def add_entries(self, entries: Sequence[HistoryEntry]) -> None:
        """Write down what has moved, in this order."""

    def history(self, job_id: str) -> tuple[HistoryEntry, ...]:
        """What has been written down of a job, in that order; it goes with the job."""

    def forget_job(self, job_id: str) -> None:
        """Every row of the job goes, its binding too, but for its submission."""

    def forget_seat(self, key: JobKey) -> None:
        """Every row of one seat goes; with the last seat here also the binding, and the history over all parties."""

    def open_seats(self) -> tuple[JobKey, ...]:
        """The rows here of all jobs that are not over, whoever decides for them."""

    def is_open(self, job_id: str) -> bool:
        """Whether anything of the job still goes on here: a row that is not final or holds something, a worker that has
        not exited, a command that waits."""

    def ended_jobs(self, before: int, after: tuple[int, str], limit: int) -> tuple[tuple[int, str], ...]:
        """(end time, id) of final rows that ended before a time, oldest first, those behind `after`."""

    def jobs_past_ttl(self, now: int, least: int, after: str, limit: int) -> tuple[str, ...]:
        """Ids of jobs with a final row whose ttl is over, or `least` seconds where that is longer; those behind
        `after`, in order."""

    def end_of_newest(self, count: int) -> int:
        """When the last but `count - 1` of the final rows ended; 0 when there are fewer."""

    def forget_ended(self, job_id: str) -> bool:
        """Every row of the job goes, its submission too; the tables it made and its binding stay. False while it
        `is_open`."""

    def unfinished_jobs(self) -> tuple[Job, ...]:
        """Rows of this party in ready, running or stopping, those with a ready or rerun signal, those that hold
        something."""

    def copies_that_run(self, initiator_id: str) -> tuple[tuple[str, int], ...]:
        """Jobs of this other party that run here, each with its run."""

    def copies_that_wait(self, after: str, limit: int) -> tuple[str, ...]:
        """So many ids of jobs of other parties that wait here, behind this one; none of plain v1 initiators."""

    def jobs_to_forget(self) -> tuple[str, ...]:
        """Refused submits of this initiator that still have rows."""

    def last_create_time(self) -> int: ...

    # ---- the queue: its order is `Job.order`

    def unblocked_waiting(self, limit: int) -> tuple[Waiting, ...]:
        """Waiting jobs of this initiator that nothing is known against, in their order.

        Not those of which some party does not know yet that they begin again."""

    def queue_heads(self) -> tuple[Waiting, ...]:
        """The first waiting job for every party that some job is blocked on, but for those apart
        (`Job.is_unschedulable`)."""

    def waiting_unschedulable(self, until: int, limit: int) -> tuple[Waiting, ...]:
        """Waiting jobs that nobody holds, that lack what is not capacity (`UNSCHEDULABLE`), and are due by this steady
        time.

        Those that have been due for longest come first, so that each has its reservation round however many there
        are."""

    def blocked_waiting(self, party_id: str, at_most_cores: int, limit: int) -> tuple[Waiting, ...]:
        """Jobs blocked on this party that ask it for no more than so many cores, in order."""

    def waiting(self, job_id: str) -> Waiting | None:
        """This job of this initiator, when it waits for its turn: it is in none, is not held, and begins not again."""

    def count_pass(self, job_id: str) -> None:
        """A later job took what this waiting one of this initiator lacks."""

    def place_in_queue(self, job: Job) -> int:
        """1 for the first."""

    def waiting_jobs(self) -> tuple[Job, ...]:
        """All waiting jobs of this initiator, in their order."""

    def overdue_waiting(self, steady: int) -> tuple[Job, ...]:
        """Waiting jobs of this initiator whose whole time is over and that nobody has told to end, in their order; none
        that is on hold."""

    def hold_job(self, key: JobKey, hold: Hold) -> bool:
        """False for a job that does not wait. What starts or ends is not held any more."""

    def release_job(self, key: JobKey, steady: int) -> bool:
        """False when nobody held it. The time that it was held counts for no limit."""

    def decide_consent(self, key: JobKey, consent: Consent) -> bool:
        """False where nobody has to approve, and for a seat that has reserved something or runs: but one that still
        awaits an approval, since an older release took it, gets that until it stops."""

    def unapproved_jobs(self, limit: int) -> tuple[Job, ...]:
        """Seats here that wait for this party's approval, by age; at most 1,000."""

    def ask_again(self, job_id: str) -> bool:
        """A waiting job of this initiator that is in the queue, and not in its reservation round, is due at once."""

    def others_waiting(self) -> tuple[Job, ...]:
        """Of each other initiator that has jobs waiting here one of them, in all its seats."""

    def intake_hold(self) -> Hold | None:
        """Why this party takes no reservations of new jobs at the moment; None: it does."""

    def hold_intake(self, hold: Hold) -> None: ...

    def release_intake(self) -> bool:
        """False when it was not held."""

    # ---- permissions

    def grant(self, party_id: str, things: Iterable[Thing]) -> None:
        """What is granted already stays so."""

    def revoke(self, party_id: str, things: Iterable[Thing]) -> None: ...

    def granted(self, party_id: str) -> frozenset[Thing]: ...

    # ---- keys of other parties

    def site_key(self, party_id: str) -> SiteKey | None: ...

    def add_site_key(self, key: SiteKey, at: int) -> bool:
        """False where the party has one."""

    def replace_site_key(self, key: SiteKey, old_key_id: str, at: int) -> bool:
        """False where the party has no key, or another one than that."""

    def drop_site_key(self, party_id: str) -> bool:
        """False where it had none."""

    def set_priority(self, key: JobKey, priority: int, queue_key: int) -> bool:
        """Where a waiting job stands from now on; False for one that does not wait."""

    def count_waiting(self) -> int: ...

    def cancelled_waiting(self) -> tuple[str, ...]:
        """Waiting jobs with a request to stop, and those that waited too long are the caller's to find."""

    # ---- resources

    def engine(self) -> EngineState | None: ...

    def register_engine(self, state: EngineState, config: Mapping[str, Any], at: int) -> EngineState:
        """Set the totals; what is in use stays in use."""

    def reserve(self, key: JobKey, cores: int, memory: int, token: str, round_number: int, at: int) -> bool:
        """Both rows or none: the job holds nothing yet, and the engine has enough."""

    def renew_claim(self, key: JobKey, round_number: int) -> None:
        """The same claim, asked for again in this reservation round or a later one: its lease begins anew."""

    def give_back(self, key: JobKey, at_most_round: int | None, at: int) -> bool:
        """Return what the reservation recorded; False when nothing was held, or a later reservation round holds it."""

    # ---- pending requests: seats that this party had no capacity for

    def pending(self, key: JobKey, asked: int, order: int | None = None) -> None:
        """The seat was asked for, at this steady time; `since` is that of the first such call.

        `order`: the `queue_key` that its initiator told along."""

    def first_pending(self, asked_after: int) -> Job | None:
        """Of the waiting seats that hold nothing and were asked for after this steady time: the one refused first."""

    def pending_requests(self, asked_after: int) -> tuple[Job, ...]:
        """Those seats in the order of their first refusals, `MOST_PENDING` (changes.py) of them at most."""

    def count_bypass(self, key: JobKey) -> None:
        """Another job takes what this seat lacks."""

    def forget_pending(self, key: JobKey) -> None: ...

    # ---- seats

    def add_seats(self, seats: Iterable[Seat]) -> None: ...

    def seats(self, job_id: str) -> tuple[Seat, ...]: ...

    def move_seat(
        self, seat: Seat, new: SeatStatus, message: str, free_cores: int = -1, blocked_by: Blocker | None = None
    ) -> bool: ...

    def ask_for(self, seat: Seat, cores: int) -> bool:
        """What the seat is to reserve from now on."""

    def rejoin(self, seat: Seat) -> bool:
        """The seat is `joining` in the next run, whatever it has become meanwhile in this one."""

    def lease_seat(self, seat: Seat, lease: int, renew_at: int) -> bool:
        """How long the party keeps what it holds, and the steady time at which it is to be asked again."""

    def fall_silent(self, seat: Seat, since: int, message: str) -> bool:
        """The party counts as silent since this steady time; False when it does already."""

    def answers_again(self, seat: Seat) -> bool:
        """It does no more."""

    def silent_seats(self) -> tuple[Seat, ...]:
        """Of jobs that run: those whose party counts as silent."""

    def note_approval(self, seat: Seat, text: str) -> bool:
        """The party has approved the job with these words; none: it has to approve it, maybe once more."""

    def mark_plain_v1(self, seat: Seat) -> bool:
        """The party speaks plain v1 only."""

    def seats_at(self, party_id: str) -> tuple[Seat, ...]:
        """Seats of unfinished jobs at this party, this initiator's."""

    def says_who(self, party_id: str) -> bool:
        """Whether this party has taken part in an unfinished job as a server of ours, which says so in each answer."""

    def plain_v1_seats(self) -> tuple[Seat, ...]:
        """At parties that speak plain v1: those that run or drain something for us."""

    def unconfirmed_seats(self) -> tuple[Seat, ...]:
        """Of jobs of this initiator that are over, as far as the party has never said that it knows."""

    def parties_with_seats(self) -> tuple[str, ...]:
        """Parties that run or hold something for us."""

    # ---- tasks

    def add_tasks(self, tasks: Iterable[Task], job: Job, document: Document) -> None:
        """Rows that exist already stay as they are."""

    def task(self, key: TaskKey) -> Task | None: ...

    def tasks(self, job_id: str) -> tuple[Task, ...]:
        """The newest version of each task, in the rows of all parties."""

    def stopping_tasks(self) -> tuple[Task, ...]:
        """Rows whose federated status is `stopping`, by age."""

    def jobs_with_moving_tasks(self, job_ids: Collection[str]) -> frozenset[str]:
        """Those of these jobs with a task that stops, with a share that stops or has ended badly while the task goes
        on, or with a later version of a task that waits."""

    def move_task(self, job_id: str, move: MoveTask, at: int) -> bool:
        """The federated status, in all rows of that version here."""

    def move_party_task(
        self, task: Task, new: TaskStatus, at: int, reason: Reason | None = None, message: str = "",
        target: TaskStatus | None = None, exit_code: int | None = None, caused_by: str = "",
    ) -> bool:
        """Compare-and-set on party status and incarnation."""

    def take_report(self, task: Task, report: Report) -> bool:
        """The same in the row that the initiator holds for another party."""

    def count_failed_workers(self, key: TaskKey, count: int) -> None:
        """So many workers of this party task have failed; a lower number than is known is old."""

    def failed_workers(self, job_id: str) -> int:
        """The sum of those counts over all tasks, parties and versions, since the job's run began."""

    def set_worker(self, key: TaskKey, worker_id: str, without: tuple[str, ...] = ()) -> bool:
        """Its worker, and the parties that it runs without; False when the party task has a worker already."""

    # ---- workers

    def add_worker(self, worker: Worker) -> None:
        """One that works with what its job has reserved."""

    def add_elastic_worker(self, worker: Worker) -> bool:
        """The row, and what the worker holds from the engine: both, or none where the engine has less."""

    def worker(self, worker_id: str) -> Worker | None: ...

    def unfinished_workers(self) -> tuple[Worker, ...]: ...

    def elastic_workers(self) -> tuple[Worker, ...]:
        """Those that have not exited and hold something beside the claims of their jobs, by age."""

    def workers_of(self, job_id: str) -> tuple[Worker, ...]: ...

    def workers_of_task(self, key: TaskKey) -> tuple[Worker, ...]:
        """Those of one version of a party task, by age."""

    def move_worker(
        self, worker: Worker, new: WorkerStatus, at: int, pid: int = 0, pid_started: int = 0,
        end: WorkerEnd | None = None,
    ) -> bool:  # fmt: skip
        """Compare-and-set on the status. What an elastic worker holds goes back to the engine when it has exited."""

    def mark_stopping(self, worker_id: str, why: WorkerEnd) -> None:
        """It has been told to stop; what it was told first stands, and one that has exited stays as it is."""

    # ---- outbox

    def put_command(self, command: Command, at: int, since: int = 0) -> int:
        """The number of its row; `since` is the steady time."""

    def commands_after(self, command_id: int) -> tuple[Command, ...]: ...

    def commands_before(self, since: int) -> tuple[Command, ...]:
        """Those that were stored before this steady time, in their order."""

    def reports_to(self, party_id: str, limit: int) -> tuple[Command, ...]:
        """The newest so many reports on shares that wait for their way to this initiator, in their order."""

    def take_command(self, command_id: int) -> bool:
        """Remove it; False when somebody has already."""

    # ---- peers and schedulers

    def record_heartbeat(self, party_id: str) -> None:
        """Count one sign of life."""

    def heartbeats(self) -> Mapping[str, int]: ...

    def note_trouble(self, trouble: PeerTrouble) -> None:
        """What is wrong with the ways to and from a party now; it may be nothing."""

    def peer_troubles(self) -> Mapping[str, PeerTrouble]:
        """By party: those with which something is wrong."""

    def forget_troubles(self) -> None:
        """Whoever schedules from now on looks anew."""

    def scheduler(self) -> tuple[str, int]:
        """Who schedules, and the counter of its signs of life."""

    def take_scheduler_lease(self, owner: str, counter: int, new_owner: str) -> bool:
        """Take the schedule from whoever has stood still at this counter."""

    def renew_scheduler_lease(self, owner: str, steady: int) -> bool:
        """The fence: counts up while `owner` schedules; every transaction of a scheduler begins with it.

        It writes down the steady time that its owner has come to."""

    def steady(self) -> int:
        """Steady time: the milliseconds that schedulers of this party have watched, all together.

        Each counts on from what the last one wrote down, on its own monotonic clock: it never goes back, and no step
        of a clock on the wall moves it."""

    # ---- submissions

    def begin_submission(self, submission: Submission, at: int) -> Submission | None:
        """None when it is new, or when the one before was refused; otherwise what is known under this request id."""

    def decide_submission(self, job_id: str, retcode: int, retmsg: str) -> None: ...

    def forget_submission(self, job_id: str) -> None:
        """Unless it was accepted: whoever waited for the outcome has been told."""

    def forget_refused_submissions(self) -> None:
        """Those that nobody was left to be told of, since the process that waited has died."""

    def submission_of(self, job_id: str) -> Submission | None: ...

    # ---- results

    def save_table(self, table: TableMeta, at: int) -> None: ...

    def table(self, namespace: str, name: str) -> TableMeta | None: ...

    def drop_table(self, namespace: str, name: str) -> bool: ...

    def save_connector(self, connector: Connector, at: int) -> None:
        """In the place of one of this name."""

    def connector(self, name: str) -> Connector | None: ...

    def output_tables(self, before: int, after: tuple[int, str, str], limit: int) -> tuple[TableMeta, ...]:
        """Tables that tasks made before a time, oldest first, those behind (create time, namespace, name)."""

    def save_outputs(self, outputs: Iterable[OutputTable], at: int) -> None: ...

    def outputs(self, job_id: str, task: str, party: Party) -> tuple[OutputTable, ...]:
        """Of the newest version that has any; without what was read."""

    def save_metrics(self, metrics: Iterable[Metric], at: int) -> None: ...

    def metrics(self, job_id: str, task: str, party: Party) -> tuple[Metric, ...]: ...

    def save_summary(self, key: TaskKey, summary: Mapping[str, Any], at: int) -> None: ...

    def summary(self, job_id: str, task: str, party: Party) -> Mapping[str, Any] | None: ...

    def results_of(self, job_id: str) -> tuple[OutputTable, ...]:
        """What all tasks of a job handed on or read here, in every version, by component and data name."""

    def jobs_with(self, namespace: str, name: str, limit: int) -> tuple[str, ...]:
        """Ids of the jobs whose tasks handed on or read this table here, each once, the newest first."""

    def drop_results(self, scope: Scope) -> int:
        """What is known of tables and summaries goes, the tables themselves do not: how many rows."""

    def drop_metrics(self, scope: Scope) -> int: ...

    def disabled_tables(self, limit: int) -> tuple[TableMeta, ...]: ...


def published(tx: Transaction, job_id: str, task: str, party: Party) -> tuple[OutputTable, ...]:
    """What a party task has made, once the task has succeeded at all parties; its worker may have named it before."""
    found = tx.outputs(job_id, task, party)
    row = tx.task(found[0].task) if found else None
    return found if row is None or row.status is TaskStatus.SUCCESS else ()


def handed_on(tx: Transaction, output: OutputTable) -> TableMeta | None:
    """The table as the task handed it on; None when it was deleted since, or another job wrote it anew."""
    table = tx.table(output.namespace, output.name)
    is_another = table is not None and output.written_by not in ("", table.job_id)
    return None if is_another else table


class Store(Protocol):
    def reading(self) -> AbstractContextManager[Transaction]:
        """For reads that need no lock and no common moment; who writes in it breaks the contract."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Commits at the end, rolls back on an exception; retried by nobody: the caller decides anew."""
