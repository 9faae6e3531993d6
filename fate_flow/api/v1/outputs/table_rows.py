"""The rows of a table, page by page."""

from __future__ import annotations

from dataclasses import dataclass

from fate_flow.components.tables.table import NoSuchTable, Row, Table
from fate_flow.core.model.errors import NotFound
from fate_flow.store.values import TableMeta


@dataclass(frozen=True)
class TableRows:
    """A page of a table. `next`: behind which row the next page begins; 0: this was the last one."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    next: int


def rows_of(table: TableMeta, after: int, limit: int) -> TableRows:
    """Return rows in the order of their insertion, behind the one with this number. Raises NotFound if the file was
    removed."""
    try:
        with Table(table.uri) as opened:
            found = opened.page(after, limit + 1)
            columns = (opened.schema.sid, *opened.schema.header)
    except NoSuchTable as error:
        raise NotFound(f"no data: {error.message}") from error
    return TableRows(columns, tuple(row for _, row in found[:limit]), found[limit - 1][0] if len(found) > limit else 0)
