"""Deliberate bugs in what the initiator plans and takes in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import fate_flow.core.planning.actions as actions
import fate_flow.core.planning.plan as plan
import fate_flow.core.planning.plan_policy as plan_policy
import fate_flow.core.planning.plan_round as plan_round
import fate_flow.core.planning.plan_stop as plan_stop
import fate_flow.core.planning.plan_tasks as plan_tasks
import fate_flow.core.planning.replies as replies
from fate_flow.core.model.job import CommandKind, Task
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import SeatStatus, TaskStatus
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.initiator import answers, reports


def does_not_roll_back() -> AbstractContextManager[Any]:
    keep = plan_round._give_back

    def give_back(view: Any, refused: Any) -> Iterator[Any]:
        return (action for action in keep(view, refused) if isinstance(action, actions.MoveSeat))

    return patch.object(plan_round, "_give_back", give_back)


def forgets_to_tell_a_seat_to_stop() -> AbstractContextManager[Any]:
    return loses_its_last_word("stop", plan_policy, plan_tasks, plan_round)


def forgets_to_tell_a_seat_the_end() -> AbstractContextManager[Any]:
    return loses_its_last_word("end", plan, plan_stop, plan_tasks)


@contextmanager
def loses_its_last_word(name: str, *planners: Any) -> Iterator[None]:
    """The last command of this step is not sent, whoever takes the step."""
    keep = getattr(plan_stop, name)

    def without(*args: Any, **kwargs: Any) -> Iterator[Any]:
        found = list(keep(*args, **kwargs))
        return iter(found[:-1] if isinstance(found[-1], actions.Send) else found)

    with ExitStack() as stack:
        for planner in planners:
            stack.enter_context(patch.object(planner, name, without))
        yield


def takes_reports_of_older_versions() -> AbstractContextManager[Any]:
    keep = reports.take_report

    def take_report(unit: UnitOfWork, report: Any) -> bool:
        newest = [one for one in unit.tx.tasks(report.task.job_id) if one.key.name == report.task.name]
        key = replace(report.task, version=newest[0].key.version) if newest else report.task
        return keep(unit, replace(report, task=key, incarnation=""))

    return patch.object(reports, "take_report", take_report)


def starts_before_the_inputs() -> AbstractContextManager[Any]:
    def may_start(spec: Any, statuses: Any) -> tuple[str, ...]:
        return tuple(name for name in spec.tasks if statuses[name] is TaskStatus.WAITING)

    return patch.object(plan_tasks, "may_start", may_start)


def retries_while_the_gang_still_runs() -> AbstractContextManager[Any]:
    keep = plan_tasks._drain_task

    def over(row: Task) -> Task:
        return row if row.is_over_here else replace(row, party_status=TaskStatus.CANCELED, reason=Reason.STOPPED)

    return patch.object(plan_tasks, "_drain_task", lambda view, rows: keep(view, tuple(over(row) for row in rows)))


@contextmanager
def takes_a_check_for_a_hold() -> Iterator[None]:
    """A party that has answered the check counts as one that has reserved, and is not asked to."""
    keep = replies.handle_reply

    def handle_reply(seat: Any, command: Any, retcode: int, message: str, data: Any) -> Any:
        if command.kind is CommandKind.CHECK and seat.status is SeatStatus.CHECKING and retcode == 0:
            applying = replace(seat, status=SeatStatus.APPLYING)
            moves = (actions.MoveSeat(seat, applying.status), actions.MoveSeat(applying, SeatStatus.HELD))
            return replies.ReplyOutcome(moves)
        return keep(seat, command, retcode, message, data)

    waits = patch.object(plan_round, "_applies_at_once", lambda *_: False)
    with patch.object(answers, "handle_reply", handle_reply), waits:
        yield


def who_has_started_is_not_told_to_wait() -> AbstractContextManager[Any]:
    """Its seat alone goes back."""
    def wait_again(_: Any, seats: Any) -> Iterator[Any]:
        for seat in seats:
            yield actions.MoveSeat(seat, SeatStatus.JOINING)

    return patch.object(plan_round, "wait_again", wait_again)
