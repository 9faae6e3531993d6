"""The statuses and their move tables: the only definition of which status may follow which.

There are four state machines. A *job* row exists once per party. At the initiator it is the job itself; elsewhere it
is that party's copy, moved by the initiator's commands. A *task* row has two statuses of one machine: the federated
status, decided by the initiator, and `party_status`, the status of this party's own share. A *seat* is the initiator's
record of one party in one run of a job. A *worker* is one process.

`stopping` comes before a final status if something has to drain first. It has a target, a reason, a message and a
deadline, and only one side may end it: the party for its party task, the initiator for the task and the job. A final
row never changes, except by the rerun of a job, which moves it back to `waiting` and counts up `run`. A task that runs
again is a new row with a new version.

`docs/explanation/state-machines.md` has the diagrams, made from these tables (`python -m fate_flow.core.diagram`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class _Status(Enum):
    """A member equals only itself, so its identity is its hash. The hash of `Enum` is a function in Python, and rules
    look for statuses in sets all the time."""

    __hash__ = object.__hash__


class JobStatus(_Status):
    READY = "ready"        # not all parties have accepted it yet
    WAITING = "waiting"    # accepted by all parties; it waits for cores
    RUNNING = "running"    # every party accepted `start`
    STOPPING = "stopping"  # it gets its target as status when everything has drained
    SUCCESS = "success"
    FAILED = "failed"
    CANCELED = "canceled"
    TIMEOUT = "timeout"


class TaskStatus(_Status):
    WAITING = "waiting"
    RUNNING = "running"
    STOPPING = "stopping"
    PASS = "pass"          # the component does not run (`need_run: false`)
    SUCCESS = "success"
    FAILED = "failed"
    CANCELED = "canceled"
    TIMEOUT = "timeout"


class SeatStatus(_Status):
    JOINING = "joining"      # `create`, or the command that the job waits again, is sent
    JOINED = "joined"        # the party accepted; it holds nothing
    REFUSED = "refused"      # the party does not take part
    CHECKING = "checking"    # `dependence/check` is sent
    APPLYING = "applying"    # `resource/apply` is sent
    HELD = "held"            # the party has reserved cores under a lease
    STARTING = "starting"    # `start` is sent
    STARTED = "started"      # the party runs tasks
    STOPPING = "stopping"    # `stop` is sent
    DRAINING = "draining"    # the party accepted `stop`; its workers are ending
    LEAVING = "leaving"      # the final status is sent
    LEFT = "left"            # the party knows the final status and holds nothing
    UNCONFIRMED = "unconfirmed"  # the party did not confirm the end; its own lease ends its share


class WorkerStatus(_Status):
    CREATED = "created"    # the launch was ordered
    RUNNING = "running"    # its runner reported a process
    EXITED = "exited"


Status = JobStatus | TaskStatus | SeatStatus | WorkerStatus

_JOB_END = frozenset({JobStatus.SUCCESS, JobStatus.FAILED, JobStatus.CANCELED, JobStatus.TIMEOUT})
_JOB_BROKEN = _JOB_END - {JobStatus.SUCCESS}
_AGAIN = frozenset({JobStatus.WAITING})

JOB_MOVES: Mapping[JobStatus, frozenset[JobStatus]] = {
    JobStatus.READY: frozenset({JobStatus.WAITING}) | _JOB_BROKEN,
    JobStatus.WAITING: frozenset({JobStatus.RUNNING, JobStatus.STOPPING}) | _JOB_END,
    # to waiting: its next attempt is so far off that it releases its cores until then
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
"""The party is told to stop, or told the final status; the initiator's own seat has left at once."""

_REJOINS = frozenset({SeatStatus.JOINING})
"""The job waits again, and the party has to be told. Either the job had ended and starts its next run, perhaps before
the party has confirmed the end; or its next attempt in the same run is far off."""

SEAT_MOVES: Mapping[SeatStatus, frozenset[SeatStatus]] = {
    SeatStatus.JOINING: frozenset({SeatStatus.JOINED, SeatStatus.REFUSED}) | _OUT,
    # to held: the party was asked to reserve with `create`
    SeatStatus.JOINED: frozenset({SeatStatus.CHECKING, SeatStatus.HELD}) | _OUT,
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
"""Final statuses of a task that ended badly, so that the job cannot simply go on."""
JOB_UNFINISHED = frozenset(JobStatus) - _JOB_END
TASK_UNFINISHED = frozenset(TaskStatus) - _TASK_END

_TABLES: Mapping[type[Enum], Mapping[Enum, frozenset[Enum]]] = {
    JobStatus: JOB_MOVES,  # type: ignore[dict-item]  # one table for each machine; each has its own key type
    TaskStatus: TASK_MOVES,  # type: ignore[dict-item]
    SeatStatus: SEAT_MOVES,  # type: ignore[dict-item]
    WorkerStatus: WORKER_MOVES,  # type: ignore[dict-item]
}


class IllegalMove(Exception):
    """A move that no table has: a defect of this program, never an answer to a caller."""


def may_move(old: Status, new: Status) -> bool:
    return type(old) is type(new) and new in _TABLES[type(old)][old]


def check_move(old: Status, new: Status) -> None:
    if not may_move(old, new):
        raise IllegalMove(f"{type(old).__name__}: {old.value} -> {new.value}")
