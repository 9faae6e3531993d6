"""The names that users gave to their jobs. They are only for people, so the scheduler's `Job` does not have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fate_flow.core.model.status import JobStatus
from fate_flow.store.database.models import JobRow

_AT_ONCE = 500


@dataclass(frozen=True)
class JobHead:
    """What a list says of a job that it only mentions."""

    name: str
    status: str
    create_time: int | None      # in milliseconds
    is_restarting: bool          # a policy restarts its tasks, and those that ran are still ending


def named_jobs(job_ids: Iterable[str], names: Mapping[str, str]) -> list[dict[str, str]]:
    """Return what an answer says of these jobs; a name is empty if it is not known."""
    return [{"job_id": job_id, "name": names.get(job_id, "")} for job_id in job_ids]


def heads_of(job_ids: Iterable[str]) -> dict[str, JobHead]:
    """Return what is known of these jobs by id; they are found by the primary key."""
    ids = sorted(set(job_ids))
    found: dict[str, JobHead] = {}
    for first in range(0, len(ids), _AT_ONCE):
        columns = JobRow.f_job_id, JobRow.f_name, JobRow.f_status, JobRow.f_create_time, JobRow.f_restarting
        query = JobRow.select(*columns).where(JobRow.f_job_id.in_(ids[first : first + _AT_ONCE]))
        found |= {
            job_id: JobHead(name or "", status, created, bool(restarts) and status == JobStatus.RUNNING.value)
            for job_id, name, status, created, restarts in query.tuples()
        }
    return found


def names_of(job_ids: Iterable[str]) -> dict[str, str]:
    """Return the names by job id."""
    return {job_id: one.name for job_id, one in heads_of(job_ids).items()}
