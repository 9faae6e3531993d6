"""Snapshots of the database at one moment: of one job, and of a part of the queue."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from peewee import fn

from fate_flow.core.model.approval import Approval
from fate_flow.core.model.job import Hold, Job, Seat, Task, TaskKey, Worker
from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.model.status import JobStatus, TaskStatus
from fate_flow.jobspec.formats import digest_of
from fate_flow.store.contract.changes import newest_tasks
from fate_flow.store.database.models import JobRow, SeatRow
from fate_flow.store.database.queries import BY_AGE, IN_QUEUE, is_unfinished, waiting_here
from fate_flow.store.database.result_rows import MetricRow
from fate_flow.store.database.rows import JOB_COLUMNS, SEAT_COLUMNS, job_of, seat_of
from fate_flow.store.sql.store import SqlTransaction
from fate_flow.store.sql.tasks import tasks_in_all_versions
from fate_flow.store.values import Document
from fate_flow.store.views.board import PAGE, count_reviews
from fate_flow.store.views.document_digests import digests_of
from fate_flow.store.views.filters import MOST_VALUES
from fate_flow.store.views.job_names import names_of
from fate_flow.store.views.job_search import Place
from fate_flow.store.views.lists import MOST_ROWS


@dataclass(frozen=True)
class JobSnapshot:
    """All that is known here of one job, to explain its state."""

    jobs: tuple[Job, ...]            # its rows here, the initiator's first
    seats: tuple[Seat, ...]          # the initiator's records of all parties; empty elsewhere
    tasks: tuple[Task, ...]          # the newest version of each task, in the rows of all parties
    place: int                       # in the queue; 0: it does not wait in the queue here
    steady: int                      # steady time, to compute remaining times
    earlier: tuple[Task, ...] = ()   # for each task that will start again: the rows of the version before
    workers: tuple[Worker, ...] = ()     # of this party and of these versions: the newest one in each slot
    name: str = ""
    troubles: Mapping[str, PeerTrouble] = field(default_factory=dict)     # with connections to other parties, by id
    digest: str = ""                 # of the document, if this party has to approve the job
    document: Document | None = None     # for the board, if this party has to approve the job
    newest_metric: int = 0           # the number of the last piece of a metric that a task here has reported; 0: none
    passers: Mapping[str, str] = field(default_factory=dict)     # the names of the jobs that passed it, by id


@dataclass(frozen=True)
class QueuePage:
    """A part of the queue of this party, and the jobs that its people have to approve."""

    first_place: int
    jobs: tuple[Job, ...]
    seats: Mapping[str, tuple[Seat, ...]]    # by job id
    count: int                       # of all waiting jobs
    steady: int                      # now
    hold: Hold | None                # of this party's intake
    unapproved: tuple[Job, ...]      # jobs of other parties, the first `MOST_ROWS` of them
    names: Mapping[str, str]         # of all these jobs, and of those that passed them, by job id
    digests: Mapping[str, str]       # of the documents of unapproved jobs, by job id
    reviews: int                     # how many jobs are unapproved, also those beyond the first ones


def snapshot_of(tx: SqlTransaction, job_id: str, *, for_board: bool = False) -> JobSnapshot | None:
    """Return what is known here of a job; None if the job is unknown. `for_board`: with the document that waits for an
    approval, and without workers and `newest_metric`."""
    jobs = sorted(tx.jobs_here(job_id), key=lambda job: not job.is_initiator)
    if not jobs:
        return None
    own = jobs[0]
    queues = own.is_initiator and own.status is JobStatus.WAITING
    place = tx.place_in_queue(own) if queues else 0
    every = tasks_in_all_versions(JobRow._meta.database, job_id)
    tasks = newest_tasks(every)
    before = {_version_before(task.key) for task in tasks if task.key.version and task.status is TaskStatus.WAITING}
    earlier = tuple(task for task in every if task.key in before)
    at_work = {task.key for task in tasks if task.worker_id}
    workers = () if for_board else _newest_workers(tx.workers_of(job_id), at_work)
    asks = for_board and own.consent is not None and own.consent.approval is Approval.PENDING
    document = tx.document(job_id) if asks else None
    names = names_of(own.passers if document is not None else (job_id, *own.passers))
    name = document.name if document is not None else names.get(job_id, "")
    seats = tx.seats(job_id) if own.is_initiator else ()         # only an initiator has any
    steady, troubles = tx.steady(), tx.peer_troubles()
    digest = _digest(tx, own, document) if own.consent is not None else ""
    metric = 0 if for_board else _newest_metric(job_id)
    return JobSnapshot(
        tuple(jobs), seats, tasks, place, steady, earlier, workers, name, troubles, digest, document, metric,
        names,
    )  # fmt: skip


def _digest(tx: SqlTransaction, own: Job, shown: Document | None) -> str:
    """Return the digest of the document that people are shown, by which they approve it; or else of that to which the
    job is bound. What a release without disclosures has stored is bound by another digest than it has now."""
    if shown is not None and shown.is_compared:
        return digest_of(shown.content)
    return digests_of(tx, [own.job_id]).get(own.job_id, "")


def _version_before(key: TaskKey) -> TaskKey:
    return replace(key, version=key.version - 1)


def _newest_metric(job_id: str) -> int:
    return MetricRow.select(fn.MAX(MetricRow.f_id)).where(MetricRow.f_job_id == job_id).scalar() or 0


def queue_page(tx: SqlTransaction, limit: int, offset: int, *, for_board: bool = False) -> QueuePage:
    """Return, in order, `limit` jobs of the queue behind the first `offset`; they are found by an index. `for_board`:
    no document is read, so there is no digest of a job without a stored binding."""
    rows = (
        JobRow.select(*JOB_COLUMNS).where(waiting_here()).order_by(*IN_QUEUE)
        .limit(min(limit, MOST_ROWS)).offset(offset).tuples()
    )  # fmt: skip
    jobs = tuple(job_of(row) for row in rows)
    seats = _seats_of(jobs)
    hold, unapproved = tx.intake_hold(), tx.unapproved_jobs(MOST_ROWS)
    names = names_of((*(job.job_id for job in (*jobs, *unapproved)), *_passers(jobs)))
    digests = digests_of(tx, (job.job_id for job in unapproved), reads_documents=not for_board)
    count, steady = tx.count_waiting(), tx.steady()
    reviews = len(unapproved) if len(unapproved) < MOST_ROWS else count_reviews()
    return QueuePage(offset + 1, jobs, seats, count, steady, hold, unapproved, names, digests, reviews)


@dataclass(frozen=True)
class QueuePlace:
    """The place of a job in the queue: what `Job.order` says."""

    queue_key: int
    create_time: int
    job_id: str


def waiting_page(tx: SqlTransaction, behind: QueuePlace | None) -> tuple[QueuePage, QueuePlace | None]:
    """Return the jobs of the queue behind this place, without those to be approved, and from where it goes on."""
    where = waiting_here() if behind is None else waiting_here() & _queued_behind(behind)
    query = JobRow.select(*JOB_COLUMNS).where(where)
    jobs = tuple(map(job_of, query.order_by(*IN_QUEUE).limit(PAGE + 1).tuples()))
    some = jobs[:PAGE]
    first = tx.place_in_queue(some[0]) if some and behind is not None else 1
    names = names_of((*(job.job_id for job in some), *_passers(some)))
    count, steady = tx.count_waiting(), tx.steady()
    page = QueuePage(first, some, _seats_of(some), count, steady, tx.intake_hold(), (), names, {}, count_reviews())
    return page, QueuePlace(*some[-1].order) if len(jobs) > PAGE else None


def reviews_page(tx: SqlTransaction, behind: Place | None) -> tuple[QueuePage, Place | None]:
    """Return the jobs that this party has to approve behind this place, oldest first, without the queue, and from
    where they go on."""
    pending = (JobRow.f_approval == Approval.PENDING.value) & is_unfinished()
    where = pending if behind is None else pending & _younger(behind)
    query = JobRow.select(*JOB_COLUMNS).where(where)
    jobs = tuple(map(job_of, query.order_by(*BY_AGE).limit(PAGE + 1).tuples()))
    some = jobs[:PAGE]
    ids = [job.job_id for job in some]
    names, digests = names_of(ids), digests_of(tx, ids, reads_documents=False)
    page = QueuePage(1, (), {}, 0, 0, None, some, names, digests, count_reviews())
    return page, _place_of(some[-1]) if len(jobs) > PAGE else None


def _passers(jobs: Iterable[Job]) -> Iterable[str]:
    return (one for job in jobs for one in job.passers)


def _place_of(job: Job) -> Place:
    return Place(job.create_time, job.job_id, job.party.role, job.party.party_id)


def _queued_behind(place: QueuePlace) -> Any:
    key, created, job_id = IN_QUEUE
    later = (created > place.create_time) | ((created == place.create_time) & (job_id > place.job_id))
    # The first condition is what an index can use; here and below.
    return (key >= place.queue_key) & ((key > place.queue_key) | later)


def _younger(place: Place) -> Any:
    created, job_id, role, party_id = BY_AGE
    inside = (role > place.role) | ((role == place.role) & (party_id > place.party_id))
    later = (job_id > place.job_id) | ((job_id == place.job_id) & inside)
    return (created >= place.create_time) & ((created > place.create_time) | later)


def _newest_workers(workers: Iterable[Worker], wanted: Collection[TaskKey]) -> tuple[Worker, ...]:
    """Return the newest worker of each slot of these party tasks, by party task and slot."""
    holders: dict[tuple[TaskKey, int], Worker] = {}
    for worker in sorted(workers, key=lambda one: one.attempt):
        if worker.task in wanted:
            holders[worker.task, worker.slot] = worker
    return tuple(holders[place] for place in sorted(holders))


def _seats_of(jobs: Sequence[Job]) -> dict[str, tuple[Seat, ...]]:
    found: dict[str, list[Seat]] = {job.job_id: [] for job in jobs}
    ids = list(found)
    for first in range(0, len(ids), MOST_VALUES):
        some = SeatRow.f_job_id.in_(ids[first : first + MOST_VALUES])
        query = SeatRow.select(*SEAT_COLUMNS).where(some).order_by(SeatRow.f_job_id, SeatRow.f_role, SeatRow.f_party_id)
        for row in query.tuples():
            found[row[0]].append(seat_of(row))
    return {job_id: tuple(seats) for job_id, seats in found.items()}
