"""A view of a job in short, and what its plan says."""

from __future__ import annotations

from fate_flow.core.model.job import Command, CommandKind, Seat
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus, TaskStatus, check_move
from fate_flow.core.planning.actions import Action, MoveJob, MoveSeat, MoveTask, Send
from fate_flow.core.planning.plan import plan_job
from fate_flow.core.planning.view import JobView
from tests.kit.values import GUEST, HOST, INCARNATION, JOB_ID, NOW, OTHER, a_job, a_view

ALL = (GUEST, HOST, OTHER)
FULL = "has 1 of 8 cores free, 2 asked"


def to(party: Party, kind: CommandKind, argument: str = "", **body: object) -> Send:
    """A job command as the plan sends it."""
    return Send(Command(kind, JOB_ID, party, argument=argument, body=body))


def settled(party: Party, name: str, status: TaskStatus, reason: Reason, message: str = "", by: Party = GUEST) -> Send:
    """How a task has ended over all its parties, as another one of them is told."""
    why = {"reason": reason.value, "message": message, "caused_by": str(by)}
    return task_to(party, CommandKind.TASK_STATUS, name, status.value, incarnation=INCARNATION, **why)


def task_to(
    party: Party, kind: CommandKind, name: str = "a", argument: str = "", version: int = 0, **body: object
) -> Send:
    return Send(Command(kind, JOB_ID, party, 0, name, version, argument, body or {"incarnation": INCARNATION}))


def plan(view: JobView) -> list[Action]:
    """The plan, which is the same when it is asked for again and asks for no move that the tables do not have."""
    found = plan_job(view)
    assert plan_job(view) == found
    for action in found:
        check_is_legal(view, action)
    return list(found)


def check_is_legal(view: JobView, action: Action) -> None:
    if isinstance(action, MoveJob):
        check_move(view.job.status, action.new)
        assert action.new not in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.TIMEOUT) or action.reason
    elif isinstance(action, MoveSeat):
        assert action.seat in view.seats
        check_move(action.seat.status, action.new)
    elif isinstance(action, MoveTask):
        check_move(action.old, action.new)


def moves(found: list[Action], kind: type[Action]) -> list[Action]:
    return [action for action in found if isinstance(action, kind)]


S, R, F, T, C, W, P = (
    TaskStatus.SUCCESS, TaskStatus.RUNNING, TaskStatus.FAILED, TaskStatus.TIMEOUT, TaskStatus.CANCELED,
    TaskStatus.WAITING, TaskStatus.PASS,
)  # fmt: skip


# ---------------------------------------------------------------------- stopping and the end


def stopping(*those: Seat, tasks: tuple = (), reason: Reason = Reason.STOPPED_BY_USER, **job: object) -> JobView:
    known = {"reason": reason, "message": "enough", "target": JobStatus.CANCELED, "stop_by": NOW + 1, **job}
    return a_view(a_job(JobStatus.STOPPING, **known), seats=those, tasks=tasks)
