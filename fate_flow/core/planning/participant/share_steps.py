"""What a participant does about a worker that has not started, and about a share one of whose workers has ended.

`services/workers/watch.py` and `services/workers/launching.py` carry it out.
"""

from __future__ import annotations

from enum import Enum

from fate_flow.core.model.job import Task, Worker
from fate_flow.core.model.status import TaskStatus

_BEGINNING = (TaskStatus.WAITING, TaskStatus.RUNNING)


def is_to_end(worker: Worker, task: Task) -> bool:
    """Return whether the worker was told to stop, alone or with its share."""
    return worker.is_stopping or task.party_status is TaskStatus.STOPPING


class LaunchStep(Enum):
    """What happens to a worker whose process has not started."""

    WAIT = "wait"
    AGAIN = "again"              # launch it again, in case the server died between the row and the launch
    GIVE_UP = "give up"          # its launch has failed


def plan_launch(worker: Worker, task: Task, waited: int, *, longest: int, again_after: int) -> LaunchStep:
    """Decide about a worker that has not started. All times are milliseconds: `waited` since its launch was ordered,
    at most `longest`; from `again_after` on it is launched again."""
    if waited > longest:
        return LaunchStep.GIVE_UP
    is_wanted = task.party_status in _BEGINNING and not worker.is_stopping
    return LaunchStep.AGAIN if is_wanted and waited >= again_after else LaunchStep.WAIT


class ShareStep(Enum):
    """What happens to a share after a worker of it has ended."""

    NOTHING = "nothing"          # it is over, or other workers of it still end
    END = "end"                  # as its only worker has ended
    END_STOPPED = "end stopped"  # its last worker has ended, after a stop
    GO_ON = "go on"              # its program says how: `replicas.next_step`


def plan_share(task: Task, *, is_program: bool, has_living: bool) -> ShareStep:
    """Decide how a share goes on. `is_program`: it may have several workers; `has_living`: one of them lives."""
    if not is_program:
        return ShareStep.END
    if task.party_status is TaskStatus.STOPPING:
        return ShareStep.NOTHING if has_living else ShareStep.END_STOPPED
    return ShareStep.NOTHING if task.is_over_here else ShareStep.GO_ON
