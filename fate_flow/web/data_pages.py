"""The pages of the tables of this party."""

from __future__ import annotations

from urllib.parse import urlencode

from flask import Blueprint, Response, request

from fate_flow.api.v1.outputs.table_rows import TableRows, rows_of
from fate_flow.api.v1.tables.table_lists import ORIGINS, read_table_place, read_table_search
from fate_flow.core.model.errors import NotFound
from fate_flow.core.model.grammar import check_job_id, check_table_piece, shown
from fate_flow.store.values import READ
from fate_flow.store.views.board import MOST_SEARCHED
from fate_flow.store.views.board_tables import TablePlace, TableSearch
from fate_flow.web.board import Board
from fate_flow.web.pages import CALM, counted_piece, list_command
from fate_flow.web.table_schema import columns_of
from fate_flow.web.task_addresses import number, page_number, task_path

ROWS_PAGE, COLUMNS_PAGE, SCHEMA_PAGE = 50, 20, 200


def add_data_pages(routes: Blueprint, board: Board) -> None:
    pages = _DataPages(board)
    routes.get("/data")(pages.tables)
    routes.get("/data/count")(pages.count_tables)
    routes.get("/data/table")(pages.table)
    routes.get("/data/table/count")(pages.count_uses)


class _DataPages:
    def __init__(self, board: Board) -> None:
        self._board, self._queries = board, board.queries

    def tables(self) -> Response:
        search, behind = _asked_list()
        found = self._queries.tables(search, behind)
        kept = {"origin": search.origin, **({"namespace": search.namespace} if search.namespace else {})}
        return self._board.show(
            "tables.html", reviews=found.reviews, poll=CALM if behind is None else 0, found=found, rows=found.rows,
            search=search, origins=ORIGINS, is_first=behind is None, kept=urlencode(kept),
            older=f"/board/data?{urlencode({**kept, 'from': found.next})}" if found.next else "",
            counting=f"/board/data/count?{urlencode(kept)}", command=list_command("table list", kept, behind),
        )  # fmt: skip

    def count_tables(self) -> Response:
        """Count on, as the list of tables asks."""
        found = self._queries.count_tables(*_asked_list())
        return counted_piece(found.count, found.looked_at, found.next)

    def count_uses(self) -> Response:
        """Count on, as the page of a table asks."""
        behind = request.args.get("from", "")
        found = self._queries.count_uses(*_asked_table(), check_job_id(behind) if behind else "")
        return counted_piece(found.count, found.looked_at, found.next)

    def table(self) -> Response:
        namespace, name = _asked_table()
        found = self._queries.table(namespace, name)
        if found is None:
            raise NotFound(f"this party has no table {shown(name)} in namespace {shown(namespace)}")
        after, first = number(request.args, "after") or 0, (page_number(request.args, "columns") - 1) * COLUMNS_PAGE
        rows, problem = TableRows((), (), 0), ""
        if self._board.may("read_rows"):
            try:
                rows = rows_of(found.table, after, ROWS_PAGE)
            except NotFound as error:
                problem = error.message
        page = page_number(request.args, "schema")
        columns = columns_of(found.table.schema) if self._board.may("read_rows") else ()
        asked = urlencode({"namespace": namespace, "name": name})
        return self._board.show(
            "table.html", reviews=found.reviews, poll=0, found=found, of_schema=columns, schema_page=page,
            some_of_schema=columns[(page - 1) * SCHEMA_PAGE : page * SCHEMA_PAGE],
            schema_size=SCHEMA_PAGE, table=found.table, rows=rows, problem=problem,
            after=after, first=first, columns_page=COLUMNS_PAGE, rule=self._board.services.context.permission,
            origins=ORIGINS, task_path=task_path, read=READ, most_searched=MOST_SEARCHED,
            address=f"/board/data/table?{asked}", counting=f"/board/data/table/count?{asked}",
        )  # fmt: skip


def _asked_table() -> tuple[str, str]:
    """Return namespace and name. Raise BadRequest."""
    namespace = check_table_piece(request.args.get("namespace", ""), "namespace")
    return namespace, check_table_piece(request.args.get("name", ""), "name")


def _asked_list() -> tuple[TableSearch, TablePlace | None]:
    """Return what list is asked for, and from where it goes on. Raise BadRequest."""
    given = {key: found for key, value in request.args.items() if (found := value.strip())}
    return read_table_search(given), read_table_place(given)
