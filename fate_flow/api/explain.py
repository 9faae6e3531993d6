"""What `job/explain` and `job/validate` say: ours, not FATE's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from fate_flow.core.fate_v1_job_parameters import flat_parameters
from fate_flow.core.history import Entry
from fate_flow.core.job import Hold, Job, Seat, Task
from fate_flow.core.queue import why_it_waits
from fate_flow.core.resources import request_of
from fate_flow.core.spec import JobSpec, Party, TaskSpec
from fate_flow.core.status import JobStatus, TaskStatus
from fate_flow.store.views import JobPicture

# ---------------------------------------------------------------------- a job that is there


def explained(picture: JobPicture) -> dict[str, Any]:
    """How the job stands, why, and what each of its parties has to do with it."""
    job = picture.jobs[0]
    place = 0 if job.rerun_signal else picture.place       # what begins again later is not in the queue yet
    return {
        "job_id": job.job_id,
        **_party(job.party),
        "is_initiator": job.is_initiator,
        "initiator": _party(job.initiator),
        "status": _shown(job.status),
        "status_detail": job.status.value,
        "target": job.target.value if job.target else None,
        "reason": job.reason.value if job.reason else None,
        "message": job.message,
        "caused_by": job.caused_by,
        "progress": job.progress,
        "run": job.run,
        "wait_reason": _wait_reason(job, place),
        "place_in_queue": place or None,
        "passed_by": job.passes,
        "priority": job.priority,
        "hold": hold_of(job.hold),
        "parties": [_seat(seat) for seat in picture.seats] or [_own_seat(own) for own in picture.jobs],
        "tasks": _tasks(picture.tasks),
        "unconfirmed_parties": list(job.unconfirmed),
    }


def _wait_reason(job: Job, place: int) -> str:
    if place:
        return why_it_waits(job.wait_reason, place, job.hold)
    if job.rerun_signal:
        return job.wait_reason
    if job.status is JobStatus.READY:
        return "the parties are being asked to accept it"
    is_copy = job.status is JobStatus.WAITING and not job.is_initiator
    return f"waits for its initiator, {job.initiator}, which knows its place in the queue" if is_copy else ""


def hold_of(hold: Hold | None) -> dict[str, Any] | None:
    return None if hold is None else {"message": hold.message, "by": hold.by, "time": hold.time}


def _seat(seat: Seat) -> dict[str, Any]:
    return {
        **_party(seat.party),
        "status": seat.status.value,
        "message": seat.message,
        "asked_cores": seat.asked_cores,
        "free_cores": seat.free_cores if seat.free_cores >= 0 else None,
    }


def _own_seat(job: Job) -> dict[str, Any]:
    """What a party that is not the initiator knows: itself."""
    return {
        **_party(job.party),
        "status": _shown(job.status),
        "message": job.message,
        "asked_cores": job.asked.cores,
        "free_cores": None,
    }


def _tasks(tasks: Sequence[Task]) -> list[dict[str, Any]]:
    """One entry a task, in the order they were made, with all its parties."""
    first: dict[str, int] = {}
    for place, task in enumerate(tasks):
        first.setdefault(task.key.name, place)
    ordered = sorted(tasks, key=lambda task: (first[task.key.name], task.key.party))
    return [_task(name, list(rows)) for name, rows in groupby(ordered, key=lambda task: task.key.name)]


def _task(name: str, rows: list[Task]) -> dict[str, Any]:
    newest = rows[0]
    return {
        "component_name": name,
        "module": next((row.module for row in rows if row.module), ""),
        "task_version": newest.key.version,
        "status": _shown(newest.status),
        "retries_left": newest.auto_retries,
        "parties": [_party_task(row) for row in rows],
    }


def _party_task(task: Task) -> dict[str, Any]:
    return {
        **_party(task.key.party),
        "status": _shown(task.party_status),
        "status_detail": task.party_status.value,
        "reason": task.reason.value if task.reason else None,
        "message": task.message,
        "start_time": task.start_time or None,
        "end_time": task.end_time or None,
    }


def _shown(status: JobStatus | TaskStatus) -> str:
    """A client of the v1 API sees what is stopping as running."""
    return "running" if status in (JobStatus.STOPPING, TaskStatus.STOPPING) else status.value


def _party(party: Party) -> dict[str, str]:
    return {"role": party.role, "party_id": party.party_id}


def recounted(entry: Entry) -> dict[str, Any]:
    """One move of its history."""
    return {
        "time": entry.at,
        "level": entry.level.value,
        **(_party(entry.party) if entry.party else {"role": None, "party_id": None}),
        "component_name": entry.task or None,
        "task_version": entry.version if entry.task else None,
        "old": entry.old or None,
        "new": entry.new,
        "reason": entry.reason or None,
        "message": entry.message,
        "caused_by": entry.caused_by or None,
        "exit_status": entry.exit_status or None,
    }


# ---------------------------------------------------------------------- a job that is not there yet


def previewed(spec: JobSpec, nodes: int) -> dict[str, Any]:
    """What each party would run, with which parameters and cores; `nodes` are those of this party's engine."""
    return {
        "initiator": _party(spec.initiator),
        "parties": [_preview_of(spec, party, nodes) for party in spec.parties],
        "warnings": list(spec.warnings),
    }


def _preview_of(spec: JobSpec, party: Party, nodes: int) -> dict[str, Any]:
    parameters = spec.parameters[party]
    request = request_of(party, parameters, nodes)
    return {
        **_party(party),
        "cores": request.cores,
        "memory": request.memory,
        "task_cores": request.task_cores,
        "job_parameters": flat_parameters(parameters),
        "tasks": [_preview_task(task, party) for task in spec.tasks_of(party)],
    }


def _preview_task(task: TaskSpec, party: Party) -> dict[str, Any]:
    return {
        "component_name": task.name,
        "module": task.module,
        "need_run": party not in task.passed_at,
        "after": sorted(task.upstream),
        "parameters": dict(task.parameters.get(party, {})),
    }
