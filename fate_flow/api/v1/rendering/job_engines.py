"""Where a job and its tasks are at this party, as `job/explain` says it: on which engines, and how much of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.job import Claim, Job, Task, TaskKey
from fate_flow.core.model.spec import JobSpec, Party
from fate_flow.core.model.status import TaskStatus
from fate_flow.services.context.ports import Context
from fate_flow.services.workers.placement import engine_beside
from fate_flow.store.views.snapshots import JobSnapshot


@dataclass(frozen=True)
class Here:
    """What a job has at this party. Other parties do not say how their engines are called."""

    seats: Mapping[Party, Sequence[Mapping[str, Any]]]      # what each seat asks of each engine, that of the job first
    shares: Mapping[TaskKey, str]                           # the engine on which workers run, have run or will run


def may_be_beside(snapshot: JobSnapshot) -> bool:
    """Return whether a task may be on another engine of this party than its job, which only its specification says."""
    return any(job.asked.elsewhere for job in snapshot.jobs)


def engines_here(context: Context, snapshot: JobSnapshot, spec: JobSpec | None) -> Here:
    """Return what a job has at this party. `spec`: needed if `may_be_beside`."""
    jobs = {job.party: job for job in snapshot.jobs}
    launched = {worker.task: worker.engine for worker in snapshot.workers}
    shares = {
        task.key: launched.get(task.key) or _planned(context, spec, jobs[task.key.party], task)
        for task in snapshot.tasks
        if task.runs_here and task.key.party in jobs and task.party_status is not TaskStatus.PASS
    }  # fmt: skip
    return Here({party: _asked(job, context.engines.default) for party, job in jobs.items()}, shares)


def _planned(context: Context, spec: JobSpec | None, job: Job, task: Task) -> str:
    of_task = spec.tasks.get(task.key.name) if spec is not None and job.asked.elsewhere else None
    beside = engine_beside(context, spec, of_task, job.party) if spec is not None and of_task is not None else ""
    return beside or job.claim.engine or job.asked.engine or context.engines.default


def _asked(job: Job, default: str) -> list[dict[str, Any]]:
    held: Mapping[str, Claim] = job.claim.by_engine() if job.holds else {}
    asked = job.asked.by_engine(default).items()
    return [
        {"engine": name, "cores": one.cores, "memory": one.memory, "gpus": one.gpus, "is_held": name in held}
        for name, one in asked if one != Claim() or len(asked) == 1
    ]  # fmt: skip
