"""An ended job begins again: which tasks run anew, and what every party is told.

The job waits in its next run; whatever is late of the last one carries the old number and means nothing any more.
What succeeded keeps its row and its outputs; what runs anew has a new version and incarnation, the same at all
parties, and all its attempts before it, since a rerun costs nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fate_flow.core.actions import Action, BeginAgain, NewVersion, Plan, Rejoin, Send, Why
from fate_flow.core.dag import downstream_of
from fate_flow.core.errors import BadRequest, Conflict
from fate_flow.core.grammar import shown
from fate_flow.core.job import Command, CommandKind, Seat, Task
from fate_flow.core.parameters import parts_of
from fate_flow.core.reasons import Reason, job_status_for
from fate_flow.core.spec import JobSpec
from fate_flow.core.status import JobStatus, TaskStatus
from fate_flow.core.view import JobView, plain_task

KEPT = frozenset({TaskStatus.SUCCESS, TaskStatus.PASS})
"""A rerun keeps what has ended so, unless it is to be made again."""


@dataclass(frozen=True)
class Wish:
    """What a user asks for: from which component on (empty: no certain one), and whether successes count."""

    component: str = ""
    force: bool = False


def plan_rerun(view: JobView, wish: Wish, incarnations: Mapping[str, str]) -> Plan:
    """How the job begins again; `incarnations` are fresh ids, one for each of its tasks.

    No plan at all when everything has succeeded. Raises Conflict for a job that is not over, BadRequest for an unknown
    component."""
    job = view.job
    if not job.is_final:
        raise Conflict(
            f"job {job.job_id} is {job.status.value}: only a job that is over can be rerun; flow job stop ends it"
        )
    if job.reason is Reason.FAILED_BY_POLICY:
        raise Conflict(f"job {job.job_id} was ended for good by a policy ({job.message}): submit it again")
    anew = tasks_anew(view.spec, _statuses(view), wish, job.changed)
    return tuple(_plan(view, [task for task in _versions(view, incarnations) if task.name in anew])) if anew else ()


def tasks_anew(
    spec: JobSpec, statuses: Mapping[str, TaskStatus], wish: Wish, changed: Collection[str] = ()
) -> frozenset[str]:
    """Names of the tasks that run anew. Nothing keeps its success whose parameters are others, or whose inputs are
    made again.

    Raises BadRequest for a component that the job has not."""
    if wish.component and wish.component not in spec.tasks:
        known = ", ".join(spec.tasks)
        raise BadRequest(f"component_name: {shown(wish.component)} is not one of this job's components: {known}")
    if wish.force and not wish.component:
        return frozenset(spec.tasks)
    named = {*changed, wish.component} if wish.component else set(changed)
    return downstream_of(spec, frozenset(named | {name for name, one in statuses.items() if one not in KEPT}))


def _statuses(view: JobView) -> dict[str, TaskStatus]:
    """How the newest version of each task ended; the federated status is the same in all its rows."""
    return {task.key.name: task.status for task in view.tasks}


def _versions(view: JobView, incarnations: Mapping[str, str]) -> Iterator[NewVersion]:
    newest = {task.key.name: task.key.version for task in view.tasks}
    for name, task in view.spec.tasks.items():
        why = Why(message=f"run {view.job.run + 1} begins")
        yield NewVersion(name, newest[name] + 1, incarnations[name], task.retry.retries, retry_at=0, why=why)


def _plan(view: JobView, versions: list[NewVersion]) -> Iterator[Action]:
    others = ", ".join(str(seat.party) for seat in view.seats if seat.party != view.job.party)
    yield BeginAgain(f"not every party knows yet that it begins again: {others}" if others else "")
    yield from versions
    for seat in view.seats:
        yield Rejoin(seat)
    for seat in view.seats:
        yield from _tell_plain(view, seat, versions) if seat.legacy else _tell(view, seat, versions)


def _tell(view: JobView, seat: Seat, versions: list[NewVersion]) -> Iterator[Send]:
    """One command, so that the row of the job and those of its tasks change in one transaction there.

    How the last run ended rides along, for a party that has never heard of it."""
    job = view.job
    assert job.reason is not None, "what has ended says why"
    body = {
        "tasks": {
            one.name: {"version": one.version, "incarnation": one.incarnation, "auto_retries": one.auto_retries}
            for one in versions
            if seat.party in view.spec.tasks[one.name].parties
        },
        "last": {
            "status": job_status_for(job.reason).value, "reason": job.reason.value, "message": job.message,
            "caused_by": job.caused_by, **({} if job.exit_code is None else {"exit_code": job.exit_code}),
        },
        **({"parameters": _parameters(view)} if job.revision else {}),
    }  # fmt: skip
    yield _status_waiting(view, seat, body)


def _parameters(view: JobView) -> dict[str, Any]:
    """Those of a job that were changed: a party may have missed the news."""
    return {**parts_of(view.spec.conf), "components": list(view.job.changed), "revision": view.job.revision}


def _tell_plain(view: JobView, seat: Seat, versions: list[NewVersion]) -> Iterator[Send]:
    """As FATE does: the row of each new version, then the status."""
    if view.job.revision:
        yield Send(
            Command(CommandKind.PARAMETERS, view.job.job_id, seat.party, view.job.run + 1, body=_parameters(view))
        )
    for task in _rows_at(view, seat, versions):
        new = next(one for one in versions if one.name == task.key.name)
        body = {
            "incarnation": new.incarnation, "auto_retries": new.auto_retries,
            **plain_task(view, task.key, new.version),
        }  # fmt: skip
        yield Send(
            Command(
                CommandKind.TASK_CREATE, view.job.job_id, seat.party, view.job.run + 1, new.name, new.version, body=body
            )
        )
    yield _status_waiting(view, seat, {})


def _rows_at(view: JobView, seat: Seat, versions: list[NewVersion]) -> list[Task]:
    names = {one.name for one in versions}
    return [task for task in view.tasks if task.key.party == seat.party and task.key.name in names]


def _status_waiting(view: JobView, seat: Seat, body: Mapping[str, Any]) -> Send:
    waiting = JobStatus.WAITING.value
    return Send(
        Command(CommandKind.STATUS, view.job.job_id, seat.party, view.job.run + 1, argument=waiting, body=body)
    )
