"""What clients see of the database: rows under FATE's names, read only.

Every method is one snapshot and takes no lock. Lists leave out the columns that hold whole documents, and no answer has
more than `MOST_ROWS` rows. Clients of the v1 API know no status `stopping`: they see `running`, and the true word in
`f_status_detail`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce, wraps
from operator import and_
from typing import Any, Concatenate, ParamSpec, TypeVar

from peewee import BooleanField, Database, DateTimeField, IntegerField, fn

from fate_flow.core.model.approval import Approval
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import check_text, shown
from fate_flow.core.model.history import HistoryEntry
from fate_flow.core.model.job import Hold, Job, JobKey, Seat, Task, TaskKey, Worker
from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JOB_END, JOB_UNFINISHED, JobStatus, TaskStatus
from fate_flow.core.planning.queue import pausing, why_a_copy_waits, why_it_waits
from fate_flow.jobspec.text.json_text import JsonText
from fate_flow.store.contract.changes import SUBMIT_FAILED
from fate_flow.store.contract.retry import Retry
from fate_flow.store.contract.transaction import READ, Document, Metric, OutputTable, TableMeta, handed_on, published
from fate_flow.store.database.models import EngineRow, JobRow, MetricRow, OutputRow, SeatRow, StorageTableRow, TaskRow
from fate_flow.store.database.queries import IN_QUEUE, waiting_here
from fate_flow.store.database.refusals import reading_refused
from fate_flow.store.database.rows import JOB_COLUMNS, SEAT_COLUMNS, consent_of, job_of, seat_of
from fate_flow.store.document_digests import digests_of
from fate_flow.store.sql.resources import COMPUTING
from fate_flow.store.sql.store import SqlTransaction
from fate_flow.store.views.count_cache import CountCache
from fate_flow.store.views.job_names import names_of

Row = dict[str, Any]

MOST_ROWS = 1000
MOST_VALUES = 500            # of one filter; SQLite takes so many variables, and no client means more
_FEW = 20                    # waiting jobs whose places are counted one by one

_JSON_OBJECTS = frozenset({
    "f_dsl", "f_runtime_conf", "f_runtime_conf_on_party", "f_train_runtime_conf", "f_roles", "f_user",
    "f_inheritance_info", "f_policy_timers", "f_cmd", "f_provider_info", "f_component_parameters", "f_engine_conf",
    "f_engine_config",
})  # fmt: skip
_JSON_LISTS = frozenset({"f_unconfirmed_parties", "f_missing_parties", "f_without_parties", "f_changed_components"})
_DOCUMENTS = frozenset({
    "f_dsl", "f_runtime_conf", "f_runtime_conf_on_party", "f_train_runtime_conf", "f_cmd", "f_component_parameters",
    "f_error_report",
})  # fmt: skip


P = ParamSpec("P")
T = TypeVar("T")


def _read_again(query: Callable[Concatenate[Views, P], T]) -> Callable[Concatenate[Views, P], T]:
    """A read may be repeated as often as `Retry` has it."""

    @wraps(query)
    def asked(views: Views, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return views._retry(lambda: query(views, *args, **kwargs), is_repeatable=True)

    return asked


@dataclass(frozen=True)
class Page:
    """Which part of a list, in which order."""

    order_by: str                    # create_time, start_time, end_time or elapsed
    is_descending: bool
    limit: int = MOST_ROWS
    offset: int = 0

    @property
    def rows(self) -> int:
        """How many it has at most."""
        return min(self.limit, MOST_ROWS)


BY_TIME = "create_time"
_CREATED, _ENDED = "f_create_time", "f_end_time"
NEWEST, OLDEST = Page(BY_TIME, True), Page(BY_TIME, False)


@dataclass(frozen=True)
class JobQuery:
    """Which jobs a list shows; what is empty does not matter."""

    job_id: str = ""                 # a part of it
    description: str = ""            # a part of it
    party_id: str = ""
    partner: str = ""                # a party of the job
    roles: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()


@dataclass(frozen=True)
class JobSnapshot:
    """All that is known here of one job: what explains where it stands."""

    jobs: tuple[Job, ...]            # its rows here, the initiator's first
    seats: tuple[Seat, ...]          # what the initiator knows of every party; empty elsewhere
    tasks: tuple[Task, ...]          # the newest version of each, in the rows of all parties
    place: int                       # in the queue; 0: it does not queue here
    steady: int                      # steady time, for what is due later
    earlier: tuple[Task, ...] = ()   # of each task that is to begin again: the rows of the version before
    workers: tuple[Worker, ...] = ()     # of this party, of those versions: the newest in each slot
    name: str = ""
    troubles: Mapping[str, PeerTrouble] = field(default_factory=dict)     # with the ways to other parties, by id
    digest: str = ""                 # of the document, where this party has to approve the job


@dataclass(frozen=True)
class QueuePage:
    """A part of the queue of this party, and what its people are asked for."""

    first_place: int
    jobs: tuple[Job, ...]
    seats: Mapping[str, tuple[Seat, ...]]    # by job
    count: int                       # of all jobs that wait
    steady: int                      # now
    hold: Hold | None                # of this party's intake
    unapproved: tuple[Job, ...]      # jobs of others, the first `MOST_ROWS` of them
    names: Mapping[str, str]         # of all these jobs
    digests: Mapping[str, str]       # of the documents of those that are unapproved


class Views:
    """The queries of clients."""

    def __init__(self, database: Database, retry: Retry | None = None) -> None:
        self._database = database
        self._retry = retry or Retry()
        self._jobs, self._tasks = CountCache(JobRow), CountCache(TaskRow, changes=TaskRow.f_end_time.is_null())

    # ------------------------------------------------------------------ jobs

    @_read_again
    def jobs(self, filters: Mapping[str, Any], page: Page = NEWEST) -> list[Row]:
        """A page of the jobs that the client's filters mean, in full; none without a usable filter."""
        with self._reading() as tx:
            statuses = _choices(filters.get("status"))
            shape = _shape(JobRow, filters, _JOB_SETTLES) if _is_counted(statuses) else None
            where = _conditions(JobRow, filters, without_index=_NO_INDEX if shape else frozenset())
            if where is None:
                return []
            listed = _Listed(JobRow, where, shape, _fixed(filters), asks_for_status=bool(statuses))
            rows, _ = self._page(tx, self._jobs, listed, page)
            return _initiator_first(_as_seen(_with_wait_reasons(tx, rows)))

    @_read_again
    def job_list(self, query: JobQuery, page: Page) -> tuple[list[Row], int]:
        """One page of jobs without their documents, and how many there are in all."""
        fixed, shape = _fixed({"role": list(query.roles)}), query if _is_counted(query.statuses) else None
        listed = _Listed(JobRow, _matching(query), shape, fixed, _DOCUMENTS, asks_for_status=bool(query.statuses))
        with self._reading() as tx:
            rows, count = self._page(tx, self._jobs, listed, page)
            return _as_seen(_with_wait_reasons(tx, rows)), count()

    @_read_again
    def document(self, job_id: str) -> Document | None:
        """The job as it was submitted."""
        with self._reading() as tx:
            return tx.document(job_id)

    @_read_again
    def history(self, job_id: str) -> tuple[HistoryEntry, ...] | None:
        """What was written down of a job, in order; None when it is not known here."""
        with self._reading() as tx:
            return tx.history(job_id) if tx.jobs_here(job_id) else None

    @_read_again
    def snapshot(self, job_id: str) -> JobSnapshot | None:
        """What is known here of a job, for whoever wants to know how it stands."""
        with self._reading() as tx:
            jobs = sorted(tx.jobs_here(job_id), key=lambda job: not job.is_initiator)
            if not jobs:
                return None
            own = jobs[0]
            queues = own.is_initiator and own.status is JobStatus.WAITING
            place = tx.place_in_queue(own) if queues else 0
            tasks = tx.tasks(job_id)
            anew = [task.key for task in tasks if task.key.version and task.status is TaskStatus.WAITING]
            earlier = [tx.task(replace(key, version=key.version - 1)) for key in anew]
            known = tuple(task for task in earlier if task is not None)
            workers = _newest_workers(tx.workers_of(job_id), {task.key for task in tasks if task.worker_id})
            name = names_of([job_id]).get(job_id, "")
            seats, steady, troubles = tx.seats(job_id), tx.steady(), tx.peer_troubles()
            digest = digests_of(tx, [job_id]).get(job_id, "") if own.consent is not None else ""
            return JobSnapshot(tuple(jobs), seats, tasks, place, steady, known, workers, name, troubles, digest)

    @_read_again
    def queue(self, limit: int, offset: int) -> QueuePage:
        """So many jobs of the queue behind the first `offset`, in its order: found by index, however long it is."""
        with self._reading() as tx:
            rows = (
                JobRow.select(*JOB_COLUMNS).where(waiting_here()).order_by(*IN_QUEUE)
                .limit(min(limit, MOST_ROWS)).offset(offset).tuples()
            )  # fmt: skip
            jobs = tuple(job_of(row) for row in rows)
            seats = _seats_of(jobs)
            hold, unapproved = tx.intake_hold(), tx.unapproved_jobs(MOST_ROWS)
            names = names_of(job.job_id for job in (*jobs, *unapproved))
            digests = digests_of(tx, (job.job_id for job in unapproved))
            count, steady = tx.count_waiting(), tx.steady()
            return QueuePage(offset + 1, jobs, seats, count, steady, hold, unapproved, names, digests)

    # ------------------------------------------------------------------ tasks

    @_read_again
    def tasks(self, filters: Mapping[str, Any], page: Page = OLDEST) -> list[Row]:
        """A page of the party tasks that the filters mean, the newest version of each; none without a usable filter."""
        where = _conditions(TaskRow, filters)
        if where is None:
            return []
        with self._reading() as tx:
            listed = _Listed(TaskRow, where & _is_newest_version(), None, _fixed(filters))
            return _as_seen(self._page(tx, self._tasks, listed, page)[0])

    @_read_again
    def task_list(self, filters: Mapping[str, Any], page: Page) -> tuple[list[Row], int]:
        """One page of party tasks, all versions, and how many there are in all."""
        where, shape = _conditions(TaskRow, filters), _shape(TaskRow, filters, _TASK_STAYS)
        listed = _Listed(TaskRow, where, shape, _fixed(filters), _DOCUMENTS)
        with self._reading() as tx:
            rows, count = self._page(tx, self._tasks, listed, page)
            return _as_seen(rows), count()

    def _page(
        self, tx: SqlTransaction, count_cache: CountCache, listed: _Listed, page: Page
    ) -> tuple[list[Row], Callable[[], int]]:
        """The rows of a page, and how to learn how many the list has."""
        if listed.shape is None:
            return listed.rows(page), listed.count
        by = f"f_{page.order_by}"
        counted = count_cache.count(listed.where, listed.shape, tx.forgotten(), by=by, age=listed.age(by))
        if counted.by != by:
            return listed.rows(page), lambda: counted.total
        rows: list[Row] = []
        for span in counted.spans(page.offset, page.rows, is_descending=page.is_descending):
            part = replace(page, offset=span.offset, limit=page.rows - len(rows))
            rows += listed.rows(part, count_cache.within(by, span.bucket))
        return rows, lambda: counted.total

    # ------------------------------------------------------------------ resources

    @_read_again
    def jobs_that_hold(self) -> list[Row]:
        """What is reserved here, and for whom."""
        columns = (JobRow.f_job_id, JobRow.f_role, JobRow.f_party_id, JobRow.f_cores, JobRow.f_memory)
        # A job that has ended holds nothing, so the index on the status finds the rest.
        holds = JobRow.f_status.in_([status.value for status in JOB_UNFINISHED]) & (
            JobRow.f_resource_in_use == True  # noqa: E712
        )
        with self._reading():
            return list(JobRow.select(*columns).where(holds).order_by(JobRow.f_create_time).dicts())

    @_read_again
    def engine(self, name: str = "") -> Row:
        """The row of the computing engine, of this name if one is given; empty when there is none."""
        where = EngineRow.f_engine_type == COMPUTING
        if name:
            where &= EngineRow.f_engine_name == name
        with self._reading():
            row = EngineRow.select().where(where).dicts().first()
        return _decoded(row) if row else {}

    # ------------------------------------------------------------------ results

    @_read_again
    def table(self, namespace: str, name: str) -> TableMeta | None:
        with self._reading() as tx:
            return tx.table(namespace, name)

    @_read_again
    def outputs(self, job_id: str, task: str, party: Party) -> list[tuple[OutputTable, TableMeta | None]]:
        """The tables that the newest version of a party task has published; None for one that was deleted or written
        anew since."""
        with self._reading() as tx:
            return [(one, handed_on(tx, one)) for one in published(tx, job_id, task, party)]

    @_read_again
    def output_rows(self, filters: Mapping[str, Any]) -> list[Row]:
        """The rows about output tables that the filters mean; none without a usable filter."""
        with self._reading():
            where = _conditions(OutputRow, filters)
            if where is None:
                return []
            where &= OutputRow.f_data_name != READ
            query = OutputRow.select().where(where).order_by(OutputRow.f_job_id, OutputRow.f_task_id)
            return list(query.limit(MOST_ROWS).dicts())

    @_read_again
    def metrics(self, job_id: str, task: str, party: Party) -> tuple[Metric, ...]:
        with self._reading() as tx:
            return tx.metrics(job_id, task, party)

    @_read_again
    def summary(self, job_id: str, task: str, party: Party) -> Mapping[str, Any] | None:
        with self._reading() as tx:
            return tx.summary(job_id, task, party)

    @_read_again
    def uploads(self, limit: int, job_id: str = "") -> list[Row]:
        """What was uploaded here, newest first: `{job_id, info, notes, schema}`."""
        where = MetricRow.f_metric_namespace == "upload"
        if job_id:
            where &= MetricRow.f_job_id == job_id
        with self._reading():
            query = MetricRow.select(MetricRow.f_job_id, MetricRow.f_meta).where(where)
            found = list(query.order_by(MetricRow.f_id.desc()).limit(min(limit, MOST_ROWS)).tuples())
            return [_upload(job_id, json.loads(meta)) for job_id, meta in found]

    # ------------------------------------------------------------------ reading

    @contextmanager
    def _reading(self) -> Iterator[SqlTransaction]:
        """One snapshot. Raises StorageFailed when the database does not answer."""
        assert JobRow._meta.database is self._database, "a process has one database: the models are bound to it"
        with reading_refused(self._database):
            self._database.connect(reuse_if_open=True)
            with self._database.atomic():
                yield SqlTransaction(self._database, None)


# ---------------------------------------------------------------------- what a client asks for


def filters_of(model: Any) -> dict[str, type]:
    """What clients may filter by, and what the values are: str, int, bool or datetime."""
    return {name.removeprefix("f_"): _kind_of_field(field) for name, field in model._meta.fields.items()}


def _conditions(model: Any, filters: Mapping[str, Any], without_index: frozenset[str] = frozenset()) -> Any:
    """What the filters of a client mean, as FATE reads them; None when none of them can be used.

    Names that are no column and nulls are ignored, two values for a number or a date are a range, other lists are
    choices. Raises BadRequest for a value that the column cannot hold."""
    found = [
        _condition(model._meta.fields[f"f_{key}"], key, value, uses_index=key not in without_index)
        for key, value in filters.items()
        if value is not None and f"f_{key}" in model._meta.fields
    ]
    where = None
    for one in found:
        where = one if where is None else where & one
    return where


def _condition(field: Any, key: str, value: Any, *, uses_index: bool) -> Any:
    if isinstance(value, list):
        if len(value) > MOST_VALUES:
            raise BadRequest(f"{key}: {len(value)} values are too many, {MOST_VALUES} is the most")
        if len(value) == 2 and _is_continuous(field):
            return _range(field, key, value)
        choices = [_value(field, key, one) for one in value]
    else:
        choices = [_value(field, key, value)]
    column = field if uses_index else _not_by_index(field)
    choices = _with_stopping(key, choices)
    return column == choices[0] if len(choices) == 1 else column.in_(choices)


_NO_INDEX = frozenset({"status"})


def _not_by_index(field: Any) -> Any:
    """The column, as no planner looks it up: a page is found in the index of its order, by its place there."""
    return fn.COALESCE(field, "")


def _with_stopping(key: str, values: list[Any]) -> list[Any]:
    """Who asks for what runs means what is stopping as well: that is what such rows are shown as."""
    if key in ("status", "party_status") and JobStatus.RUNNING.value in values:
        return [*values, JobStatus.STOPPING.value]
    return values


def _range(field: Any, key: str, bounds: Sequence[Any]) -> Any:
    low, high = (None if one is None else _value(field, key, one) for one in bounds)
    if low is None and high is None:
        return field.is_null(False) | field.is_null()
    if low is None:
        return field <= high
    return field >= low if high is None else field.between(low, high)


def _is_continuous(field: Any) -> bool:
    return isinstance(field, (IntegerField, DateTimeField))


def _value(field: Any, key: str, value: Any) -> Any:
    """The value as the column holds it. Raises BadRequest."""
    if isinstance(field, BooleanField):
        return _flag(key, value)
    if isinstance(field, DateTimeField):
        return _moment(key, value)
    if isinstance(field, IntegerField):
        return _number(key, value)
    if isinstance(value, str):
        return check_text(value, key)
    if isinstance(value, int) and not isinstance(value, bool):     # party ids, which clients send as numbers as well
        return shown(value)
    raise BadRequest(f"{key}: {shown(value)} is not text")


def _number(key: str, value: Any) -> int:
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    elif isinstance(value, str) and key.endswith("_time"):
        return _milliseconds(key, _moment(key, value))
    if type(value) is not int or abs(value) >= 2**63:
        raise BadRequest(f"{key}: {shown(value)} is not a whole number")
    return value


_DIGITS = re.compile(r"-?[0-9]{1,18}")


def _milliseconds(key: str, moment: datetime) -> int:
    try:
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError) as error:       # where it is still the year before the first
        raise BadRequest(f"{key}: {moment} is too long ago") from error


def _moment(key: str, value: Any) -> datetime:
    for form in ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d"):
        try:
            return datetime.strptime(value, form)
        except (TypeError, ValueError):
            continue
    raise BadRequest(f"{key}: {shown(value)} is not a date such as 2026-01-31 12:00:00")


def _flag(key: str, value: Any) -> bool:
    known = {True: True, False: False, "1": True, "0": False, "true": True, "false": False}
    if isinstance(value, (bool, int, str)) and value in known:
        return known[value]
    raise BadRequest(f"{key}: {shown(value)} is not true or false")


def _matching(query: JobQuery) -> Any:
    where = JobRow.f_tag != SUBMIT_FAILED
    for column, part in (
        (JobRow.f_job_id, query.job_id),
        (JobRow.f_description, query.description),
        (JobRow.f_party_id, query.party_id),
        (JobRow.f_roles, query.partner),
    ):
        if part:
            where &= column.contains(part)
    if query.roles:
        where &= JobRow.f_role.in_(query.roles)
    if query.statuses:
        status = _not_by_index(JobRow.f_status) if _is_counted(query.statuses) else JobRow.f_status
        where &= status.in_(_with_stopping("status", list(query.statuses)))
    return where


@dataclass(frozen=True)
class _Listed:
    """A list of rows of a table, of which pages are shown."""

    model: Any
    where: Any                       # None: all rows
    shape: Hashable | None           # tells `where` from others; None: it looks at what may change in a settled row
    fixed: frozenset[str]            # columns that have one value in all of it
    left_out: frozenset[str] = frozenset()
    asks_for_status: bool = False

    def age(self, by: str) -> str:
        """The column that says which rows are settled, in this order (store/views/count_cache.py)."""
        is_by_end = self.asks_for_status or by != _CREATED
        return _ENDED if is_by_end and self.model is JobRow else _CREATED

    def count(self) -> int:
        query = self.model.select()
        return int((query if self.where is None else query.where(self.where)).count())

    def rows(self, page: Page, within: Any = None) -> list[Row]:
        """Of the rows that are passed over only what an index has of them is read: rows may be large."""
        key = self.model._meta.primary_key.field_names
        chosen = self.model.select(*(getattr(self.model, name) for name in key))
        for condition in (self.where, within):
            chosen = chosen if condition is None else chosen.where(condition)
        chosen = chosen.order_by(*self._order(self.model, page)).limit(page.rows).offset(page.offset)
        row = self.model.alias()
        names = [name for name in self.model._meta.fields if name not in self.left_out]
        columns = [getattr(row, name) for name in names]
        same = [getattr(row, name) == getattr(chosen.c, name) for name in key]
        query = row.select(*columns).join(chosen, on=reduce(and_, same)).order_by(*self._order(row, page))
        fields = ((name, self.model._meta.fields[name]) for name in names)
        others = [(name, field.python_value) for name, field in fields if isinstance(field, _HELD_OTHERWISE)]
        found = self.model._meta.database.execute(query).fetchall()
        return [_row(names, values, others) for values in found]

    def _order(self, row: Any, page: Page) -> list[Any]:
        """Without columns of one value: MariaDB sorts all rows for their sake, instead of going along an index."""
        names = (f"f_{page.order_by}", *self.model._meta.primary_key.field_names)
        fields = [getattr(row, name) for name in names if name not in self.fixed]
        return [field.desc() if page.is_descending else field for field in fields]


_HELD_OTHERWISE = (BooleanField, DateTimeField)


def _row(names: Sequence[str], values: Sequence[Any], others: Iterable[tuple[str, Callable[[Any], Any]]]) -> Row:
    """As peewee's `dicts()` has it, in a third of the time: only some columns hold something else than they mean."""
    row = dict(zip(names, values, strict=True))
    for name, value_of in others:
        row[name] = value_of(row[name])
    return row


_JOB_SETTLES = frozenset({"role", "party_id", "status"})
_TASK_STAYS = frozenset({"role", "party_id", "component_name"})
"""Columns that stay as they are, of a job from its end on; without the id of the job, which finds few rows at once."""

_ENDS = frozenset(status.value for status in JOB_END)


def _is_counted(statuses: Sequence[Any]) -> bool:
    """Jobs that are not over are few, and found by their status."""
    return not statuses or any(status in _ENDS for status in statuses)


def _choices(value: Any) -> list[Any]:
    """What a filter leaves; empty when there is none."""
    return value if isinstance(value, list) else [] if value is None else [value]


def _shape(model: Any, filters: Mapping[str, Any], stays: frozenset[str]) -> Hashable | None:
    """What tells these filters from others; None when what they look at may change."""
    given = {key: value for key, value in filters.items() if value is not None and f"f_{key}" in model._meta.fields}
    return json.dumps(given, sort_keys=True) if given.keys() <= stays else None


def _fixed(filters: Mapping[str, Any]) -> frozenset[str]:
    """The columns that filters leave one value."""
    return frozenset(f"f_{key}" for key, value in filters.items() if len(_choices(value)) == 1)


def _is_newest_version() -> Any:
    other = TaskRow.alias()
    newest = other.select(fn.MAX(other.f_task_version)).where(
        (other.f_job_id == TaskRow.f_job_id)
        & (other.f_task_id == TaskRow.f_task_id)
        & (other.f_role == TaskRow.f_role)
        & (other.f_party_id == TaskRow.f_party_id)
    )
    return TaskRow.f_task_version == newest


# ---------------------------------------------------------------------- what a client sees


@dataclass(frozen=True)
class Column:
    """What clients find in a column of a row."""

    kind: type                       # str, int, bool, datetime, dict or list
    may_be_null: bool


def _newest_workers(workers: Iterable[Worker], wanted: Collection[TaskKey]) -> tuple[Worker, ...]:
    """Who holds each slot of these party tasks, by party task and slot."""
    holders: dict[tuple[TaskKey, int], Worker] = {}
    for worker in sorted(workers, key=lambda one: one.attempt):
        if worker.task in wanted:
            holders[worker.task, worker.slot] = worker
    return tuple(holders[place] for place in sorted(holders))


def columns_of(model: Any, *, with_documents: bool = True) -> dict[str, Column]:
    """What the rows of this model have when clients see them: what `_as_seen` makes of them."""
    found = {
        name: Column(_kind_of(name, field), field.null and name not in _NEVER_NULL)
        for name, field in model._meta.fields.items()
        if with_documents or name not in _DOCUMENTS
    }
    details = {f"{name}_detail": Column(str, False) for name in _STATUSES if name in found}
    return {**found, **details}


_STATUSES = ("f_status", "f_party_status")
_NEVER_NULL = _JSON_OBJECTS | _JSON_LISTS | {"f_update_time", "f_error_report"}


def _kind_of(name: str, field: Any) -> type:
    if name in _JSON_OBJECTS:
        return dict
    return list if name in _JSON_LISTS else _kind_of_field(field)


def _kind_of_field(field: Any) -> type:
    if isinstance(field, DateTimeField):
        return datetime
    if isinstance(field, BooleanField):
        return bool
    return int if isinstance(field, IntegerField) else str


def _as_seen(rows: Iterable[Row]) -> list[Row]:
    return [_with_statuses(_decoded(row)) for row in rows]


def _decoded(row: Row) -> Row:
    """JSON columns as values, whole documents as their text; an empty one as FATE reads it, an empty object."""
    for name in row.keys() & _JSON_OBJECTS:
        text = row[name] or "{}"
        row[name] = JsonText(text) if name in _DOCUMENTS else json.loads(text)
    for name in row.keys() & _JSON_LISTS:
        row[name] = json.loads(row[name]) if row[name] else []
    return row


def _with_statuses(row: Row) -> Row:
    for name in _STATUSES:
        if name in row:
            row[f"{name}_detail"] = row[name]
            if row[name] == TaskStatus.STOPPING.value:
                row[name] = TaskStatus.RUNNING.value
    if "f_update_time" in row:       # no client can do without; nothing else is written of it
        row["f_update_time"] = max(row[name] or 0 for name in ("f_create_time", "f_start_time", "f_end_time"))
    if "f_error_report" in row:
        row["f_error_report"] = row["f_error_report"] or row["f_message"] or ""
    return row


def _initiator_first(rows: list[Row]) -> list[Row]:
    """The jobs in their order; of several seats of one job, the one that knows most comes first."""
    order: dict[str, int] = {}
    for row in rows:
        order.setdefault(row["f_job_id"], len(order))
    return sorted(rows, key=lambda row: (order[row["f_job_id"]], not row["f_is_initiator"]))


def _with_wait_reasons(tx: SqlTransaction, rows: list[Row]) -> list[Row]:
    """Why each waiting job waits, with its place in the queue; elsewhere, who knows. What this party has to approve has
    the digest of its document."""
    waiting = [row for row in rows if row["f_status"] == JobStatus.WAITING.value]
    unapproved = [row for row in rows if row["f_approval"] == Approval.PENDING.value]
    digests = digests_of(tx, (row["f_job_id"] for row in unapproved))
    for row in unapproved:
        row["f_document_digest"] = digests.get(row["f_job_id"], "")
    places = _places(tx, [_key(row) for row in waiting if row["f_is_initiator"]])
    for row in waiting:
        if not row["f_is_initiator"]:
            initiator = f"{row['f_initiator_role']} {row['f_initiator_party_id']}"
            consent = consent_of(row["f_approval"], row["f_approval_by"], "", 0)
            row["f_wait_reason"] = why_a_copy_waits(initiator, f"{row['f_role']} {row['f_party_id']}", consent)
        elif row["f_job_id"] in places:
            hold = Hold(row["f_hold_message"] or "", row["f_hold_by"]) if row["f_held"] else None
            text = row["f_wait_reason"] or ""
            if row["f_rerun_signal"] and row["f_retry_at"]:
                text = pausing(text, row["f_retry_at"] - tx.steady())
            row["f_wait_reason"] = why_it_waits(text, places[row["f_job_id"]], hold)
    return rows


def _key(row: Row) -> JobKey:
    return JobKey(row["f_job_id"], Party(row["f_role"], row["f_party_id"]))


def _places(tx: SqlTransaction, keys: Sequence[JobKey]) -> dict[str, int]:
    if len(keys) <= _FEW:
        jobs = (tx.job(key) for key in keys)
        return {job.job_id: tx.place_in_queue(job) for job in jobs if job is not None}
    queue = (
        JobRow.select(JobRow.f_job_id)
        .where(waiting_here())
        .order_by(*IN_QUEUE)
    )
    return {job_id: place for place, (job_id,) in enumerate(queue.tuples(), 1)}


def _seats_of(jobs: Sequence[Job]) -> dict[str, tuple[Seat, ...]]:
    found: dict[str, list[Seat]] = {job.job_id: [] for job in jobs}
    ids = list(found)
    for first in range(0, len(ids), MOST_VALUES):
        some = SeatRow.f_job_id.in_(ids[first : first + MOST_VALUES])
        query = SeatRow.select(*SEAT_COLUMNS).where(some).order_by(SeatRow.f_job_id, SeatRow.f_role, SeatRow.f_party_id)
        for row in query.tuples():
            found[row[0]].append(seat_of(row))
    return {job_id: tuple(seats) for job_id, seats in found.items()}


def _upload(job_id: str, meta: Mapping[str, Any]) -> Row:
    info = {key: meta.get(key) for key in ("table_name", "namespace", "partition", "upload_count", "replaced_rows")}
    notes = JobRow.select(JobRow.f_description).where(JobRow.f_job_id == job_id).scalar()
    is_its_table = (
        (StorageTableRow.f_namespace == info["namespace"])
        & (StorageTableRow.f_name == info["table_name"])
        & (StorageTableRow.f_job_id == job_id)
    )
    schema = StorageTableRow.select(StorageTableRow.f_schema).where(is_its_table).scalar()
    return {"job_id": job_id, "info": info, "notes": notes or "", "schema": json.loads(schema) if schema else {}}
