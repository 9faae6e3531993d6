"""`/v1/table/search`, `/v1/table/preview` and `/v1/table/tracking/...`: which tables there are, the first rows of one,
its sources, and the jobs using it."""

from __future__ import annotations

from flask import Blueprint, Response

from fate_flow.api.http.arguments import TABLE, read_table, read_whole, whole
from fate_flow.api.http.declared import (
    COUNT,
    TEXT,
    TIME,
    YES_NO,
    a_list,
    an_object,
    declared,
    described,
    one_of,
    or_null,
)
from fate_flow.api.http.services import Services
from fate_flow.api.v1.envelope import arguments, ok
from fate_flow.api.v1.jobs.board_data import COLUMNS, MOST_SHOWN, ROWS, columns_of, first_rows
from fate_flow.api.v1.rendering.jobs_beside import JOBS_BESIDE, jobs_beside
from fate_flow.api.v1.rendering.queue import party_of
from fate_flow.api.v1.tables.table_lists import ORIGINS, TABLE_SEARCH, read_table_place, read_table_search
from fate_flow.components.providers.builtin import WRITTEN
from fate_flow.core.access.client_roles import ClientRole
from fate_flow.core.model import artifact
from fate_flow.core.model.errors import Conflict, NotFound
from fate_flow.core.model.grammar import shown
from fate_flow.services.artifacts.inputs import sources_of
from fate_flow.services.artifacts.tables import MADE
from fate_flow.services.context.documents import spec_in_row
from fate_flow.store.contract.transaction import Transaction
from fate_flow.store.values import READ, TableMeta
from fate_flow.store.views.lists import MOST_ROWS

Name = tuple[str, str]
"""Namespace and name of a table."""

_OF_TABLES = (MADE, WRITTEN)

_PREVIEW = an_object({"namespace": TEXT, "table_name": TEXT, "count": COUNT, "header": COLUMNS, "data": ROWS})
_SOURCES = a_list(an_object(dict.fromkeys(
    ("parent_table_namespace", "parent_table_name", "source_table_namespace", "source_table_name"), TEXT
)))  # fmt: skip
_JOBS = an_object({
    "count": COUNT, "job": a_list(TEXT),
    "models": described(
        a_list(an_object({
            "model_id": TEXT, "model_version": COUNT, "output": TEXT, "job_id": TEXT, "component_name": TEXT,
            "task_version": COUNT, "role": TEXT, "party_id": TEXT,
        }, title="MadeModel")),
        "That tasks of the newest of these jobs have made from it, also by way of other tasks, newest first.",
    ),
})  # fmt: skip
_LISTED = an_object(
    {
        "namespace": TEXT, "table_name": TEXT, "origin": one_of(ORIGINS), "count": COUNT,
        "columns": described(COUNT, "That of the ids included."),
        "job_id": described(TEXT, "That has written it; empty: none has."), "create_time": TIME, "enable": YES_NO,
    },
    title="ListedTable",
)  # fmt: skip
_NEXT = or_null(described(TEXT, "From where the next request goes on; null: that was all."))
_FOUND = 10


def blueprint(services: Services) -> Blueprint:
    routes = _TableRoutes(services)
    tables = Blueprint("tables", __name__, url_prefix="/v1/table")
    tables.post("/search")(routes.search)
    tables.post("/search/count")(routes.count_found)
    tables.post("/preview")(routes.preview)
    tables.post("/tracking/source")(routes.sources)
    tables.post("/tracking/job")(routes.jobs)
    return tables


class _TableRoutes:
    def __init__(self, services: Services) -> None:
        self._context = services.context
        self._views = services.views

    @declared(
        "List the newest tables of an origin, from a place on.", ClientRole.READ,
        takes={**TABLE_SEARCH, "limit": whole(f"Number of tables; 0 means {MOST_ROWS}, the maximum.", default=_FOUND)},
        data=an_object({
            "tables": a_list(_LISTED), "count": described(COUNT, "Of all pages."),
            "is_counted": described(YES_NO, "false: there are more than `count`."), "next": _NEXT,
        }),
        aside=JOBS_BESIDE,
    )  # fmt: skip
    def search(self) -> Response:
        body = arguments()
        limit = min(read_whole(body, "limit", _FOUND), MOST_ROWS) or MOST_ROWS
        search = read_table_search(body)
        found = self._views.board.tables(search, read_table_place(body), limit)
        tables = [
            {
                "namespace": one.namespace, "table_name": one.name, "origin": search.origin, "count": one.count,
                "columns": one.columns, "job_id": one.job_id, "create_time": one.create_time,
                "enable": not one.is_disabled,
            }
            for one in found.rows
        ]  # fmt: skip
        following = None if found.next is None else str(found.next)
        data = {"tables": tables, "count": found.count, "is_counted": found.is_counted, "next": following}
        return ok(data, **jobs_beside(self._views, {one.job_id for one in found.rows if one.job_id}))

    @declared(
        "Show how many tables of an origin there are, of those that one request counts; `next` leads to the others.",
        ClientRole.READ, takes=TABLE_SEARCH, data=an_object({"count": COUNT, "looked_at": COUNT, "next": _NEXT}),
    )  # fmt: skip
    def count_found(self) -> Response:
        body = arguments()
        found = self._views.board.count_tables(read_table_search(body), read_table_place(body))
        return ok({"count": found.count, "looked_at": found.looked_at, "next": found.next or None})

    @declared(f"Show the first {MOST_SHOWN} rows of a table.", ClientRole.SUBMIT, needs=TABLE, data=_PREVIEW)
    def preview(self) -> Response:
        """Return the first rows and the names of the columns."""
        name = read_table(arguments("namespace", "table_name"))
        table = self._context.read(lambda tx: _table(tx, name))
        if table is None:
            raise NotFound(f"no find table: {_text(name)}")
        return ok({
            "namespace": table.namespace, "table_name": table.name, "count": table.count, "header": columns_of(table),
            "data": first_rows(table),
        })

    @declared(
        "Show the tables that a task made this one from, and their origins.", ClientRole.READ,
        needs=TABLE, data=_SOURCES,
    )
    def sources(self) -> Response:
        """Return the tables from which a task made this one, and their original sources; [] for an uploaded table."""
        name = read_table(arguments("namespace", "table_name"))
        return ok(self._context.read(lambda tx: [
            {
                "parent_table_namespace": parent[0], "parent_table_name": parent[1],
                "source_table_namespace": source[0], "source_table_name": source[1],
            }
            for parent in self._parents(tx, _known(tx, name))
            for source in self._first(tx, parent)
        ]))

    @declared(
        "List the jobs whose tasks made this table, read it or passed it on, and the models made from it.",
        ClientRole.READ, needs=TABLE, data=_JOBS,
        aside=JOBS_BESIDE,
    )
    def jobs(self) -> Response:
        """Return the jobs here whose tasks made this table, read it or passed it on, newest first, and the models."""
        name = read_table(arguments("namespace", "table_name"))

        def find(tx: Transaction) -> tuple[str, ...]:
            table = _known(tx, name)
            handed_on = tx.jobs_with(*name, MOST_ROWS)
            return handed_on if not table.job_id or table.job_id in handed_on else (*handed_on, table.job_id)

        found = self._context.read(find)
        models = [
            {
                "model_id": one.model_id, "model_version": one.model_version, "output": one.output,
                "job_id": one.job_id, "component_name": one.task, "task_version": one.version, **party_of(one.party),
            }
            for one in self._views.models_made_from(*name)
        ]  # fmt: skip
        return ok({"count": len(found), "job": list(found), "models": models}, **jobs_beside(self._views, found))

    def _parents(self, tx: Transaction, table: TableMeta | None) -> list[Name]:
        """Return the tables that the task that made it read at its seat."""
        if table is None or table.origin not in _OF_TABLES:
            return []
        results, name = tx.results_of(table.job_id), (table.namespace, table.name)
        made = (one for one in results if (one.namespace, one.name) == name and one.data_name != READ)
        maker = next(made, None)
        document = tx.document(table.job_id)
        if maker is None or document is None:
            return []
        found = [(one.namespace, one.name) for one in results if one.data_name == READ and one.task == maker.task]
        task = spec_in_row(self._context, document).tasks[maker.task.name]
        given = [one for _, _, every in sources_of(self._context.kinds, tx, maker.task, task) for one in every]
        read = [(one.metadata["namespace"], one.metadata["name"]) for one in given if one.kind == artifact.TABLE]
        return list(dict.fromkeys([*found, *read]))

    def _first(self, tx: Transaction, name: Name) -> list[Name]:
        """Return the original sources of this table; the table itself if it has none."""
        first, pending, seen = list[Name](), [name], set[Name]()
        while pending:
            one = pending.pop()
            if one in seen:
                continue
            seen.add(one)
            before = self._parents(tx, _table(tx, one))
            pending += before
            if not before:
                first.append(one)
        return first


def _known(tx: Transaction, name: Name) -> TableMeta:
    """Return the table. Raise Conflict, which has FATE's retcode for this case, if it does not exist."""
    table = _table(tx, name)
    if table is None:
        raise Conflict(f"no find table: {_text(name)}")
    return table


def _table(tx: Transaction, name: Name) -> TableMeta | None:
    return tx.table(*name)


def _text(name: Name) -> str:
    return f"namespace {shown(name[0])}, table_name {shown(name[1])}"
