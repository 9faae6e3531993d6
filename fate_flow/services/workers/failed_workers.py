"""The number of failed workers in a run of a job, over all its tasks and parties, if the job limits it.

Each party counts the failed workers of its own shares, including replaced ones, and states the count in its reports.
The initiator keeps the highest count for each party task, and adds them up. A party that does not count (plain v1) has
one for each share that failed by its own fault. Interruptions do not count, because they are not a program's fault.
"""

from __future__ import annotations

from fate_flow.core.model.job import Report, Task
from fate_flow.core.model.spec import JobSpec
from fate_flow.core.planning.replicas import failed_of, failures_in
from fate_flow.services.context.unit_of_work import UnitOfWork


def count_here(unit: UnitOfWork, spec: JobSpec, task: Task) -> int:
    """Count the failed workers of a share of this party; store the count if this party is the initiator."""
    if spec.max_failed_workers is None:
        return 0
    count = failed_of(unit.tx.workers_of_task(task.key))
    if count and unit.tx.job_here(task.key.job_id) is not None:
        unit.tx.count_failed_workers(task.key, count)
        unit.touch(task.key.job_id)
    return count


def failed_workers_of(unit: UnitOfWork, task: Task) -> int:
    """Return the count for the report of a share; 0 if the job does not limit it."""
    spec = unit.spec(task.key.job_id)
    return count_here(unit, spec, task) if spec is not None else 0


def take_count(unit: UnitOfWork, report: Report) -> None:
    """Store the count in the report of another party."""
    spec = unit.spec(report.task.job_id)
    if spec is None or spec.max_failed_workers is None:
        return
    if count := failures_in(report):
        unit.tx.count_failed_workers(report.task, count)
