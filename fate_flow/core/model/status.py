"""The statuses and their move tables: the only place that says what may follow what.

Four machines. A *job* row exists once per party; at the initiator it is the job, elsewhere it is that
party's copy, moved by what the initiator commands. A *task* row carries two statuses of one machine: the
federated one, decided by the initiator, and `party_status`, what this party saw of its own share. A *seat* is the
initiator's knowledge of one party of one run of a job. A *worker* is one process.

`stopping` comes before every terminal status that has something to drain. It carries its target, a reason, a
message and a deadline, and only the finaliser of its level may leave it: the party for its party task, the
initiator for the task and the job. A terminal row never changes, but for the rerun of a job, which leads back to
`waiting` and counts up `run`; a task that runs again is a new row with a new version.

`docs/explanation/architecture.md` holds the diagrams, made from these tables (`python -m fate_flow.core.diagram`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class JobStatus(Enum):
    READY = "ready"        # parties are still being asked to accept
    WAITING = "waiting"    # accepted everywhere; queues for cores
    RUNNING = "running"    # every party accepted `start`
    STOPPING = "stopping"  # ends as its target says, once everything has drained
    SUCCESS = "success"
    FAILED = "failed"
    CANCELED = "canceled"
    TIMEOUT = "timeout"


class TaskStatus(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    STOPPING = "stopping"
    PASS = "pass"          # the component was told not to run (`need_run: false`)
    SUCCESS = "success"
    FAILED = "failed"
    CANCELED = "canceled"
    TIMEOUT = "timeout"


class SeatStatus(Enum):
    JOINING = "joining"      # `create`, or the message that it waits again, is on its way
    JOINED = "joined"        # accepted; holds nothing
    REFUSED = "refused"      # will not take part
    CHECKING = "checking"    # `dependence/check` is on its way
    APPLYING = "applying"    # `resource/apply` is on its way
    HELD = "held"            # cores are set aside under a lease
    STARTING = "starting"    # `start` is on its way
    STARTED = "started"      # runs tasks
    STOPPING = "stopping"    # `stop` is on its way
    DRAINING = "draining"    # it has accepted `stop`; its workers are ending
    LEAVING = "leaving"      # the final status is on its way
    LEFT = "left"            # knows the final status; holds nothing
    UNCONFIRMED = "unconfirmed"  # never answered; its own lease ends it


class WorkerStatus(Enum):
    CREATED = "created"    # launch was ordered
    RUNNING = "running"    # its runner has reported a process
    EXITED = "exited"


Status = JobStatus | TaskStatus | SeatStatus | WorkerStatus

_JOB_END = frozenset({JobStatus.SUCCESS, JobStatus.FAILED, JobStatus.CANCELED, JobStatus.TIMEOUT})
_JOB_BROKEN = _JOB_END - {JobStatus.SUCCESS}
_AGAIN = frozenset({JobStatus.WAITING})

JOB_MOVES: Mapping[JobStatus, frozenset[JobStatus]] = {
    JobStatus.READY: frozenset({JobStatus.WAITING}) | _JOB_BROKEN,
    JobStatus.WAITING: frozenset({JobStatus.RUNNING, JobStatus.STOPPING}) | _JOB_END,
    # back: its next attempt is so far off that it gives its cores back until then
    JobStatus.RUNNING: frozenset({JobStatus.STOPPING, JobStatus.WAITING}) | _JOB_END,
    JobStatus.STOPPING: _JOB_END,
    JobStatus.SUCCESS: _AGAIN,
    JobStatus.FAILED: _AGAIN,
    JobStatus.CANCELED: _AGAIN,
    JobStatus.TIMEOUT: _AGAIN,
}

_TASK_BROKEN = frozenset({TaskStatus.FAILED, TaskStatus.CANCELED, TaskStatus.TIMEOUT})
_TASK_END = _TASK_BROKEN | {TaskStatus.SUCCESS, TaskStatus.PASS}

TASK_MOVES: Mapping[TaskStatus, frozenset[TaskStatus]] = {
    TaskStatus.WAITING: frozenset({TaskStatus.RUNNING, TaskStatus.STOPPING}) | _TASK_END,
    TaskStatus.RUNNING: frozenset({TaskStatus.STOPPING}) | _TASK_END,
    TaskStatus.STOPPING: _TASK_BROKEN | {TaskStatus.SUCCESS},
    TaskStatus.PASS: frozenset(),
    TaskStatus.SUCCESS: frozenset(),
    TaskStatus.FAILED: frozenset(),
    TaskStatus.CANCELED: frozenset(),
    TaskStatus.TIMEOUT: frozenset(),
}

_OUT = frozenset({SeatStatus.STOPPING, SeatStatus.LEAVING, SeatStatus.LEFT})
"""Stopped, told the end, or, for the initiator's own seat, at the end at once."""

_REJOINS = frozenset({SeatStatus.JOINING})
"""The job waits again, and the party is to know: in its next run, where it had ended, also before the party has said
that it knows the end; in the same run, where its next attempt is far off."""

SEAT_MOVES: Mapping[SeatStatus, frozenset[SeatStatus]] = {
    SeatStatus.JOINING: frozenset({SeatStatus.JOINED, SeatStatus.REFUSED}) | _OUT,
    SeatStatus.JOINED: frozenset({SeatStatus.CHECKING}) | _OUT,
    SeatStatus.REFUSED: _REJOINS,
    SeatStatus.CHECKING: frozenset({SeatStatus.APPLYING, SeatStatus.JOINED}) | _OUT,
    SeatStatus.APPLYING: frozenset({SeatStatus.HELD, SeatStatus.JOINED}) | _OUT,
    SeatStatus.HELD: frozenset({SeatStatus.STARTING, SeatStatus.JOINED}) | _OUT,
    SeatStatus.STARTING: frozenset({SeatStatus.STARTED, SeatStatus.JOINED}) | _OUT,
    SeatStatus.STARTED: _OUT | _REJOINS,
    SeatStatus.STOPPING: frozenset({SeatStatus.DRAINING, SeatStatus.UNCONFIRMED}),
    SeatStatus.DRAINING: frozenset({SeatStatus.LEAVING, SeatStatus.LEFT, SeatStatus.UNCONFIRMED}),
    SeatStatus.LEAVING: frozenset({SeatStatus.LEFT, SeatStatus.UNCONFIRMED}) | _REJOINS,
    SeatStatus.LEFT: _REJOINS,
    SeatStatus.UNCONFIRMED: frozenset({SeatStatus.LEFT}) | _REJOINS,
}

WORKER_MOVES: Mapping[WorkerStatus, frozenset[WorkerStatus]] = {
    WorkerStatus.CREATED: frozenset({WorkerStatus.RUNNING, WorkerStatus.EXITED}),
    WorkerStatus.RUNNING: frozenset({WorkerStatus.EXITED}),
    WorkerStatus.EXITED: frozenset(),
}

JOB_END = _JOB_END
TASK_END = _TASK_END
TASK_BROKEN = _TASK_BROKEN
"""A task that ended badly: what interrupts the job."""
JOB_UNFINISHED = frozenset(JobStatus) - _JOB_END
TASK_UNFINISHED = frozenset(TaskStatus) - _TASK_END

_TABLES: Mapping[type[Enum], Mapping[Enum, frozenset[Enum]]] = {
    JobStatus: JOB_MOVES,  # type: ignore[dict-item]  # one table a machine; the key type says which
    TaskStatus: TASK_MOVES,  # type: ignore[dict-item]
    SeatStatus: SEAT_MOVES,  # type: ignore[dict-item]
    WorkerStatus: WORKER_MOVES,  # type: ignore[dict-item]
}


class IllegalMove(Exception):
    """A move that no table has: a defect of ours, never an answer to a caller."""


def may_move(old: Status, new: Status) -> bool:
    return type(old) is type(new) and new in _TABLES[type(old)][old]


def check_move(old: Status, new: Status) -> None:
    if not may_move(old, new):
        raise IllegalMove(f"{type(old).__name__}: {old.value} -> {new.value}")
