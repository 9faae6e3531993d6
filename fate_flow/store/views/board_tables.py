"""The queries of the board about tables of this party: which there are, who may use one, where it is from and where it
went, as far as that is stored."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from peewee import SQL, Case, fn

from fate_flow.core.access.permission import ALL, Kind
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import Party
from fate_flow.store.database.access_models import PermissionRow
from fate_flow.store.database.model_rows import StoredModelRow
from fate_flow.store.database.models import JobRow, StorageTableRow
from fate_flow.store.database.result_rows import OutputRow
from fate_flow.store.sql.store import SqlTransaction
from fate_flow.store.values import READ, OutputTable, TableMeta
from fate_flow.store.views import board, job_search
from fate_flow.store.views.board import MOST_SEARCHED, PAGE, Counted, count_reviews, number_of
from fate_flow.store.views.columns import read_by
from fate_flow.store.views.job_names import names_of

MOST_USES = 100
MOST_MODELS = 100
OUTPUTS_AT_ONCE = 50_000
"""Outputs of tasks that one request looks at to count the uses of a table: no index has the name of a table."""


Inputs = Mapping[str, frozenset[tuple[str, str]]]
"""By task of a job: the other tasks and their outputs that are its inputs."""


@dataclass(frozen=True)
class TableSearch:
    """Which tables a list has."""

    origin: str
    namespace: str = ""          # empty: all


@dataclass(frozen=True)
class TablePlace:
    """The key of a row in a list by age."""

    create_time: int
    namespace: str
    name: str

    def __str__(self) -> str:
        """Return it as addresses, commands and answers have it."""
        return f"{self.create_time}/{quote(self.namespace, safe='')}/{quote(self.name, safe='')}"


@dataclass(frozen=True)
class ListedTable:
    namespace: str
    name: str
    count: int
    columns: int
    job_id: str                  # that has written it; empty if none has
    create_time: int
    is_disabled: bool

    @property
    def place(self) -> TablePlace:
        """From where the list goes on behind this table."""
        return TablePlace(self.create_time, self.namespace, self.name)


@dataclass(frozen=True)
class TablesPage:
    rows: tuple[ListedTable, ...]
    next: TablePlace | None      # from where the list goes on; None: that was all
    count: int                   # of all tables of the list
    is_counted: bool             # False: there are more
    names: Mapping[str, str]     # of the jobs of these tables, by id
    reviews: int


@dataclass(frozen=True)
class Use:
    """A task that has read a table, handed it on, or made it."""

    job_id: str
    task: str
    version: int
    role: str
    party_id: str
    data_name: str               # READ if it has only read it


@dataclass(frozen=True)
class MadeModel:
    """A model in the store of this party that was made, by way of any tasks of one job, from a table."""

    job_id: str
    task: str
    version: int
    party: Party
    output: str
    model_id: str
    model_version: int
    kind: str


@dataclass(frozen=True)
class ModelSources:
    """The tables of this party from which a task has made a model."""

    read: tuple[OutputTable, ...]        # that the task has read
    begin: tuple[OutputTable, ...]       # with which its job begins: that parameters named, of it or of tasks before it


@dataclass(frozen=True)
class TableDetails:
    table: TableMeta
    granted: tuple[str, ...]     # ids of the parties that may use it
    granted_all: tuple[str, ...] # of those that may use every table
    uses: tuple[Use, ...]        # the newest `MOST_USES` in the newest `MOST_SEARCHED` jobs
    use_count: int               # of all uses in these jobs
    is_counted: bool             # False: there are more
    is_whole: bool               # no jobs are older than these
    models: tuple[MadeModel, ...]        # by the jobs of these uses, newest first; the first `MOST_MODELS`
    model_count: int
    names: Mapping[str, str]     # of all these jobs, by id
    sources: tuple[OutputTable, ...]     # that the task which has made it has read
    maker: OutputTable | None
    reviews: int


def tables_page(search: TableSearch, behind: TablePlace | None, limit: int = PAGE) -> TablesPage:
    """Return the tables of an origin, newest first."""
    row = StorageTableRow.alias("listed")
    listed = _listed(row, (row.f_name,), search, None)
    listed = listed.order_by(*_by_age(row, search.namespace)[: 0 if search.namespace else 1])
    count, is_counted = number_of(listed, board.MOST_COUNTED)
    columns = (
        row.f_namespace, row.f_name, row.f_count, row.f_schema, row.f_job_id, row.f_create_time, row.f_disable
    )  # fmt: skip
    query = _listed(row, columns, search, behind).order_by(*_by_age(row, search.namespace))
    rows = [
        ListedTable(of, name, count or 0, 1 + len(json.loads(schema).get("header", ())), job_id, at or 0, bool(off))
        for of, name, count, schema, job_id, at, off in query.limit(limit + 1).tuples()
    ]  # fmt: skip
    following = rows[limit - 1].place if len(rows) > limit else None
    names = names_of(one.job_id for one in rows if one.job_id)
    return TablesPage(tuple(rows[:limit]), following, count, is_counted, names, count_reviews())


def count_tables(search: TableSearch, behind: TablePlace | None) -> Counted:
    """Count the tables of an origin behind the place, as many as one request may count in an index."""
    row, most = StorageTableRow.alias("listed"), job_search.COUNTED_AT_ONCE
    keys = _listed(row, (row.f_create_time, row.f_namespace, row.f_name), search, behind)
    keys = keys.order_by(*_by_age(row, search.namespace))
    last = next(iter(keys.limit(1).offset(most - 1).tuples()), None)
    count = number_of(keys, most)[0] if last is None else most
    return Counted(count, count, "" if last is None else str(TablePlace(last[0] or 0, *last[1:])))


def count_uses(namespace: str, name: str, behind: str) -> Counted:
    """Count the uses of a table in the jobs with ids below `behind`, the highest first; empty: in all jobs."""
    row = OutputRow
    above = [row.f_job_id < behind] if behind else []
    ids = row.select(row.f_job_id).where(row.f_job_id > "", *above).order_by(row.f_job_id.desc())
    last = ids.limit(1).offset(OUTPUTS_AT_ONCE - 1).scalar() or ""
    where = [row.f_job_id >= last, *above]   # all outputs of the last job: the next request goes on behind it
    is_it = (row.f_table_namespace == namespace) & (row.f_table_name == name)
    counts = row.select(fn.COUNT(SQL("1")), fn.SUM(Case(None, ((is_it, 1),), 0))).where(*where)
    looked_at, count = next(iter(counts.tuples()))
    return Counted(int(count or 0), int(looked_at), last)


def table_details(tx: SqlTransaction, namespace: str, name: str) -> TableDetails | None:
    table = tx.table(namespace, name)
    if table is None:
        return None
    row = PermissionRow
    is_it = ((row.f_namespace == namespace) & (row.f_name == name)) | (row.f_name == ALL)
    grants = list(
        row.select(row.f_party_id, row.f_name).where((row.f_kind == Kind.DATASET.value) & is_it)
        .order_by(row.f_party_id).tuples()
    )  # fmt: skip
    maker, sources = _made_from(tx, table) if table.job_id else (None, ())
    uses, use_count, is_counted, is_whole = _uses(namespace, name)
    models = _models_of(uses)
    names = names_of([*(one.job_id for one in uses), *([table.job_id] if table.job_id else [])])
    return TableDetails(
        table, tuple(party for party, of in grants if of != ALL), tuple(party for party, of in grants if of == ALL),
        uses, use_count, is_counted, is_whole, models[:MOST_MODELS], len(models), names, sources, maker,
        count_reviews(),
    )  # fmt: skip


def models_made_from(namespace: str, name: str) -> tuple[MadeModel, ...]:
    """Return the models that the newest jobs have made from a table, newest first."""
    return _models_of(_uses(namespace, name)[0])


def _listed(row: Any, columns: Sequence[Any], search: TableSearch, behind: TablePlace | None) -> Any:
    """Select the tables of a list behind the place, by the index that has them in the order of `_by_age`."""
    where = row.f_origin == search.origin
    if search.namespace:
        where &= row.f_namespace == search.namespace
    if behind is not None:
        at, of = behind.create_time, behind.namespace
        inside = (row.f_namespace < of) | ((row.f_namespace == of) & (row.f_name < behind.name))
        where &= (row.f_create_time <= at) & ((row.f_create_time < at) | inside)
    source = read_by(row, "listed", "ix_table_namespace" if search.namespace else "ix_table_age")
    return row.select(*columns).from_(source).where(where)


def _by_age(row: Any, namespace: str) -> tuple[Any, ...]:
    # MariaDB sorts all tables of a namespace if the order names what is the same for all of them.
    return (row.f_create_time.desc(), *([] if namespace else [row.f_namespace.desc()]), row.f_name.desc())


def _uses(namespace: str, name: str) -> tuple[tuple[Use, ...], int, bool, bool]:
    """Look at the outputs of the newest jobs: no index leads from a table to the tasks that have read it. Return the
    newest uses, how many there are in these jobs, whether these are all of them, and whether these are all jobs."""
    oldest = JobRow.select(JobRow.f_job_id).order_by(
        JobRow.f_create_time.desc(), JobRow.f_job_id.desc(), JobRow.f_role.desc(), JobRow.f_party_id.desc()
    ).offset(MOST_SEARCHED - 1).limit(1).scalar()  # fmt: skip
    row = OutputRow
    where = (row.f_table_namespace == namespace) & (row.f_table_name == name)
    if oldest:
        where &= row.f_job_id >= oldest
    columns = row.f_job_id, row.f_component_name, row.f_task_version, row.f_role, row.f_party_id, row.f_data_name
    newest = row.select(*columns).where(where).order_by(row.f_job_id.desc(), row.f_task_id, row.f_task_version.desc())
    found = tuple(Use(*one) for one in newest.limit(MOST_USES + 1).tuples())
    if len(found) <= MOST_USES:
        return found, len(found), True, not oldest
    return found[:MOST_USES], *number_of(row.select(row.f_job_id).where(where), board.MOST_COUNTED), not oldest


def _models_of(uses: tuple[Use, ...]) -> tuple[MadeModel, ...]:
    """Return the models of tasks that have read a table, and of those behind them."""
    row = StoredModelRow
    query = row.select(
        row.f_job_id, row.f_component_name, row.f_task_version, row.f_role, row.f_party_id, row.f_output,
        row.f_model_id, row.f_model_version, row.f_kind,
    ).where(row.f_job_id.in_({one.job_id for one in uses} or [""])).order_by(
        row.f_job_id.desc(), row.f_component_name, row.f_output, row.f_task_version.desc()
    )  # fmt: skip
    models = [
        MadeModel(job_id, task, version, Party(role, party_id), *rest)
        for job_id, task, version, role, party_id, *rest in query.tuples()
    ]
    jobs = {one.job_id for one in models}
    graphs = JobRow.select(JobRow.f_job_id, JobRow.f_dsl).where(JobRow.f_job_id.in_(jobs or [""])).tuples()
    inputs_by_job = {job_id: inputs_in(json.loads(dsl)) for job_id, dsl in graphs}
    made: set[tuple[str, str, Party]] = set()
    for one in uses:
        if (inputs := inputs_by_job.get(one.job_id)) is not None:
            first = {one.task} if one.data_name == READ else _readers(inputs, one.task, one.data_name)
            made |= {(one.job_id, task, Party(one.role, one.party_id)) for task in _behind(inputs, first)}
    return tuple(one for one in models if (one.job_id, one.task, one.party) in made)


def _readers(inputs: Inputs, maker: str, output: str) -> set[str]:
    return {task for task, found in inputs.items() if (maker, output) in found}


def _behind(inputs: Inputs, first: set[str]) -> set[str]:
    """Return these tasks and all that need them, by way of others, too."""
    followers: dict[str, set[str]] = {}
    for task, found in inputs.items():
        for maker, _ in found:
            followers.setdefault(maker, set()).add(task)
    return _reached(followers, first)


def _reached(following: Mapping[str, Iterable[str]], first: set[str]) -> set[str]:
    found, ahead = set(first), list(first)
    for task in ahead:
        new = set(following.get(task, ())) - found
        found |= new
        ahead += new
    return found


def _made_from(tx: SqlTransaction, table: TableMeta) -> tuple[OutputTable | None, tuple[OutputTable, ...]]:
    """Return the output that a table is, and the tables that its task has read."""
    results = tx.results_of(table.job_id)
    maker = next((
        one for one in results
        if (one.namespace, one.name) == (table.namespace, table.name) and one.data_name != READ
    ), None)  # fmt: skip
    if maker is None:
        return None, ()
    return maker, _read_by(results, maker.task, _inputs_of_job(tx, table.job_id))


def model_sources(tx: SqlTransaction, key: TaskKey) -> ModelSources:
    """Return the tables from which an attempt of a task at this party has made its models."""
    results, inputs = tx.results_of(key.job_id), _inputs_of_job(tx, key.job_id)
    makers = {task: {maker for maker, _ in found} for task, found in inputs.items()}
    before = _reached(makers, {key.name})
    begin = [
        one for one in results
        if one.data_name == READ and one.task.party == key.party
        and (one.task == key or (one.task.name in before and one.task.name != key.name))
    ]  # fmt: skip
    return ModelSources(_read_by(results, key, inputs), _each_once(begin))


def _inputs_of_job(tx: SqlTransaction, job_id: str) -> Inputs:
    document = tx.document(job_id)
    return inputs_in(document.dsl if document is not None else {})


def _read_by(results: Iterable[OutputTable], key: TaskKey, inputs: Inputs) -> tuple[OutputTable, ...]:
    """Return the tables that a task has read: those that its parameters named, and those that other tasks of its job
    had made for it."""
    every = tuple(results)
    found = [one for one in every if one.data_name == READ and one.task == key]
    given = inputs.get(key.name, frozenset())
    found += [one for one in every if one.task.party == key.party and (one.task.name, one.data_name) in given]
    return _each_once(found)


def _each_once(found: Iterable[OutputTable]) -> tuple[OutputTable, ...]:
    return tuple({(one.namespace, one.name): one for one in found}.values())


def inputs_in(dsl: Mapping[str, Any]) -> Inputs:
    """Return task and output of each input, data or model, of each task of a document in the form of FATE v1."""
    components = dsl.get("components")
    return {
        task: frozenset(_named(one.get("input"))) if isinstance(one, Mapping) else frozenset()
        for task, one in (components.items() if isinstance(components, Mapping) else ())
    }


def _named(given: object, inside: int = 2) -> Iterator[tuple[str, str]]:
    """Yield what is named as `task.output`: by kind, or by kind and key. A stored model is an object below that."""
    if isinstance(given, str):
        maker, dot, output = given.partition(".")
        if dot:
            yield maker, output
    elif isinstance(given, list):
        for one in given:
            yield from _named(one, 0)
    elif isinstance(given, Mapping) and inside:
        for one in given.values():
            yield from _named(one, inside - 1)
