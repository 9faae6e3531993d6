"""The pages of the tables of this party."""

from __future__ import annotations

import json
from urllib.parse import urlencode

from flask import Blueprint, Response, request

from fate_flow.api.v1.outputs.table_rows import TableRows, rows_of
from fate_flow.core.model.errors import BadRequest, NotFound
from fate_flow.core.model.grammar import check_table_piece, shown
from fate_flow.store.values import READ
from fate_flow.store.views.board import MOST_SEARCHED
from fate_flow.web.board import Board
from fate_flow.web.pages import CALM, counted_piece
from fate_flow.web.table_schema import columns_of
from fate_flow.web.task_addresses import number, page_number, task_path

ORIGINS = {"upload": "uploaded", "output": "made by tasks", "writer": "written by Writer", "table_bind": "bound"}
ROWS_PAGE, COLUMNS_PAGE, SCHEMA_PAGE = 50, 20, 200


def add_data_pages(routes: Blueprint, board: Board) -> None:
    pages = _DataPages(board)
    routes.get("/data")(pages.tables)
    routes.get("/data/count")(pages.count_tables)
    routes.get("/data/table")(pages.table)


class _DataPages:
    def __init__(self, board: Board) -> None:
        self._board, self._queries = board, board.queries

    def tables(self) -> Response:
        origin, namespace, behind = _asked_list()
        found = self._queries.tables(origin, namespace, behind)
        kept = {"origin": origin, **({"namespace": namespace} if namespace else {})}
        return self._board.show(
            "tables.html", reviews=found.reviews, poll=CALM if behind is None else 0, found=found, rows=found.rows,
            origin=origin, origins=ORIGINS, namespace=namespace, is_first=behind is None, kept=urlencode(kept),
            older=f"/board/data?{urlencode({**kept, 'from': found.next})}" if found.next else "",
            counting=f"/board/data/count?{urlencode(kept)}",
        )  # fmt: skip

    def count_tables(self) -> Response:
        """Count on, as the list of tables asks."""
        found = self._queries.count_tables(*_asked_list())
        return counted_piece(found.count, found.looked_at, found.next)

    def table(self) -> Response:
        namespace = check_table_piece(request.args.get("namespace", ""), "namespace")
        name = check_table_piece(request.args.get("name", ""), "name")
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
        return self._board.show(
            "table.html", reviews=found.reviews, poll=0, found=found, of_schema=columns, schema_page=page,
            some_of_schema=columns[(page - 1) * SCHEMA_PAGE : page * SCHEMA_PAGE],
            schema_size=SCHEMA_PAGE, table=found.table, rows=rows, problem=problem,
            after=after, first=first, columns_page=COLUMNS_PAGE, rule=self._board.services.context.permission,
            origins=ORIGINS, task_path=task_path, read=READ, most_searched=MOST_SEARCHED,
            address=f"/board/data/table?{urlencode({'namespace': namespace, 'name': name})}",
        )  # fmt: skip


def _asked_list() -> tuple[str, str, tuple[int, str, str] | None]:
    """Return the origin, the namespace (empty: all) and the place of the list that is asked for. Raise BadRequest."""
    origin = request.args.get("origin", "") or "upload"
    if origin not in ORIGINS:
        raise BadRequest(f"origin: {shown(origin)} is not one of {', '.join(ORIGINS)}")
    given = request.args.get("namespace", "").strip()
    namespace = check_table_piece(given, "namespace") if given else ""
    return origin, namespace, _place(request.args.get("from", ""))


def _place(text: str) -> tuple[int, str, str] | None:
    """Read from where a list goes on. Raise BadRequest."""
    if not text:
        return None
    try:
        at, namespace, name = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        at = None
    if not isinstance(at, int) or not isinstance(namespace, str) or not isinstance(name, str) or abs(at) >= 1 << 60:
        raise BadRequest("from: is not what this board writes into its links")
    return at, namespace, name
