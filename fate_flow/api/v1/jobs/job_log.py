"""The logs of a job for clients: its folder, with the two files of each party here that FATE's client opens."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from fate_flow.api.http.archive import Member, files_below, text_member
from fate_flow.core.model.job import Job
from fate_flow.core.model.status import JOB_END, TASK_BROKEN, JobStatus
from fate_flow.store.views.snapshots import JobSnapshot


def logs_of(folder: Path, snapshot: JobSnapshot | None) -> Iterator[Member]:
    """Yield the log files.

    `flow test toy` opens INFO.log of the guest, or ERROR.log if the job failed (client-api-v1, section 3.6). If a
    worker was killed or never began, it has written neither: then ERROR.log has the reasons instead."""
    members = list(files_below(folder))
    yield from members
    if snapshot is not None:
        names = {member.name for member in members}
        for job in snapshot.jobs:
            if job.status in JOB_END:
                yield from _missing(job, snapshot, names)


def _missing(job: Job, snapshot: JobSnapshot, names: Collection[str]) -> Iterator[Member]:
    place = f"{job.party.role}/{job.party.party_id}"
    if f"{place}/INFO.log" not in names:
        yield text_member(f"{place}/INFO.log", "")
    if f"{place}/ERROR.log" not in names and job.status is not JobStatus.SUCCESS:
        yield text_member(f"{place}/ERROR.log", "".join(f"[ERROR] {line}\n" for line in _reasons(job, snapshot)))


def _reasons(job: Job, snapshot: JobSnapshot) -> Iterator[str]:
    for task in snapshot.tasks:
        if task.key.party == job.party and task.party_status in TASK_BROKEN and task.reason is not None:
            yield f"{task.key.name} (version {task.key.version}): {task.reason.value}: {task.message}"
    if job.reason is not None:
        yield f"job {job.job_id} is {job.status.value}: {job.reason.value}: {job.message}"
