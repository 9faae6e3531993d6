"""What the coordinator knows: jobs, seats, tasks, workers and commands, as values.

Frozen, so that what was read cannot drift from what is stored: a change is a move or a write in `store/`.
Times named `..._time` are milliseconds since the epoch: they are shown, and no rule depends on them but the order of
the queue, for which `create_time` never goes back. What is due or overdue is told by *steady time* (`since`,
`retry_at`, `stop_by`): the milliseconds that this party's schedulers have watched, whatever the clock on the wall does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from fate_flow.core.model.approval import Consent
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
class Claim:
    """What a reservation belongs to, and the token that whoever returns it must hold."""

    cores: int = 0
    memory: int = 0
    token: str = ""          # empty: nothing is held
    round_number: int = 0    # of the job, when it was last asked for
    renewals: int = 0        # how often it was asked for again
    taken_time: int = field(default=0, compare=False)     # when it was set aside the last time, for people


class Blocker(Enum):
    """Why a party did not reserve."""

    CAPACITY = "room"    # others hold it
    SIZE = "size"        # more was asked than it has in all
    ANSWER = "answer"    # it is silent or not ready: capacity there would change nothing
    APPROVAL = "approval"  # nobody there has approved the job yet


UNSCHEDULABLE = frozenset({Blocker.SIZE, Blocker.APPROVAL})
"""Capacity would not help: nobody waits behind a job that lacks one of these."""


@dataclass(frozen=True)
class PendingRequest:
    """What a party that had no capacity remembers of a seat. Times are steady time of that party."""

    since: int = 0           # of the first refusal; 0: it has refused nothing
    asked: int = 0           # when it was asked for last
    passes: int = 0          # of other jobs that have taken since what it lacks


@dataclass(frozen=True)
class Hold:
    """Somebody wants a job to have no reservation round, or a party to take in nothing, until it is released."""

    message: str
    by: str                  # as whoever asked for it called himself
    time: int = 0
    since: int = 0           # steady time

    @property
    def text(self) -> str:
        return f"on hold by {self.by}: {self.message}"


@dataclass(frozen=True)
class Job:
    """A job at one party. At the initiator's own seat (`is_initiator`) it is the job itself."""

    key: JobKey
    initiator: Party
    is_initiator: bool
    status: JobStatus
    run: int = 0
    parties: tuple[Party, ...] = ()
    target: JobStatus | None = None      # where `stopping` leads
    reason: Reason | None = None
    message: str = ""
    caused_by: str = ""                  # the party that gave the reason
    exit_code: int | None = None         # of the worker that is the cause, where one is
    cancel_requested: bool = False       # a request: f_cancel_signal
    ready_owner: str = ""                # whose schedule this is at the moment: f_ready_signal, f_ready_owner
    progress: int = 0
    claim: Claim = Claim()
    asked: Claim = Claim()               # cores and memory this seat needs
    wait_reason: str = ""                # why it waits, for people
    blocked_on: str = ""                 # the party id whose cores it lacks
    blocked_by: Blocker | None = None    # what it lacks there
    retry_at: int = 0                    # steady time: not asked for again before
    passes: int = 0                      # later jobs that took what it lacks
    conflicts: int = 0                   # reservation rounds that were rolled back since it last started
    round_number: int = 0                # counts the reservation rounds; fences returns that arrive late
    timeout_seconds: int = 0
    ttl_seconds: int | None = None       # what it left goes so long after its end; None: as retention has it
    create_time: int = 0
    since: int = 0                       # steady time at which its run began: the job was created, or begun again
    queued: int = 0                      # steady time since which, or from which on, it waits for cores
    start_time: int = 0
    end_time: int = 0
    stop_by: int = 0                     # steady time: the drain ends here at the latest
    is_force_stop: bool = False          # a request: what drains is to be killed now: f_stop_now
    unconfirmed: tuple[str, ...] = ()    # parties that never confirmed the end
    missing: tuple[str, ...] = ()        # parties that it succeeded without: it is partial
    is_plain_v1: bool = False            # the initiator speaks plain v1 only
    rerun_signal: bool = False           # it waits again, and not every party knows yet, or `retry_at` has not come
    pending: PendingRequest = PendingRequest()  # of this seat, for capacity at this party
    hold: Hold | None = None             # no reservation round while it waits
    consent: Consent | None = None       # what this party has said to a job of another; None: nobody has to
    priority: int = 0                    # higher first
    enqueued: int = 0                    # steady time at which it was created
    queue_key: int = 0                   # where it stands among the jobs of its initiator (core/planning/queue.py)
    timers: Mapping[str, int] = field(default_factory=dict)      # what has happened, and when its policy acts
    is_restarting: bool = False          # a policy begins its tasks again; those that run are still ending
    restarts: int = 0                    # how often one did, in this run
    revision: int = 0                    # how often its parameters were changed since it was submitted
    lost_since: int = 0                  # steady time since which it waits for a party that it lost; 0: it does not
    losses: int = 0                      # how often it has waited so since a user had it begin
    changed: tuple[str, ...] = ()        # components whose own ones were, since the present run began

    @property
    def job_id(self) -> str:
        return self.key.job_id

    @property
    def party(self) -> Party:
        return self.key.party

    @property
    def order(self) -> tuple[int, int, str]:
        """Its place among the jobs of its initiator: the smaller one goes first."""
        return (self.queue_key, self.create_time, self.job_id)

    @property
    def is_unschedulable(self) -> bool:
        """It waits for something that capacity would not give it: it has no reservation round when cores come free, and
        is no head."""
        return self.hold is not None or self.blocked_by in UNSCHEDULABLE

    @property
    def holds(self) -> bool:
        return bool(self.claim.token)

    @property
    def pauses(self) -> bool:
        """It waits until `retry_at`, for its next attempt."""
        return self.rerun_signal and self.retry_at > 0

    @property
    def is_final(self) -> bool:
        return self.status in JOB_END


@dataclass(frozen=True)
class Seat:
    """What the initiator knows of one party of the present run."""

    job_id: str
    party: Party
    status: SeatStatus
    run: int = 0
    message: str = ""
    free_cores: int = -1                 # what a refusal said is free; -1: unknown
    asked_cores: int = 0
    blocked_by: Blocker | None = None    # what the party that refused it lacks, as far as it said
    lease: int = 0                       # milliseconds the party keeps what it holds; 0: it did not say
    renew_at: int = 0                    # steady time: asked for again then
    is_plain_v1: bool = False            # the party speaks plain v1 only
    silent_since: int = 0                # steady time since which it counts as silent; 0: it answers
    approval: str = ""                   # with which words it has approved the job, where it had to


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
    party_status: TaskStatus             # what this party saw of its own share
    runs_here: bool                      # false: a row the initiator holds for another party
    incarnation: str = ""                # the same at all parties, new with each version
    module: str = ""
    auto_retries: int = 0                # left
    tries: Tries = UNTRIED               # what its earlier versions have used up
    retry_at: int = 0                    # steady time: not before
    reason: Reason | None = None
    message: str = ""
    exit_code: int | None = None         # of its worker, where that had one and the party says it
    caused_by: str = ""                  # the party that is the cause of the reason
    without: tuple[str, ...] = ()        # parties that were missing when this share was started
    policy: str = ""                     # what a policy has decided about this version, as actions.MoveTask has it
    target: TaskStatus | None = None     # where `stopping` leads
    federated_reason: Reason | None = None     # of the task over all its parties, as its initiator says
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
    def is_final(self) -> bool:
        return self.status in TASK_END


@dataclass(frozen=True)
class Worker:
    """One process of a party task."""

    worker_id: str
    task: TaskKey
    status: WorkerStatus
    folder: str
    create_time: int = 0
    pid: int = 0
    pid_started: int = 0
    is_stopping: bool = False
    start_time: int = 0
    end_time: int = 0
    since: int = 0                       # steady time at which it was ordered
    slot: int = 0                        # which of the workers of its party task it is
    rank: int | None = 0                 # its number among those that count; None: spare
    attempt: int = 0                     # which process this is in its slot
    reason: Reason | None = None         # how it ended, or why it was told to stop
    message: str = ""                    # the same in words
    caused_by: str = ""                  # the party that is the cause of it
    exit_status: str = ""                # how it ended, as the machine has it
    is_elastic: bool = False             # it came when there was capacity, and goes when somebody needs it
    cores: int = 0                       # of an elastic one: held beside the claim of its job until it has exited
    memory: int = 0


@dataclass(frozen=True)
class WorkerEnd:
    """How a worker has ended, or why it is to."""

    reason: Reason
    message: str
    caused_by: str                       # the party that is the cause of it
    exit_status: str = ""                # as the machine has it: `exit code 1`, `signal 9`


class CommandKind(Enum):
    """What one server asks of another; the value is the last part of the v1 path (party-api-v1)."""

    CREATE = "create"
    STATUS = "status"
    CHECK = "dependence/check"
    APPLY = "resource/apply"
    RETURN = "resource/return"
    START = "start"
    UPDATE = "update"
    PARAMETERS = "parameter/update"         # other parameters for a job that has not begun, or is over
    ALIGN = "align"                 # of plain v1 servers: "does this job still run at your place?"
    STOP = "stop"
    MODEL = "model"                 # of plain v1 servers: keep the model that the job has made
    CLEAN = "clean"
    FIND_REUSABLE = "component/inheritance/check"      # which components another job has done already
    TASK_CREATE = "task create"
    TASK_START = "task start"
    TASK_STATUS = "task status"
    TASK_STOP = "task stop"
    TASK_COLLECT = "task collect"
    REPORT = "report"               # to the initiator: a party task has moved
    ASK_STOP = "ask stop"           # to the initiator: end the job
    ASK_RERUN = "ask rerun"         # to the initiator: begin the ended job again
    CAPACITY = "room"               # to the initiator: there is capacity for a job that had none here
    STANDING = "standing"           # to the initiator: does the job still run, and if not how has it ended?
    LOOK_AGAIN = "look again"       # to the initiator: what this party was not ready for, it may be ready for now


@dataclass(frozen=True)
class Command:
    """One message of the outbox, or one that has just been read from the wire."""

    kind: CommandKind
    job_id: str
    to: Party
    run: int = 0
    task: str = ""                                       # the component, for task commands
    version: int = 0
    argument: str = ""                                   # the status of status/<s> and stop/<s>
    body: Mapping[str, Any] = field(default_factory=dict)
    id: int = 0                                          # of the outbox row; 0: not stored
    attempts: int = 0
    since: int = 0                                       # steady time at which it was stored

    @property
    def task_key(self) -> TaskKey:
        return TaskKey(self.job_id, self.task, self.version, self.to)


@dataclass(frozen=True)
class Answer:
    """What came back for a command: the v1 envelope, or 104 when nothing did."""

    retcode: int = 0
    retmsg: str = "success"
    data: Any = None

    @property
    def is_ok(self) -> bool:
        return self.retcode == 0

    @property
    def is_silence(self) -> bool:
        """No answer at all: the command may or may not have been carried out."""
        return self.retcode == UNREACHABLE


NO_CAPACITY = 103

ANY_RUN = 1 << 30
"""In a command of a plain v1 peer, which knows no runs: the present one."""

UNREACHABLE = 104
NOT_AUTHENTICATED = 109
NOT_EFFECTIVE = 10
NOT_READY = 106


@dataclass(frozen=True)
class EngineState:
    """One row of t_engine_registry."""

    name: str
    cores: int
    memory: int
    remaining_cores: int
    remaining_memory: int    # as cores: total less what is in use, below 0 while the configuration has less than that
    nodes: int = 1

    @property
    def free_cores(self) -> int:
        return max(0, self.remaining_cores)

    @property
    def free_memory(self) -> int:
        return max(0, self.remaining_memory)


@dataclass(frozen=True)
class Report:
    """What a party says of its own share of a task."""

    task: TaskKey
    incarnation: str
    status: TaskStatus
    reason: Reason | None = None
    message: str = ""
    start_time: int = 0
    end_time: int = 0
    exit_code: int | None = None
    caused_by: str = ""
    failed_workers: int = 0              # of this version, replaced ones too, where the job bounds them
