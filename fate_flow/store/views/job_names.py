"""The names that users gave to their jobs. They are only for people, so the scheduler's `Job` does not have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fate_flow.store.database.models import JobRow

_AT_ONCE = 500


def named_jobs(job_ids: Iterable[str], names: Mapping[str, str]) -> list[dict[str, str]]:
    """Return what an answer says of these jobs; a name is empty if it is not known."""
    return [{"job_id": job_id, "name": names.get(job_id, "")} for job_id in job_ids]


def names_of(job_ids: Iterable[str]) -> dict[str, str]:
    """Return the names by job id; they are found by the primary key."""
    ids = sorted(set(job_ids))
    found: dict[str, str] = {}
    for first in range(0, len(ids), _AT_ONCE):
        query = JobRow.select(JobRow.f_job_id, JobRow.f_name).where(JobRow.f_job_id.in_(ids[first : first + _AT_ONCE]))
        found |= {job_id: name or "" for job_id, name in query.tuples()}
    return found
