"""The queries of the board: what each page needs, in a fixed number of queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fate_flow.core.model.job import TaskKey
from fate_flow.store.values import Document, Metric, StoredModel
from fate_flow.store.views.board import PAGE, Counted, Overview, count_reviews, overview, this_moment
from fate_flow.store.views.board_approvals import ApprovedBefore, approved_before
from fate_flow.store.views.board_record import (
    RecordOfJob,
    RecordPage,
    RecordSearch,
    count_entries,
    record_of_job,
    record_page,
)
from fate_flow.store.views.board_tables import (
    ModelSources,
    TableDetails,
    TablePlace,
    TableSearch,
    TablesPage,
    count_tables,
    count_uses,
    model_sources,
    table_details,
    tables_page,
)
from fate_flow.store.views.board_task import (
    ShareDetails,
    TaskShares,
    WorkerPlace,
    metrics_of_share,
    models_of_share,
    newest_piece,
    share_details,
    task_shares,
)
from fate_flow.store.views.job_names import names_of
from fate_flow.store.views.job_search import (
    CountedPiece,
    FailedJobs,
    JobSearch,
    JobsPage,
    Place,
    count_piece,
    failed_since,
    jobs_page,
)
from fate_flow.store.views.metrics import joined
from fate_flow.store.views.read_only import ReadOnly, read_again
from fate_flow.store.views.server_state import EngineUse, engines_in_use
from fate_flow.store.views.snapshots import JobSnapshot, QueuePage, QueuePlace, reviews_page, snapshot_of, waiting_page
from fate_flow.store.views.times.job_times import JobTimes, SharePlace, job_times
from fate_flow.store.views.times.usage import DAY, Usage, reservations_since, usage_of
from fate_flow.store.views.wait_reasons import WAIT_FIELDS, Moving, moving_of, with_wait_reasons


class BoardViews(ReadOnly):
    """The queries of the board."""

    @read_again
    def job(self, job_id: str) -> tuple[JobSnapshot | None, int]:
        """Return what the board shows of a job, and the number of jobs that this party has to approve."""
        with self._reading() as tx:
            return snapshot_of(tx, job_id, for_board=True), count_reviews()

    @read_again
    def times(
        self, job_id: str, after: int = 0, behind: SharePlace | None = None, *, is_folded: bool = True
    ) -> tuple[JobTimes | None, int]:
        """Return what a job did when, None if it is unknown here, and the number of jobs to approve.

        `after`: the number of the change that those of this page follow. `behind`: the place that its tracks of tasks
        follow. `is_folded`: whether these are folded if there are many."""
        with self._reading() as tx:
            found = job_times(tx, job_id, after, behind, is_folded=is_folded, job_names=names_of([job_id]))
            return found, count_reviews()

    @read_again
    def jobs(self, search: JobSearch, before: Place | None) -> tuple[JobsPage, Moving, int]:
        """Return a page of the board's list of jobs, what those that run may wait for, and the number of jobs that this
        party has to approve."""
        with self._reading():
            page, now = jobs_page(search, before), this_moment()
            return page, moving_of(page.rows, now.steady, now.troubles), now.reviews

    @read_again
    def jobs_found(self, search: JobSearch, before: Place | None, limit: int, fields: Sequence[str]) -> JobsPage:
        """Return a page of jobs with these fields, newest first, that wait reasons belong to (`WAIT_FIELDS`)."""
        with self._reading() as tx:
            found = jobs_page(search, before, limit, tuple(dict.fromkeys((*fields, *WAIT_FIELDS))))
            return replace(found, rows=with_wait_reasons(tx, found.rows))

    @read_again
    def failed_jobs(self, since: int, limit: int, fields: Sequence[str]) -> FailedJobs:
        """Return the jobs that failed or timed out since that time (ms), the newest first, and the number of all."""
        with self._reading():
            return failed_since(since, limit, fields)

    @read_again
    def count_jobs(self, search: JobSearch, before: Place | None) -> CountedPiece:
        """Count jobs that fit among the newest ones behind the place: as many as one request may look at."""
        with self._reading():
            return count_piece(search, before)

    @read_again
    def overview(self) -> Overview:
        with self._reading() as tx:
            return overview(tx)

    @read_again
    def queue(self, behind: QueuePlace | None) -> tuple[QueuePage, QueuePlace | None]:
        """Return the jobs of the queue behind this place, and from where it goes on."""
        with self._reading() as tx:
            return waiting_page(tx, behind)

    @read_again
    def jobs_to_review(self, behind: Place | None) -> tuple[QueuePage, Place | None]:
        """Return the jobs that this party has to approve behind this place, oldest first, and from where they go on."""
        with self._reading() as tx:
            return reviews_page(tx, behind)

    @read_again
    def usage(self, end: int) -> Usage:
        """Return what jobs had reserved here in the day before `end`, an end of a quarter of an hour."""
        with self._one_query():
            found, complete_from = reservations_since(end - DAY)
        return usage_of(found, end, complete_from)

    @read_again
    def engines(self) -> tuple[EngineUse, ...]:
        """Return what the engines of this party have, and what is free of it."""
        with self._one_query():
            return engines_in_use()

    @read_again
    def task(self, job_id: str, name: str, until: int | None = None) -> TaskShares | None:
        """Return the attempts of a task, those up to the version `until` if it is given; None if the job is unknown
        here."""
        with self._reading() as tx:
            return task_shares(tx, job_id, name, until)

    @read_again
    def share(self, key: TaskKey, behind: WorkerPlace | None = None) -> ShareDetails:
        """Return what one attempt of a task has left at this party, with a page of its workers, behind this place."""
        with self._reading() as tx:
            return share_details(tx, key, behind)

    @read_again
    def metrics(self, key: TaskKey) -> tuple[Metric, ...]:
        """Return the metrics of one attempt of a task; each once, as far as it has come."""
        with self._reading():
            return joined(metrics_of_share(key))

    @read_again
    def metrics_until(self, key: TaskKey) -> tuple[int, int]:
        """Return the number of the last piece of a metric of an attempt, which changes whenever one is reported, and
        the number of jobs that this party has to approve."""
        with self._reading():
            return newest_piece(key), count_reviews()

    @read_again
    def tables(self, search: TableSearch, behind: TablePlace | None, limit: int = PAGE) -> TablesPage:
        """Return a page of the tables of an origin, newest first, behind a place."""
        with self._reading():
            return tables_page(search, behind, limit)

    @read_again
    def count_tables(self, search: TableSearch, behind: TablePlace | None) -> Counted:
        """Count the tables of an origin behind a place: as many as one request may count."""
        with self._reading():
            return count_tables(search, behind)

    @read_again
    def count_uses(self, namespace: str, name: str, behind: str) -> Counted:
        """Count the uses of a table in jobs with ids below this one (empty: in all): as many as one request may."""
        with self._reading():
            return count_uses(namespace, name, behind)

    @read_again
    def table(self, namespace: str, name: str) -> TableDetails | None:
        """Return who may use a table, where it is from and where it went; None if it is unknown here."""
        with self._reading() as tx:
            return table_details(tx, namespace, name)

    @read_again
    def models(self, key: TaskKey) -> tuple[tuple[StoredModel, ...], ModelSources, int]:
        """Return the models that an attempt of a task has made at this party, the tables from which it has made them,
        and the number of jobs that this party has to approve."""
        with self._reading() as tx:
            return models_of_share(tx, key), model_sources(tx, key), count_reviews()

    @read_again
    def record(self, search: RecordSearch, before: int) -> RecordPage:
        """Return a page of the record, newest first, with its logs. `before`: an id of an entry; 0: the newest."""
        with self._reading() as tx:
            return record_page(tx, search, before)

    @read_again
    def count_entries(self, search: RecordSearch, before: int) -> Counted:
        """Count entries that fit among those with ids below `before` (0: the newest): as many as one request may."""
        with self._reading() as tx:
            return count_entries(tx, search, before)

    @read_again
    def record_of_job(self, job_id: str, after: int) -> RecordOfJob:
        """Return a part of what is recorded about a job, in the order of writing, behind the entry with the id."""
        with self._reading() as tx:
            return record_of_job(tx, job_id, after)

    @read_again
    def approved_before(self, job_id: str, initiator_id: str, document: Document) -> ApprovedBefore | None:
        """Return the last job of this initiator with the same name, or else the same DSL, that this party has approved;
        None if there is none among the newest jobs."""
        with self._reading():
            return approved_before(job_id, initiator_id, document)

    @read_again
    def reviews(self) -> int:
        """Return the number of jobs that this party has to approve."""
        with self._one_query():
            return count_reviews()
