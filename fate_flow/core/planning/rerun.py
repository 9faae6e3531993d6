"""Rerun of an ended job: which tasks run again, and the commands to every party.

The job waits in its next run. Late messages of the last run carry its number and are ignored. A task that succeeded
keeps its row and its outputs. A task that runs again gets a new version and incarnation, the same at all parties, and
its full number of attempts: a rerun uses up none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from fate_flow.core.model.dag import downstream_of
from fate_flow.core.model.errors import BadRequest, Conflict
from fate_flow.core.model.grammar import shown
from fate_flow.core.model.job import Command, CommandKind, Job, Seat, Task
from fate_flow.core.model.policy import may_complete_job
from fate_flow.core.model.reasons import Reason, job_status_for
from fate_flow.core.model.spec import JobSpec
from fate_flow.core.model.status import JobStatus, TaskStatus
from fate_flow.core.planning.actions import Action, BeginAgain, NewVersion, Plan, Rejoin, Send, Why
from fate_flow.core.planning.plain_v1 import task_row
from fate_flow.core.planning.view import JobView, leads, others, send
from fate_flow.core.wire.v1.endings import JobEnd
from fate_flow.core.wire.v1.initiator_bodies import RerunRequest
from fate_flow.core.wire.v1.job_bodies import LastRun, NewTask, NextRun, Parameters
from fate_flow.core.wire.v1.task_bodies import TaskCreate

KEPT = frozenset({TaskStatus.SUCCESS, TaskStatus.PASS})
"""Final statuses of tasks that a rerun keeps by default."""


def plan_rerun(view: JobView, request: RerunRequest, incarnations: Mapping[str, str]) -> Plan:
    """Return the plan of the rerun; an empty plan if no task has to run. `incarnations`: a fresh id for each task.

    Raises Conflict if the job is not over, if a policy ended it for good, or if its rerun would have no end;
    BadRequest for an unknown component."""
    job = view.job
    if not job.is_final:
        raise Conflict(
            f"job {job.job_id} is {job.status.value}: only a job that is over can be rerun; flow job stop ends it"
        )
    if job.reason is Reason.FAILED_BY_POLICY:
        raise Conflict(f"job {job.job_id} was ended for good by a policy ({job.message}): submit it again")
    anew = tasks_anew(view.spec, _statuses(view), request, job.changed, is_complete=job.status is JobStatus.SUCCESS)
    return tuple(_plan(view, [task for task in _versions(view, incarnations) if task.name in anew])) if anew else ()


def tasks_anew(
    spec: JobSpec, statuses: Mapping[str, TaskStatus], request: RerunRequest, changed: Collection[str] = (),
    *, is_complete: bool = False,
) -> frozenset[str]:
    """Return the names of the tasks that run again: also those with changed parameters, and all that depend on them.

    `is_complete`: the job has succeeded. Then a task that a policy stopped (`complete_job`) was no longer needed. It
    runs again only together with a task that can complete the job again.

    Raises BadRequest for an unknown component; Conflict if the stopped tasks would run without an end."""
    if request.component and request.component not in spec.tasks:
        known = ", ".join(spec.tasks)
        raise BadRequest(f"component_name: {shown(request.component)} is not one of this job's components: {known}")
    if request.force and not request.component:
        return frozenset(spec.tasks)
    named = frozenset({*changed, request.component} if request.component else changed)
    broken = frozenset(name for name, one in statuses.items() if one not in KEPT)
    if not is_complete:
        return downstream_of(spec, named | broken)
    anew = downstream_of(spec, named)
    if anew and broken and not any(may_complete_job((spec.tasks[one].policies, spec.policies)) for one in anew):
        again, stopped = (", ".join(sorted(names)) for names in (anew, broken))
        raise Conflict(
            f"nothing that would run again ({again}) completes the job; {stopped}, which its completion stopped, would "
            "run without an end: --force runs all tasks again"
        )
    return downstream_of(spec, anew | broken) if anew else anew


def why_nothing(job: Job, spec: JobSpec) -> str:
    """Return why a rerun of a job that succeeded starts no task."""
    how = f"all {len(spec.tasks)} have succeeded"
    if job.reason is Reason.COMPLETED_BY_POLICY:
        how = f"it was completed by a policy ({job.message})"
    return f"{how}; --force or --component-name runs them again"


def _statuses(view: JobView) -> dict[str, TaskStatus]:
    """Return how the newest version of each task ended; the federated status is the same in all its rows."""
    return {task.key.name: task.status for task in view.tasks}


def _versions(view: JobView, incarnations: Mapping[str, str]) -> Iterator[NewVersion]:
    newest = {task.key.name: task.key.version for task in view.tasks}
    for name, task in view.spec.tasks.items():
        why = Why(message=f"run {view.job.run + 1} begins")
        yield NewVersion(name, newest[name] + 1, incarnations[name], task.retry.retries, retry_at=0, why=why)


def _plan(view: JobView, versions: list[NewVersion]) -> Iterator[Action]:
    others = ", ".join(str(seat.party) for seat in view.seats if seat.party != view.job.party)
    begin = BeginAgain(f"not every party knows yet that it begins again: {others}" if others else "")
    yield from plan_again(view, begin, versions)


def plan_again(view: JobView, begin: BeginAgain, versions: list[NewVersion]) -> Iterator[Action]:
    """Move the ended job to `waiting` in its next run, create these versions, and tell every party."""
    yield begin
    yield from versions
    for seat in view.seats:
        yield Rejoin(seat)
    for seat in view.seats:
        yield from _tell_plain_v1(view, seat, versions) if seat.is_plain_v1 else _tell(view, seat, versions)


def tell_tasks(view: JobView, versions: list[NewVersion]) -> Iterator[Send]:
    """Tell the other parties all tasks of the new run, after `versions` were added to it."""
    known = {one.name for one in versions}
    begun = [
        NewVersion(lead.key.name, lead.key.version, lead.incarnation, lead.auto_retries, 0)
        for lead in leads(view)
        if lead.status is TaskStatus.WAITING and lead.key.version and lead.key.name not in known
    ]
    for seat in others(view):
        added = NextRun(_tasks_of(view, seat, [*versions, *begun]), _kept_of(view, seat, versions))
        yield send(view, seat, CommandKind.STATUS, JobStatus.WAITING.value, added.as_body())


def _tasks_of(view: JobView, seat: Seat, versions: Sequence[NewVersion]) -> dict[str, NewTask]:
    return {
        one.name: NewTask(one.version, one.incarnation, one.auto_retries)
        for one in versions
        if seat.party in view.spec.tasks[one.name].parties
    }


def _kept_of(view: JobView, seat: Seat, versions: Sequence[NewVersion]) -> dict[str, int]:
    anew = {one.name for one in versions}
    rows = (row for row in view.tasks if row.key.party == seat.party and row.key.name not in anew)
    return {row.key.name: row.key.version for row in rows if row.status in KEPT and row.party_status in KEPT}


def _tell(view: JobView, seat: Seat, versions: list[NewVersion]) -> Iterator[Send]:
    """Tell a party of ours in one command, so that it changes the rows of job and tasks in one transaction.

    The command also says how the last run ended, for a party that has not heard of it."""
    job = view.job
    assert job.reason is not None, "an ended job has a reason"
    last = LastRun(job_status_for(job.reason), JobEnd(job.reason, job.message, job.caused_by, job.exit_code))
    begins = NextRun(
        _tasks_of(view, seat, versions),
        _kept_of(view, seat, versions) or None,
        last,
        _parameters(view) if job.revision else None,
    )
    yield _status_waiting(view, seat, begins.as_body())


def _parameters(view: JobView) -> dict[str, Any]:
    """Return the changed parameters of the job, in case the party has missed the command that changed them."""
    spec, job = view.spec, view.job
    return Parameters(spec.changeable_conf, job.changed, job.revision, spec.disclosure).as_body()


def _tell_plain_v1(view: JobView, seat: Seat, versions: list[NewVersion]) -> Iterator[Send]:
    """Tell a plain v1 party as FATE does: first the row of each new version, then the status."""
    if view.job.revision:
        yield Send(
            Command(CommandKind.PARAMETERS, view.job.job_id, seat.party, view.job.run + 1, body=_parameters(view))
        )
    for task in _rows_at(view, seat, versions):
        new = next(one for one in versions if one.name == task.key.name)
        created = TaskCreate(new.incarnation, new.auto_retries)
        body = created.as_plain_v1(task_row(view, task.key, new.version))
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
