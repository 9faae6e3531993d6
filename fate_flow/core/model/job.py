"""The stored values: jobs, seats, tasks, workers, and the commands between servers.

They are frozen, so that a value in memory cannot differ from its row: every change is a move or a write in `store/`.
Times named `..._time` are milliseconds since the epoch. They are for people; the only rule that uses one is the order
of the queue, for which `create_time` never goes back. All deadlines (`since`, `retry_at`, `stop_by`) are in *steady
time*: the milliseconds that this party's schedulers were awake, whatever the system clock does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from fate_flow.core.model.approval import Consent
from fate_flow.core.model.errors import UNREACHABLE
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.retry import UNTRIED, Tries
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JOB_END, TASK_END, JobStatus, SeatStatus, TaskStatus, WorkerStatus


@dataclass(frozen=True, order=True)
class JobKey:
    """One row of t_job: a job at one of its parties."""

    job_id: str
    party: Party

    def __str__(self) -> str:
        return f"job {self.job_id} on {self.party}"


@dataclass(frozen=True)
class EnginePart:
    """What of a claim is on one engine."""

    engine: str
    cores: int = 0
    memory: int = 0
    gpus: int = 0


@dataclass(frozen=True)
class Claim:
    """The reserved cores, memory and GPUs of a job, on all engines of the party together, and the token that is needed
    to release them.

    Of what a seat needs (`Job.asked`), `engine` is the one on which it reserves; empty: the default."""

    cores: int = 0
    memory: int = 0
    token: str = ""          # empty: nothing is held
    round_number: int = 0    # the job's reservation round of the last request for it
    renewals: int = 0        # how often the request was repeated
    taken_time: int = field(default=0, compare=False)     # when the cores were reserved last, for people
    engine: str = ""         # the engine that has reserved last; its workers run there. Empty: none has
    gpus: int = 0
    elsewhere: tuple[EnginePart, ...] = ()   # what of it is on other engines, for tasks that run there; by their names

    def by_engine(self, default: str = "") -> dict[str, Claim]:
        """Return what of it is on each engine, its own first; `default`: the name of that one if it has none."""
        found = {self.engine or default: Claim(
            self.cores - sum(one.cores for one in self.elsewhere),
            self.memory - sum(one.memory for one in self.elsewhere),
            gpus=self.gpus - sum(one.gpus for one in self.elsewhere),
        )}  # fmt: skip
        for one in self.elsewhere:
            before = found.get(one.engine, Claim())
            found[one.engine] = Claim(before.cores + one.cores, before.memory + one.memory, gpus=before.gpus + one.gpus)
        return found


class Blocker(Enum):
    """Why a party did not reserve."""

    CAPACITY = "room"    # other jobs hold its cores, memory or GPUs
    SIZE = "size"        # the job requests more than the party has in all
    ANSWER = "answer"    # the party is silent or not ready; free capacity there would not help
    APPROVAL = "approval"  # the party has not approved the job yet


UNSCHEDULABLE = frozenset({Blocker.SIZE, Blocker.APPROVAL})
"""Blockers that free capacity does not remove. No other job waits behind a job with such a blocker."""


@dataclass(frozen=True)
class PendingRequest:
    """A party's record of a refused reservation of a seat. Times are steady time of that party."""

    since: int = 0           # time of the first refusal; 0: no request was refused
    asked: int = 0           # time of the last request
    passes: int = 0          # how often other jobs have since taken the capacity that it waits for


@dataclass(frozen=True)
class Hold:
    """A user's suspension, until it is released: of one waiting job, or of all new reservations at a party."""

    message: str
    by: str                  # the name that the user gave
    time: int = 0
    since: int = 0           # steady time

    @property
    def text(self) -> str:
        return f"on hold by {self.by}: {self.message}"


@dataclass(frozen=True)
class Job:
    """The row of a job at one seat. At the initiator's own seat (`is_initiator`) it is the job itself."""

    key: JobKey
    initiator: Party
    is_initiator: bool
    status: JobStatus
    run: int = 0
    parties: tuple[Party, ...] = ()
    target: JobStatus | None = None      # the final status after `stopping`
    reason: Reason | None = None
    message: str = ""
    caused_by: str = ""                  # the party that gave the reason
    exit_code: int | None = None         # of the worker that is the cause, if one is
    cancel_requested: bool = False       # a request: f_cancel_signal
    ready_owner: str = ""                # the scheduler that works on it now: f_ready_signal, f_ready_owner
    progress: int = 0
    claim: Claim = Claim()
    asked: Claim = Claim()               # what this seat needs
    wait_reason: str = ""                # why it waits, for people
    blocked_on: str = ""                 # the id of the party that did not reserve
    blocked_at: str = ""                 # the tag of the engine of that party, if it has several
    blocked_by: Blocker | None = None    # why that party did not reserve
    retry_at: int = 0                    # steady time of the next reservation round at the earliest
    passes: int = 0                      # how many later jobs took capacity that it waits for
    passers: tuple[str, ...] = ()        # the ids of the newest of them, newest first
    conflicts: int = 0                   # reservation rounds that were rolled back since it last started
    round_number: int = 0                # counts the reservation rounds; fences off releases that arrive late
    timeout_seconds: int = 0
    ttl_seconds: int | None = None       # from its end until its data is removed; None: as retention is configured
    create_time: int = 0
    since: int = 0                       # steady time at which the present run began
    queued: int = 0                      # steady time at which its wait for cores began, or will begin
    start_time: int = 0
    end_time: int = 0
    stop_by: int = 0                     # steady time at which the drain ends at the latest
    is_force_stop: bool = False          # a request to kill the workers that drain: f_stop_now
    unconfirmed: tuple[str, ...] = ()    # parties that never confirmed the end
    missing: tuple[str, ...] = ()        # parties without which it succeeded: a partial success
    is_plain_v1: bool = False            # the initiator speaks plain v1 only
    rerun_signal: bool = False           # it waits again, but not every party knows it, or `retry_at` has not come
    pending: PendingRequest = PendingRequest()  # of this seat, for capacity at this party
    hold: Hold | None = None             # while set, a waiting job has no reservation round
    consent: Consent | None = None       # this party's approval of another party's job; None: it needs none
    priority: int = 0                    # higher first
    enqueued: int = 0                    # steady time at which it was created
    queue_key: int = 0                   # its place among the jobs of its initiator (core/planning/queue.py)
    timers: Mapping[str, int] = field(default_factory=dict)      # policy events, and when their policies act
    is_restarting: bool = False          # a policy restarts its tasks; those that ran are still ending
    restarts: int = 0                    # how many restarts by policies this run had
    revision: int = 0                    # how often its parameters were changed since it was submitted
    lost_since: int = 0                  # steady time since which it waits for a lost party; 0: it does not
    losses: int = 0                      # how often it waited for lost parties since a user submitted or reran it
    changed: tuple[str, ...] = ()        # components whose parameters changed since the present run began
    trace: str = field(default="", compare=False)   # the id of its trace, the same at all parties; 32 hex digits

    @property
    def job_id(self) -> str:
        return self.key.job_id

    @property
    def party(self) -> Party:
        return self.key.party

    @property
    def order(self) -> tuple[int, int, str]:
        """Its place among the jobs of its initiator: smaller ones go first."""
        return (self.queue_key, self.create_time, self.job_id)

    @property
    def is_unschedulable(self) -> bool:
        """Whether free capacity would not help it: it gets no reservation round for that, and it is never a head."""
        return self.hold is not None or self.blocked_by in UNSCHEDULABLE

    @property
    def holds(self) -> bool:
        return bool(self.claim.token)

    @property
    def pauses(self) -> bool:
        """Whether it waits for its next attempt, until `retry_at`."""
        return self.rerun_signal and self.retry_at > 0

    @property
    def is_final(self) -> bool:
        return self.status in JOB_END


@dataclass(frozen=True)
class Seat:
    """The initiator's record of one party in the present run."""

    job_id: str
    party: Party
    status: SeatStatus
    run: int = 0
    message: str = ""
    free_cores: int = -1                 # free cores, as a refusal stated; -1: unknown
    asked_cores: int = 0
    asks: Mapping[str, int] = field(default_factory=dict)     # by tag of an engine, if the party has told them apart
    short_at: str = ""                   # the tag of the engine that had too little, as a refusal stated
    blocked_by: Blocker | None = None    # why the party did not reserve, as far as it stated
    lease: int = 0                       # milliseconds for which the party keeps the reservation; 0: not stated
    renew_at: int = 0                    # steady time at which the reservation is renewed
    is_plain_v1: bool = False            # the party speaks plain v1 only
    silent_since: int = 0                # steady time since which it counts as silent; 0: it answers
    approval: str = ""                   # the text of its approval, if the job needed one


@dataclass(frozen=True, order=True)
class TaskKey:
    """One version of a task at one party."""

    job_id: str
    name: str
    version: int
    party: Party

    @property
    def task_id(self) -> str:
        return f"{self.job_id}_{self.name}"

    def __str__(self) -> str:
        return f"task {self.task_id} {self.version} on {self.party}"


@dataclass(frozen=True)
class Task:
    key: TaskKey
    status: TaskStatus                   # federated
    party_status: TaskStatus             # the status of this party's own share
    runs_here: bool                      # false: a row that the initiator keeps for another party
    incarnation: str = ""                # the same at all parties, new with each version
    module: str = ""
    auto_retries: int = 0                # retries left
    tries: Tries = UNTRIED               # what its earlier versions have used up
    retry_at: int = 0                    # steady time at which it starts at the earliest
    reason: Reason | None = None
    message: str = ""
    exit_code: int | None = None         # of its worker, if there is one and the party reports it
    caused_by: str = ""                  # the party that is the cause of the reason
    without: tuple[str, ...] = ()        # parties that were missing when this share was started
    waits: str = ""                      # what a share that has not begun waits for, as text; empty: for nothing known
    waits_since: int = 0                 # steady time
    policy: str = ""                     # a policy's decision about this version, as in actions.MoveTask; at other
                                         # parties `restart_task` if the initiator says that the task starts again
    begins_again: bool = False           # at the initiator: when it was stopped, the task was to begin again
    target: TaskStatus | None = None     # the final status after `stopping`
    federated_reason: Reason | None = None     # of the whole task, as the initiator decided
    federated_message: str = ""
    federated_exit_code: int | None = None     # of the worker that is the cause
    federated_caused_by: str = ""
    federated_end_time: int = 0
    worker_id: str = ""
    create_time: int = 0
    start_time: int = 0
    end_time: int = 0

    @property
    def is_over_here(self) -> bool:
        return self.party_status in TASK_END

    @property
    def waits_for_a_place(self) -> bool:
        """Return whether the share was started, and its engine has no place for it yet."""
        is_started = self.status is TaskStatus.RUNNING and self.party_status is TaskStatus.WAITING
        return is_started and bool(self.waits)

    @property
    def is_final(self) -> bool:
        return self.status in TASK_END


@dataclass(frozen=True)
class WorkerPlace:
    """Where a worker runs, as its engine states it. This is for people: no rule depends on it."""

    pid: int                             # 0: the engine does not know it


@dataclass(frozen=True)
class Worker:
    """One process of a party task."""

    worker_id: str
    task: TaskKey
    status: WorkerStatus
    engine: str                          # the name of the engine that runs it
    handle: str                          # by which that engine finds it; nobody else reads it
    create_time: int = 0
    place: WorkerPlace | None = None     # None: it has not started, as far as is known
    is_stopping: bool = False
    start_time: int = 0
    end_time: int = 0
    since: int = 0                       # steady time at which its launch was ordered
    slot: int = 0                        # its place among the workers of its party task
    rank: int | None = 0                 # its number among the ranked workers; None: spare
    attempt: int = 0                     # the number of this process in its slot
    reason: Reason | None = None         # why it ended, or was ordered to stop
    message: str = ""                    # the reason as text
    caused_by: str = ""                  # the party that is the cause
    exit_status: str = ""                # the exit of the process: `exit code 1`, `signal 9`
    is_elastic: bool = False             # it runs on spare capacity, and ends when a job needs it
    cores: int = 0                       # of an elastic worker: held beside the claim of its job until it has exited
    memory: int = 0
    gpus: int = 0
    devices: tuple[str, ...] = ()        # the GPUs that its engine has given to it, until it has exited


@dataclass(frozen=True)
class WorkerEnd:
    """Why a worker ended, or is to end."""

    reason: Reason
    message: str
    caused_by: str                       # the party that is the cause
    exit_status: str = ""                # the exit of the process: `exit code 1`, `signal 9`


class CommandKind(Enum):
    """The kind of a command from one server to another; the value is the end of its v1 path (party-api-v1)."""

    CREATE = "create"
    STATUS = "status"
    CHECK = "dependence/check"
    APPLY = "resource/apply"
    RETURN = "resource/return"
    START = "start"
    UPDATE = "update"
    PARAMETERS = "parameter/update"         # change the parameters of a job that has not begun, or is over
    ALIGN = "align"                 # from plain v1 servers: does this job still run at your party?
    COMPARE = "document/compare"    # from another participant: which document has the job at your party?
    STOP = "stop"
    MODEL = "model"                 # from plain v1 servers: keep the model that the job has made
    CLEAN = "clean"
    FIND_REUSABLE = "component/inheritance/check"      # which components of another job can be reused?
    TASK_CREATE = "task create"
    TASK_START = "task start"
    TASK_STATUS = "task status"
    TASK_STOP = "task stop"
    TASK_COLLECT = "task collect"
    REPORT = "report"               # to the initiator: a party task changed its status
    ASK_STOP = "ask stop"           # to the initiator: stop the job
    ASK_RERUN = "ask rerun"         # to the initiator: run the ended job again
    CAPACITY = "room"               # to the initiator: this party has capacity again for the waiting job
    STANDING = "standing"           # to the initiator: does the job still run, and if not, how did it end?
    LOOK_AGAIN = "look again"       # to the initiator: this party was not ready, and may be ready now


@dataclass(frozen=True)
class Command:
    """A command, stored in the outbox or read from the wire."""

    kind: CommandKind
    job_id: str
    to: Party
    run: int = 0
    task: str = ""                                       # the component, for task commands
    version: int = 0
    argument: str = ""                                   # the status in status/<s> and stop/<s>
    body: Mapping[str, Any] = field(default_factory=dict)
    id: int = 0                                          # id of the outbox row; 0: not stored
    attempts: int = 0
    since: int = 0                                       # steady time at which it was stored
    salt: str = ""                                       # of its commitments in the record; hex; empty if there is none
    trace: str = field(default="", compare=False)        # the id of the trace of its job; empty if it is not known

    @property
    def task_key(self) -> TaskKey:
        return TaskKey(self.job_id, self.task, self.version, self.to)


@dataclass(frozen=True)
class Answer:
    """The answer to a command: the v1 envelope, or retcode 104 if no answer came."""

    retcode: int = 0
    retmsg: str = "success"
    data: Any = None
    is_named: bool = field(default=False, compare=False)      # its server names its party, which plain v1 does not
    is_recorded: bool = field(default=False, compare=False)   # its party has recorded the command and this answer

    @property
    def is_ok(self) -> bool:
        return self.retcode == 0

    @property
    def is_silence(self) -> bool:
        """Whether no answer came: the command may or may not have been carried out."""
        return self.retcode == UNREACHABLE


ANY_RUN = 1 << 30
"""The run in a command of a plain v1 peer, which knows no runs; it means the present run."""


@dataclass(frozen=True)
class EngineState:
    """One row of t_engine_registry. A row stays when its engine is taken out of the configuration."""

    name: str
    cores: int
    memory: int
    remaining_cores: int
    remaining_memory: int    # both: total minus use; below 0 while the configured total is smaller than the use
    nodes: int = 1
    section: str = ""        # the section of the configuration that describes it
    gpus: int = 0
    remaining_gpus: int = 0  # like remaining_cores

    @property
    def free_cores(self) -> int:
        return max(0, self.remaining_cores)

    @property
    def free(self) -> Claim:
        """Return what nobody has reserved."""
        return Claim(self.free_cores, max(0, self.remaining_memory), gpus=max(0, self.remaining_gpus))

    @property
    def in_all(self) -> Claim:
        """Return what an idle engine has."""
        return Claim(self.cores, self.memory, gpus=self.gpus)


@dataclass(frozen=True)
class Report:
    """A party's statement about its own share of a task."""

    task: TaskKey
    incarnation: str
    status: TaskStatus
    reason: Reason | None = None
    message: str = ""
    start_time: int = 0
    end_time: int = 0
    exit_code: int | None = None
    caused_by: str = ""
    waits: str = ""                      # what a share that has not begun waits for
    failed_workers: int = 0              # failed workers of this version, with replaced ones, if the job limits them
