"""A table as one of a MySQL or MariaDB server, there in full or as it was before.

It is filled under another name and renamed in one step. Its comment names the task that made it, so that a second
attempt of the task knows the table of the first.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import pymysql

from fate_flow.components.errors import ComponentError, shown
from fate_flow.components.mysql_server import open_server, place_of, quoted
from fate_flow.components.table import Row, Table

ROWS_AT_ONCE = 1000
_COMMENT = "made by fate_flow, task "


def write_mysql(table: Table, server: Mapping[str, Any], name: str, task_id: str, *, replaces: bool) -> None:
    """Raises ComponentError, also where a table of this name is that of another task and is not to be replaced."""
    with open_server(server) as connection:
        known = _comment_of(connection, name)
        if known not in (None, _comment(task_id)) and not replaces:
            raise ComponentError(
                f"table {shown(name)} of {place_of(server)} exists already; with destroy (--drop) it is overwritten"
            )
        unfinished = f"fate_flow_{secrets.token_hex(8)}"
        try:
            _fill(connection, unfinished, table, _comment(task_id))
            _publish(connection, unfinished, name, is_there=known is not None)
        finally:
            with suppress(pymysql.MySQLError):
                _run(connection, f"DROP TABLE IF EXISTS {quoted(unfinished)}")


def _comment_of(connection: pymysql.Connection[Any], name: str) -> str | None:
    """None when there is no such table."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s",
            (name,),
        )
        found = cursor.fetchone()
    return None if found is None else str(found[0])


def _comment(task_id: str) -> str:
    return f"{_COMMENT}{task_id}"


def _fill(connection: pymysql.Connection[Any], name: str, table: Table, comment: str) -> None:
    names = (quoted(one).replace("%", "%%") for one in (table.schema.sid, *table.schema.header))
    columns = ", ".join(f"{one} LONGTEXT NOT NULL" for one in names)
    form = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    _run(connection, f"CREATE TABLE {quoted(name)} ({columns}) {form} COMMENT = %s", (comment,))
    marks = ", ".join(["%s"] * (len(table.schema.header) + 1))
    with connection.cursor() as cursor:
        for rows in _batches(table):
            cursor.executemany(f"INSERT INTO {quoted(name)} VALUES ({marks})", rows)  # noqa: S608  # quoted, and marks
            connection.commit()


def _publish(connection: pymysql.Connection[Any], unfinished: str, name: str, *, is_there: bool) -> None:
    if not is_there:
        _run(connection, f"RENAME TABLE {quoted(unfinished)} TO {quoted(name)}")
        return
    old = f"{unfinished}_old"
    _run(connection, f"RENAME TABLE {quoted(name)} TO {quoted(old)}, {quoted(unfinished)} TO {quoted(name)}")
    _run(connection, f"DROP TABLE {quoted(old)}")


def _run(connection: pymysql.Connection[Any], statement: str, values: Sequence[object] = ()) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values or None)


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    rest = iter(rows)
    while batch := list(islice(rest, ROWS_AT_ONCE)):
        yield batch
