"""Every field of jobs, seats, tasks and workers comes back from a store as it was written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields, is_dataclass, replace
from enum import Enum
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fate_flow.core.model.job import Claim, Job, Seat, Task, Worker
from fate_flow.core.model.status import JobStatus, SeatStatus, TaskStatus, WorkerStatus
from fate_flow.store.contract.changes import by_role, new_job, new_seat, new_task, new_worker
from fate_flow.store.contract.transaction import Store
from fate_flow.store.database.models import JobRow, SeatRow, TaskRow, WorkerRow
from fate_flow.store.database.prepared import insert
from fate_flow.store.database.rows import JOBS, SEATS, TASKS, WORKERS
from fate_flow.store.memory.store import MemoryStore
from fate_flow.store.sql.store import SqlStore
from tests.kit.store.sqlite_in_memory import sqlite_in_memory
from tests.store_contract.cases import ARBITER, DOCUMENT, GUEST, HOST, OTHER_HOST, a_job

BIG = 1 << 40
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)


def value_of(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of the type of a field."""
    if get_origin(hint) is UnionType:
        return st.one_of([value_of(one) for one in get_args(hint)])
    if get_origin(hint) is tuple:
        return st.lists(value_of(get_args(hint)[0]), max_size=3).map(tuple)
    if get_origin(hint) is Mapping:
        return st.dictionaries(texts, st.integers(0, BIG), max_size=3)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    if is_dataclass(hint):
        return a(hint)
    simple: dict[Any, st.SearchStrategy[Any]] = {
        bool: st.booleans(), int: st.integers(-1, BIG), str: texts, NoneType: st.none(),
    }  # fmt: skip
    return simple[hint]


def a(kind: Any, **given_fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A dataclass with any value in every field."""
    hints = get_type_hints(kind)
    return st.builds(kind, **{one.name: given_fields.get(one.name, value_of(hints[one.name])) for one in fields(kind)})


parties = st.lists(st.sampled_from([GUEST, HOST, OTHER_HOST, ARBITER]), unique=True).map(tuple)
jobs = a(
    Job, parties=parties, asked=st.builds(Claim, st.integers(0, BIG), st.integers(0, BIG)),
).map(lambda job: replace(job, parties=by_role(job)))  # fmt: skip
seats, tasks, workers = a(Seat), a(Task), a(Worker)

OPEN_TASKS = st.sampled_from([TaskStatus.WAITING, TaskStatus.RUNNING])


class Undone(Exception):
    """The end of a transaction that leaves nothing."""


@contextmanager
def undone(store: Store) -> Iterator[Any]:
    with suppress(Undone), store.transaction() as tx:
        yield tx
        raise Undone


@pytest.fixture(scope="module")
def sql() -> Iterator[SqlStore]:
    found = sqlite_in_memory()
    yield found
    found.close()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, sql: SqlStore) -> Store:
    return MemoryStore() if request.param == "memory" else sql


each = settings(
    max_examples=20, deadline=None, phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip

# ------------------------------------------------------------------ all fields, as rows

Kind = tuple[Any, type, Callable[[Any, Any], Any]]
JOB: Kind = (JOBS, JobRow, lambda tx, job: tx.job(job.key))
SEAT: Kind = (SEATS, SeatRow, lambda tx, seat: tx.seats(seat.job_id)[0])
TASK: Kind = (TASKS, TaskRow, lambda tx, task: tx.task(task.key))
WORKER: Kind = (WORKERS, WorkerRow, lambda tx, worker: tx.worker(worker.worker_id))
DERIVED: dict[type, Callable[[Any], dict[str, Any]]] = {
    JobRow: lambda _: {"f_dsl": "{}", "f_runtime_conf": "{}", "f_runtime_conf_on_party": "{}"},
    SeatRow: lambda _: {},
    TaskRow: lambda task: {
        "f_task_id": task.key.task_id, "f_initiator_role": "guest", "f_federated_mode": "MULTIPLE",
        "f_federated_status_collect_type": "PULL",
    },
    WorkerRow: lambda worker: {"f_worker_name": "task_executor", "f_task_id": worker.task.task_id},
}  # fmt: skip
"""Columns of each table that have no default and stand for no field."""


def comes_back(sql: SqlStore, kind: Kind, first: Any, second: Any) -> None:
    """Whether a row is read as it was written, and after all of its fields have changed."""
    rows, model, read = kind
    sql.database.execute_sql("PRAGMA ignore_check_constraints = ON")      # the fields are in no sensible relation
    try:
        with undone(sql) as tx:
            insert(sql.database, model, rows.row_of(first) | DERIVED[model](first))
            assert asdict(read(tx, first)) == asdict(first)
            model.update(rows.columns_of(vars(second)) | DERIVED[model](second)).execute()
            assert asdict(read(tx, second)) == asdict(second)
    finally:
        sql.database.execute_sql("PRAGMA ignore_check_constraints = OFF")


@each
@given(jobs, jobs)
def test_every_field_of_a_job_is_a_column(sql: SqlStore, first: Job, second: Job) -> None:
    comes_back(sql, JOB, first, second)


@each
@given(seats, seats)
def test_every_field_of_a_seat_is_a_column(sql: SqlStore, first: Seat, second: Seat) -> None:
    comes_back(sql, SEAT, first, second)


@each
@given(tasks, tasks)
def test_every_field_of_a_task_is_a_column(sql: SqlStore, first: Task, second: Task) -> None:
    comes_back(sql, TASK, first, second)


@each
@given(workers, workers)
def test_every_field_of_a_worker_is_a_column(sql: SqlStore, first: Worker, second: Worker) -> None:
    comes_back(sql, WORKER, first, second)


# ------------------------------------------------------------------ new rows, in both stores


@each
@given(jobs, st.sampled_from([JobStatus.READY, JobStatus.WAITING, JobStatus.RUNNING]))
def test_a_new_job_has_every_field_that_it_was_given(store: Store, job: Job, status: JobStatus) -> None:
    job = replace(job, status=status)
    with undone(store) as tx:
        assert tx.add_job(job, DOCUMENT)
        assert asdict(tx.job(job.key)) == asdict(new_job(job))


@each
@given(seats, st.sampled_from(SeatStatus))
def test_a_new_seat_has_every_field_that_it_was_given(store: Store, seat: Seat, status: SeatStatus) -> None:
    seat = replace(seat, status=status)
    with undone(store) as tx:
        tx.add_seats([seat])
        assert tx.seats(seat.job_id) == (new_seat(seat),)


@each
@given(a(Task, status=OPEN_TASKS, party_status=OPEN_TASKS))
def test_a_new_task_has_every_field_that_it_was_given(store: Store, task: Task) -> None:
    with undone(store) as tx:
        tx.add_tasks([task], a_job(), DOCUMENT)
        assert tx.task(task.key) == new_task(task)


@each
@given(a(Worker, status=st.just(WorkerStatus.CREATED)))
def test_a_new_worker_has_every_field_that_it_was_given(store: Store, worker: Worker) -> None:
    with undone(store) as tx:
        tx.add_worker(worker)
        assert tx.worker(worker.worker_id) == new_worker(worker)
