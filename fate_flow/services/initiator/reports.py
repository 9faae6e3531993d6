"""Taking the reports of other parties on their shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fate_flow.core.access.authority import Said, objection
from fate_flow.core.model.job import CommandKind, Report, TaskKey
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import TASK_END, TaskStatus
from fate_flow.core.planning.gang import GATHERED
from fate_flow.core.wire.v1.reports import read_report
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.unit_of_work import UnitOfWork, binding_of
from fate_flow.services.workers.failed_workers import take_count
from fate_flow.services.workers.moves import note_share
from fate_flow.services.workers.reports import within_its_say


def take_report_of(unit: UnitOfWork, body: Mapping[str, Any], caller: str) -> None:
    """Take a report that came with the answer to a heartbeat, like one that the party sends itself."""
    report = read_report(body)
    job = unit.tx.job_here(report.task.job_id) if report is not None else None
    if report is None or job is None:
        return
    said = Said(CommandKind.REPORT, caller, unit.context.party_id, report.task.party)
    if not objection(said, binding_of(job)):
        take_report(unit, report)


def take_body(unit: UnitOfWork, body: Mapping[str, Any], party: Party) -> None:
    """Take a report in this party's answer to a command; ignore it if it is on the share of another party."""
    report = read_report(body)
    if report is not None and report.task.party == party:
        take_report(unit, report)


def take_report(unit: UnitOfWork, report: Report) -> bool:
    """Take a party's report on its share; False if it is out of date: another version, incarnation or order."""
    task = unit.tx.task(report.task)
    if task is None or task.runs_here:
        return False
    if report.incarnation and report.incarnation != task.incarnation:
        text = f"a report on {report.task} of another incarnation was refused"
        unit.note(Event.JOB_WARNING, job_id=report.task.job_id, text=text)
        return False
    unit.touch(report.task.job_id)
    report = _within_its_say(unit, report)
    take_count(unit, report)
    if report.status is TaskStatus.WAITING is task.party_status:
        counts_anew = report.waits == GATHERED
        unit.tx.note_waiting(report.task, report.waits, unit.steady, counts_anew=counts_anew)
        return True
    if report.status in (TaskStatus.SUCCESS, TaskStatus.STOPPING) and task.party_status is TaskStatus.WAITING:
        # The report of `running` was lost or comes later; this one implies it.
        start = report.start_time or unit.now
        if unit.tx.take_report(task, replace(report, status=TaskStatus.RUNNING, reason=None, start_time=start)):
            note_share(unit, task, TaskStatus.RUNNING, None, "")
        task = unit.tx.task(report.task) or task
    if unit.tx.take_report(task, _ended(report, unit.now)):
        note_share(unit, task, report.status, report.reason, report.message, report.caused_by)
        return True
    now = unit.tx.task(report.task)
    if now is None or now.party_status is task.party_status:
        return False
    return take_report(unit, report)      # another process of this server moved it meanwhile: decide again


def _within_its_say(unit: UnitOfWork, said: Report) -> Report:
    """Return the part of a report that a party may state, and log the rest."""
    job = unit.tx.job_here(said.task.job_id)
    taken = within_its_say(said, job.parties if job is not None else ())
    for key, asked, found in (
        ("reason", said.reason and said.reason.value, taken.reason and taken.reason.value),
        ("caused_by", said.caused_by, taken.caused_by),
    ):
        if asked and asked != found:
            text = f"a report on {said.task}: {key} {asked} is not for a party to say, taken as {found or 'none'}"
            unit.note(Event.JOB_WARNING, job_id=said.task.job_id, text=text)
    return taken


def _ended(report: Report, now: int) -> Report:
    """Return the report with an end time if it is final; a plain v1 peer may send none."""
    if report.end_time or report.status not in TASK_END:
        return report
    return replace(report, end_time=now)


def uncollected(unit: UnitOfWork) -> set[TaskKey]:
    """Return the shares that run at plain v1 parties."""
    found = set()
    for seat in unit.tx.plain_v1_seats():
        for task in unit.tx.tasks(seat.job_id):
            is_running = task.status in (TaskStatus.RUNNING, TaskStatus.STOPPING)
            if task.key.party == seat.party and is_running and not task.is_over_here:
                found.add(task.key)
    return found
