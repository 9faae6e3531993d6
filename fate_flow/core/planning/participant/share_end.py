"""How a worker ended, why its party's share of a task ends, and how the share is stopped.

`services/workers/` observes the workers and carries the decisions out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from signal import Signals

from fate_flow.core.model.job import Task, Worker, WorkerEnd
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import TaskStatus
from fate_flow.core.text.exit_codes import describe_exit_code, describe_signal

# ---------------------------------------------------------------------- how a worker ended


@dataclass(frozen=True)
class WorkerExit:
    """What a party sees of a worker that has ended."""

    is_lost: bool = False            # the process and its runner are gone and left no exit status
    cause: str = ""                  # exited, or a key of `_CAUSES`
    exit_code: int | None = None
    signal: int | None = None
    succeeded: bool = False          # the result file says so
    message: str = ""                # what went wrong, one line


def how_it_ended(task: Task, seen: WorkerExit) -> tuple[Reason, str]:
    """Return reason and message for the end of a worker. The reason of an ordered stop wins over its exit."""
    if task.party_status is TaskStatus.STOPPING:
        return task.reason or Reason.STOPPED, task.message
    if seen.is_lost:
        return Reason.WORKER_KILLED, seen.message or "the process and its runner are gone and left no exit status"
    if seen.cause in _CAUSES:
        reason, text = _CAUSES[seen.cause]
        # the message of a process that we have ended is only about our signal
        return reason, (seen.message if seen.cause in SAID_BY_THE_ENGINE else "") or text
    if seen.succeeded and seen.exit_code == 0:
        return Reason.DONE, ""
    if seen.message:
        return Reason.WORKER_ERROR, seen.message
    left = "although its result says success" if seen.succeeded else "and left no result"
    if not seen.signal:
        code = describe_exit_code(seen.exit_code) if seen.exit_code is not None else "no exit code"
        return Reason.WORKER_CRASHED, f"the process ended with {code} {left}"
    if seen.signal in _OWN_FAULTS:
        return Reason.WORKER_CRASHED, f"the process crashed with {describe_signal(seen.signal)} {left}"
    return Reason.WORKER_KILLED, f"the process ended with {describe_signal(seen.signal)} {left}"


def code_that_counts(seen: WorkerExit) -> int | None:
    """Return the exit code for the report of the share; None if it only follows from a signal of this party's own."""
    return None if seen.cause in _CAUSES else seen.exit_code


_OWN_FAULTS = frozenset({
    Signals.SIGSEGV, Signals.SIGABRT, Signals.SIGBUS, Signals.SIGFPE, Signals.SIGILL, Signals.SIGTRAP, Signals.SIGSYS,
})  # fmt: skip
"""Signals of a crash that the process causes itself; the next attempt would crash, too. Others come from outside."""

_CAUSES: Mapping[str, tuple[Reason, str]] = {
    "timeout": (Reason.TASK_TIMEOUT, "ran longer than the task may"),
    "out_of_memory": (Reason.OUT_OF_MEMORY, "used more memory than it may"),
    "server_lost": (Reason.SERVER_LOST, "its own server was gone for too long"),
    "not_started": (Reason.LAUNCH_FAILED, "the program could not be started"),
    "stopped": (Reason.WORKER_KILLED, "was stopped from outside"),
    "lost": (Reason.WORKER_KILLED, "its runner has left no end"),
    "preempted": (Reason.PREEMPTED, "another job took its place"),
    "node_lost": (Reason.NODE_LOST, "its node failed"),
    "not_placed": (Reason.NOT_PLACED, "waited for too long for a place to run"),
}

SAID_BY_THE_ENGINE = frozenset({"not_started", "out_of_memory", "lost", "preempted", "node_lost", "not_placed"})
"""Causes whose message is the engine's, not the worker's."""


def end_of_worker(worker: Worker, task: Task, reason: Reason, message: str, exit_status: str) -> WorkerEnd:
    """Return why a worker has exited: with the reason of its stop if it was told to stop, else with this reason."""
    if worker.is_stopping and worker.reason is not None:
        return WorkerEnd(worker.reason, worker.message, worker.caused_by, exit_status)
    cause = task.caused_by if task.party_status is TaskStatus.STOPPING else ""
    return WorkerEnd(reason, message, cause or str(task.key.party), exit_status)


# ---------------------------------------------------------------------- stopping a share


class StopStep(Enum):
    """What a stop means for a party's share of a task."""

    NOTHING = "nothing"      # it is over, or stops already
    KILL = "kill"            # it stops already, and the caller waits no longer for its workers
    END = "end"              # no worker lives: write its final status
    STOP = "stop"            # its workers end first


def plan_share_stop(task: Task, *, has_workers: bool, deadline_seconds: float | None) -> StopStep:
    """Decide how a share stops; `has_workers`: a worker of it lives; `deadline_seconds`: the caller waits no longer."""
    if task.is_over_here:
        return StopStep.NOTHING
    if task.party_status is TaskStatus.STOPPING:
        return StopStep.KILL if has_workers and deadline_seconds == 0 else StopStep.NOTHING
    return StopStep.STOP if has_workers else StopStep.END


def why_workers_stop(task: Task, reason: Reason, message: str, caused_by: str) -> WorkerEnd:
    """Return why the workers of a share are told to stop, if it stops for this reason."""
    text = message or ("" if reason is Reason.STOPPED else reason.value)
    return WorkerEnd(Reason.STOPPED, text, caused_by or str(task.key.party))


@dataclass(frozen=True)
class ShareEnd:
    """Why a share ends; an empty `caused_by` means its own party."""

    reason: Reason
    message: str = ""
    caused_by: str = ""


def why_share_ends(task: Task, given: ShareEnd) -> ShareEnd:
    """Return why the share ends. The reason of an ordered stop wins over how the workers ended."""
    if task.party_status is TaskStatus.STOPPING and task.reason is not None:
        return ShareEnd(task.reason, task.message, task.caused_by)
    return given
