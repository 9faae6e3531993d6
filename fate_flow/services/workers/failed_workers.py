"""The workers of a job that have failed in its run, over all its tasks and parties, where the job bounds their number.

Each party counts those of its own shares, replaced ones too, and says so in its reports; the initiator keeps the counts
by party task, the highest that it has heard, and adds them up. A party that does not count (plain v1) has one for each
share that failed by its own fault. Interruptions are not counted: nobody's program is to blame for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fate_flow.core.model.job import Report, Task
from fate_flow.core.model.reasons import RULES, Reason
from fate_flow.core.model.retry import RetryEvent
from fate_flow.core.model.spec import JobSpec
from fate_flow.core.model.status import TASK_BROKEN
from fate_flow.core.planning.replicas import failed_of
from fate_flow.services.context.unit_of_work import UnitOfWork

MOST_COUNTED = 1_000_000
_KEY = "failed_workers"


def count_here(unit: UnitOfWork, spec: JobSpec, task: Task) -> int:
    """How many have failed of this share, which runs here; kept where this party is the initiator."""
    if spec.max_failed_workers is None:
        return 0
    count = failed_of(unit.tx.workers_of_task(task.key))
    if count and unit.tx.job_here(task.key.job_id) is not None:
        unit.tx.count_failed_workers(task.key, count)
        unit.touch(task.key.job_id)
    return count


def said_in_report(unit: UnitOfWork, task: Task) -> dict[str, Any]:
    """What a report on this share says of it; nothing where the job does not bound it."""
    spec = unit.spec(task.key.job_id)
    count = count_here(unit, spec, task) if spec is not None else 0
    return {_KEY: count} if count else {}


def count_in(body: Mapping[str, Any]) -> int:
    """What another party says that it has counted; 0 for what is no count."""
    value = body.get(_KEY)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_COUNTED else 0


def take_count(unit: UnitOfWork, report: Report) -> None:
    """Keep what the report of another party says of its workers, or what follows from how its share has ended."""
    spec = unit.spec(report.task.job_id)
    if spec is None or spec.max_failed_workers is None:
        return
    count = report.failed_workers or int(report.status in TASK_BROKEN and is_failure(report.reason))
    if count:
        unit.tx.count_failed_workers(report.task, count)


def is_failure(reason: Reason | None) -> bool:
    """Whether a share that ended so failed by its own fault."""
    return (RULES[reason].retry_event if reason else RetryEvent.ERROR) not in (None, RetryEvent.INTERRUPTION)
