"""The answers of `job/explain` and `job/validate`, which are ours, not FATE's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from fate_flow.api.v1.rendering.job_engines import Here, may_be_beside
from fate_flow.api.v1.rendering.queue import blocked_text, hold_of, party_of, waits_for
from fate_flow.core.model.errors import UNREACHABLE
from fate_flow.core.model.history import HistoryEntry
from fate_flow.core.model.job import Answer, Blocker, Job, Seat, Task, TaskKey, Worker
from fate_flow.core.model.modules import ModuleInfo, has_replicas
from fate_flow.core.model.resources import Request
from fate_flow.core.model.spec import JobSpec, Party, TaskSpec
from fate_flow.core.model.status import TASK_BROKEN, JobStatus, TaskStatus
from fate_flow.core.planning.condition import (
    RESTARTING,
    Condition,
    Restart,
    condition_of,
    condition_of_copy,
    troubles_of,
    waiting_shares,
)
from fate_flow.core.planning.elastic import count_elastic
from fate_flow.core.planning.gang import failed_row
from fate_flow.core.planning.policy_events import PolicyMatch, pending_matches
from fate_flow.core.planning.queue import why_a_copy_waits, why_it_waits
from fate_flow.core.planning.replicas import COLLECTOR
from fate_flow.core.planning.view import JobView
from fate_flow.core.wire.v1.queries import effective_in, is_preview
from fate_flow.jobspec.fate_v1.job_parameters import flat_parameters
from fate_flow.jobspec.sources import DOCUMENT, PartyValues, Sourced, Sources
from fate_flow.jobspec.text.lines import Lines
from fate_flow.store.views.job_names import named_jobs
from fate_flow.store.views.snapshots import JobSnapshot

# ---------------------------------------------------------------------- an existing job


def needs_spec(snapshot: JobSnapshot, modules: Mapping[str, ModuleInfo]) -> bool:
    """Return whether the explanation needs the specification: if policies are pending, something is ending or retried,
    running workers here may be elastic, or tasks may be on another engine than their job."""
    job, running = snapshot.jobs[0], [task for task in snapshot.tasks if task.party_status is TaskStatus.RUNNING]
    is_ending = job.status is JobStatus.STOPPING or any(task.status is TaskStatus.STOPPING for task in snapshot.tasks)
    is_retrying = any(task.key.version and task.status is TaskStatus.WAITING for task in snapshot.tasks)
    may_be_elastic = any(has_replicas(modules, task.module) for task in running if task.runs_here)
    return bool(job.timers) or is_ending or is_retrying or may_be_elastic or may_be_beside(snapshot)


def explained(
    snapshot: JobSnapshot, here: Here, spec: JobSpec | None = None, *, now: int, order: Sequence[str] = (),
    limit: int = 0, least_ttl: int = 0, no_space: str = "",
) -> dict[str, Any]:
    """Return the state of the job, its reason, and the state of each of its parties; `spec`: needed if `needs_spec`.

    `now`: of this server's clock. `order`: of the tasks. `limit`: milliseconds after which a silent party is given up.
    `least_ttl`: seconds for which this party keeps every ended job. `no_space`: why this party takes nothing new."""
    job, condition = snapshot.jobs[0], _condition(snapshot, spec, limit)
    place = 0 if job.rerun_signal else snapshot.place      # a job that will begin again later is not in the queue yet
    return {
        "job_id": job.job_id,
        "name": snapshot.name,
        **party_of(job.party),
        "is_initiator": job.is_initiator,
        "initiator": party_of(job.initiator),
        "initiator_trouble": _initiator_trouble(snapshot),
        "status": _shown(job.status),
        "status_detail": RESTARTING if condition.is_restarting else job.status.value,
        "target": job.target.value if job.target else None,
        "reason": job.reason.value if job.reason else None,
        "message": job.message,
        "caused_by": job.caused_by,
        "exit_code": job.exit_code,
        "progress": job.progress,
        "run": job.run,
        "time": now,
        "create_time": job.create_time,
        "start_time": job.start_time or None,
        "end_time": job.end_time or None,
        "ttl": job.ttl_seconds,
        "removed_after": _removed_after(job, least_ttl),
        "waiting_seconds": _waiting_seconds(job, snapshot.steady),
        "wait_reason": _wait_reason(snapshot, place) or condition.text,
        "place_in_queue": place or None,
        "passed_by": job.passes,
        "passers": named_jobs(job.passers, snapshot.passers),
        "priority": job.priority,
        "hold": hold_of(job.hold),
        "lacks": job.blocked_by.value if job.blocked_by else None,
        "waits_for": waits_for(job),
        "awaiting_approval": [str(seat.party) for seat in snapshot.seats if seat.blocked_by is Blocker.APPROVAL],
        "approval": _consent(job, snapshot.digest),
        "parties": [_seat(seat, condition, here) for seat in snapshot.seats]
        or [_own_seat(own, here) for own in snapshot.jobs],
        "tasks": _tasks(snapshot, spec, order, condition, here),
        "partial": bool(job.missing),
        "missing_parties": list(job.missing),
        "restarts": job.restarts,
        "pending_policies": _pending_policies(snapshot, spec),
        "unconfirmed_parties": list(job.unconfirmed),
        "no_space": no_space,
        "newest_metric": snapshot.newest_metric,
    }


def _removed_after(job: Job, least: int) -> int | None:
    """Return when an ended job is removed here; None if it has no ttl."""
    if not job.is_final or job.ttl_seconds is None:
        return None
    return job.end_time + max(job.ttl_seconds, least) * 1_000


def _condition(snapshot: JobSnapshot, spec: JobSpec | None, limit: int) -> Condition:
    job, now = snapshot.jobs[0], snapshot.steady
    if job.status not in (JobStatus.RUNNING, JobStatus.STOPPING):
        return Condition({}, {})
    if not job.is_initiator:
        return condition_of_copy(job, snapshot.tasks, snapshot.troubles, now)
    if spec is None:
        troubles = troubles_of(job, snapshot.seats, snapshot.troubles, now, limit)
        is_restarting = job.is_restarting and job.status is JobStatus.RUNNING
        return Condition(troubles, {}, is_restarting=is_restarting, waiting=waiting_shares(snapshot.tasks, now))
    view = JobView(job, spec, snapshot.seats, snapshot.tasks, now, fresh_id="0" * 32)
    return condition_of(view, snapshot.troubles, limit)


def _waiting_seconds(job: Job, steady: int) -> float | None:
    """Return how long the job has waited for cores in its current run; None if it does not wait."""
    return max(0, steady - (job.queued or job.since)) / 1000 if job.status is JobStatus.WAITING else None


def _initiator_trouble(snapshot: JobSnapshot) -> str | None:
    """Return what is wrong between this party and the initiator of an unfinished job; None if nothing is known."""
    job = snapshot.jobs[0]
    trouble = snapshot.troubles.get(job.initiator.party_id)
    if job.is_initiator or job.is_final or trouble is None or trouble.is_over:
        return None
    return trouble.explain(job.initiator, job.party, snapshot.steady)


def _wait_reason(snapshot: JobSnapshot, place: int) -> str:
    job, steady = snapshot.jobs[0], snapshot.steady
    if place:
        return why_it_waits(job.wait_reason, place, job.hold)
    if job.rerun_signal:
        return "; ".join(filter(None, [job.hold.text if job.hold else "", blocked_text(job, steady)]))
    if job.status is JobStatus.READY:
        return "the parties are being asked to accept it"
    if job.status is not JobStatus.WAITING or job.is_initiator:
        return ""
    trouble = snapshot.troubles.get(job.initiator.party_id)
    return why_a_copy_waits(job.initiator, job.party, job.consent, trouble, steady, holds=job.holds)


def _consent(job: Job, digest: str) -> dict[str, Any] | None:
    """Return this party's decision about a job of another initiator."""
    consent = job.consent
    if consent is None:
        return None
    rendered = {"by": consent.by, "message": consent.message, "time": consent.time or None}
    return {"status": consent.approval.value, **rendered, "revision": job.revision, "digest": digest}


def _seat(seat: Seat, condition: Condition, here: Here) -> dict[str, Any]:
    return {
        **party_of(seat.party),
        "status": seat.status.value,
        "message": seat.message,
        "asked_cores": seat.asked_cores,
        "free_cores": seat.free_cores if seat.free_cores >= 0 else None,
        "engines": list(here.seats.get(seat.party, ())),
        "approval": seat.approval or None,
        "trouble": condition.troubles.get(seat.party),
    }


def _own_seat(job: Job, here: Here) -> dict[str, Any]:
    """Return the party's own seat: a party that is not the initiator knows no other seat."""
    return {
        **party_of(job.party),
        "status": _shown(job.status),
        "message": job.message,
        "asked_cores": job.asked.cores,
        "free_cores": None,
        "engines": list(here.seats.get(job.party, ())),
        "approval": job.consent.text if job.consent is not None and job.consent.is_given else None,
        "trouble": None,
    }


def _tasks(
    snapshot: JobSnapshot, spec: JobSpec | None, order: Sequence[str], condition: Condition, here: Here
) -> list[dict[str, Any]]:
    """Return an entry for each task, in this order, with all its parties."""
    first = {name: place for place, name in enumerate(order)}
    for place, task in enumerate(snapshot.tasks, len(order)):
        first.setdefault(task.key.name, place)
    ordered = sorted(snapshot.tasks, key=lambda task: (first[task.key.name], task.key.party))
    programs = {key: list(workers) for key, workers in groupby(snapshot.workers, key=lambda worker: worker.task)}
    earlier: dict[str, list[Task]] = {}
    for task in snapshot.earlier:
        earlier.setdefault(task.key.name, []).append(task)
    return [
        {
            **_task(list(rows), programs, spec, condition.restarts.get(name), here),
            "last_version": _last_version(earlier.get(name, [])),
        }
        for name, rows in groupby(ordered, key=lambda task: task.key.name)
    ]


def _last_version(rows: list[Task]) -> dict[str, Any] | None:
    """Return the share whose failure made the task begin again; None if no share failed."""
    broken = tuple(row for row in rows if row.party_status in TASK_BROKEN)
    if not broken:
        return None
    first = failed_row(broken)
    return {"task_version": first.key.version, **_party_task(first)}


def _task(
    rows: list[Task], programs: Mapping[TaskKey, list[Worker]], spec: JobSpec | None, restart: Restart | None,
    here: Here,
) -> dict[str, Any]:
    newest = rows[0]
    return {
        "component_name": newest.key.name,
        "module": next((row.module for row in rows if row.module), ""),
        "task_version": newest.key.version,
        "status": _shown(newest.status),
        "status_detail": RESTARTING if restart is not None else newest.status.value,
        "reason": newest.federated_reason.value if newest.federated_reason else None,
        "message": newest.federated_message,
        "exit_code": newest.federated_exit_code,
        "caused_by": newest.federated_caused_by or None,
        "end_time": newest.federated_end_time or None,
        "retries_left": newest.auto_retries,
        "begins_again": restart.text if restart is not None else None,
        "parties": [_share(row, programs.get(row.key, []), spec, here) for row in rows],
    }


def _share(task: Task, workers: list[Worker], spec: JobSpec | None, here: Here) -> dict[str, Any]:
    return {
        **_party_task(task),
        "engine": here.shares.get(task.key),
        "workers": list(map(_worker, workers)),
        "elastic": _elastic(task, workers, spec),
    }


def _party_task(task: Task) -> dict[str, Any]:
    return {
        **party_of(task.key.party),
        "status": _shown(task.party_status),
        "status_detail": task.party_status.value,
        "exit_code": task.exit_code,
        "waits": task.waits if task.waits_for_a_place else None,
        **_course(task),
    }


def _course(one: Task | Worker) -> dict[str, Any]:
    """Return the start, the end and the reason of a task or a worker."""
    return {
        "reason": one.reason.value if one.reason else None,
        "message": one.message,
        "caused_by": one.caused_by or None,
        "start_time": one.start_time or None,
        "end_time": one.end_time or None,
    }


def _worker(worker: Worker) -> dict[str, Any]:
    return {
        "worker": worker.slot if worker.slot != COLLECTOR else None,
        "rank": worker.rank,
        "attempt": worker.attempt,
        "is_elastic": worker.is_elastic,
        "status": worker.status.value,
        "exit_status": worker.exit_status,
        **_course(worker),
    }


def _elastic(task: Task, workers: list[Worker], spec: JobSpec | None) -> dict[str, int] | None:
    """Return the numbers of elastic workers of a share that runs here; None if it cannot have any."""
    is_running = spec is not None and task.runs_here and task.party_status is TaskStatus.RUNNING
    command = spec.tasks[task.key.name].programs.get(task.key.party) if spec is not None and is_running else None
    if command is None or not command.elastic:
        return None
    return asdict(count_elastic(command, workers))


def _pending_policies(snapshot: JobSnapshot, spec: JobSpec | None) -> list[dict[str, Any]]:
    if spec is None or not snapshot.jobs[0].timers:
        return []
    view = JobView(snapshot.jobs[0], spec, snapshot.seats, snapshot.tasks, snapshot.steady, fresh_id="")
    return [_pending_policy(one, snapshot.steady) for one in sorted(pending_matches(view), key=lambda one: one.due)]


def _pending_policy(one: PolicyMatch, steady: int) -> dict[str, Any]:
    what = one.occurrence
    return {
        "action": one.policy.action.value,
        "seconds": max(0, one.due - steady) / 1000,
        "event": what.event.value,
        "component_name": what.task or None,
        "task_version": what.version if what.task else None,
        **(party_of(what.party) if what.party else {"role": None, "party_id": None}),
        "message": what.message,
    }


def _shown(status: JobStatus | TaskStatus) -> str:
    """Return the status for v1 clients, which see a stopping job or task as running."""
    return "running" if status in (JobStatus.STOPPING, TaskStatus.STOPPING) else status.value


def recounted(entry: HistoryEntry) -> dict[str, Any]:
    """Return an entry of the history as JSON values."""
    return {
        "time": entry.at,
        "level": entry.level.value,
        **(party_of(entry.party) if entry.party else {"role": None, "party_id": None}),
        "component_name": entry.task or None,
        "task_version": entry.version if entry.task else None,
        "old": entry.old or None,
        "new": entry.new,
        "reason": entry.reason or None,
        "message": entry.message,
        "caused_by": entry.caused_by or None,
        "exit_status": entry.exit_status or None,
    }


# ---------------------------------------------------------------------- a job to be submitted


def previewed(
    spec: JobSpec, requests: Callable[[Party], Request], sources: Sources, answers: Mapping[Party, Answer], lines: Lines
) -> dict[str, Any]:
    """Return what each party would run, with which parameters and cores, and its answer.

    `requests`: gives what a party would reserve; `lines`: of the paths in the document."""
    return {
        "initiator": party_of(spec.initiator),
        "values": _sourced(sources.of_job(), lines),
        "parties": [
            _preview_of(spec, party, requests(party), sources, answers[party], lines) for party in spec.parties
        ],
        "warnings": list(map(lines.in_message, spec.warnings)),
    }


def _preview_of(
    spec: JobSpec, party: Party, request: Request, sources: Sources, answer: Answer, lines: Lines
) -> dict[str, Any]:
    parameters = spec.parameters[party]
    asked, message = stance_of(answer)
    tasks = sources.of_tasks(party, _values_from(answer) if asked != NOT_ASKED else None)
    return {
        **party_of(party),
        "asked": asked,
        "message": lines.in_message(message),
        "values": _sourced(sources.of_party(party), lines),
        "cores": request.cores,
        "memory": request.memory,
        "gpus": request.gpus,
        "task_cores": request.task_cores,
        "job_parameters": flat_parameters(parameters),
        "tasks": [{**_preview_task(task, party), "values": _sourced(values, lines)} for task, values in tasks],
    }


ACCEPTS, REFUSES, NOT_ASKED = "accepts", "refuses", "not asked"


def stance_of(answer: Answer) -> tuple[str, str]:
    """Return whether a party accepts a job, and its reason.

    Only our servers can be asked: a plain v1 server does not have the route, and a silent one does not answer."""
    if not is_preview(answer):
        return NOT_ASKED, answer.retmsg if answer.retcode == UNREACHABLE else "it does not offer to be asked"
    return (ACCEPTS, "") if answer.is_ok else (REFUSES, answer.retmsg)


def _values_from(answer: Answer) -> PartyValues:
    """Return the effective values in a party's answer, with checked entries only."""
    return {(str(one.get("component_name")), str(one.get("key"))): one for one in effective_in(answer.data)}


def _sourced(values: Mapping[str, Sourced], lines: Lines) -> dict[str, Any]:
    def where(value: Sourced) -> str:
        return lines.after_path(value.where) if value.source == DOCUMENT else value.where

    return {key: {**value.as_dict(), "where": where(value)} for key, value in values.items()}


def _preview_task(task: TaskSpec, party: Party) -> dict[str, Any]:
    return {
        "component_name": task.name,
        "module": task.module,
        "stage": task.stage,
        "need_run": party not in task.passed_at,
        "after": sorted(task.upstream),
        "min_available": dict(task.min_available),
        "parameters": dict(task.parameters.get(party, {})),
    }


def parameters_by_party(spec: JobSpec) -> dict[Party, dict[str, Any]]:
    """Return the job parameters of each party whose parameters are known here, under FATE's keys."""
    return {party: flat_parameters(of) for party, of in spec.parameters.items() if party not in spec.withheld}
