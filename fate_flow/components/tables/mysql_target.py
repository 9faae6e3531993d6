"""Writing a table to a MySQL or MariaDB server, completely or not at all.

The table is filled under another name and renamed in one step. Its comment names the task that made it, so that a
second attempt of the task recognises the table of the first. A table with triggers or foreign keys is not replaced,
because renaming and dropping it would affect them. During the writing, the writer holds a lock with the temporary name
on the server. The server releases the locks of dead connections, so the next writer can recognise what killed writers
left.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import pymysql

from fate_flow.components.base.errors import TO_REPLACE, ComponentError, shown
from fate_flow.components.tables.mysql_server import open_server, place_of, quoted
from fate_flow.components.tables.table import Row, Table

log = logging.getLogger(__name__)

ROWS_AT_ONCE = 1000
_COMMENT = "made by fate_flow, task "
_UNFINISHED = "fate_flow_"
_OLD = "_old"
_LEFT = re.compile(f"({_UNFINISHED}[0-9a-f]{{16}})({_OLD})?")
_LOCK_SECONDS = 30          # the longest time until the server notices that a connection is gone

_BASE_TABLE = "BASE TABLE"
_OF_TABLE = "FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s"
_HANGS_ON_IT = (
    ("SELECT CONCAT('table ', TABLE_SCHEMA, '.', TABLE_NAME, ' refers to it by a foreign key') "
     "FROM information_schema.KEY_COLUMN_USAGE "
     "WHERE REFERENCED_TABLE_SCHEMA = DATABASE() AND REFERENCED_TABLE_NAME = %s"),
    ("SELECT CONCAT('it has the foreign key ', CONSTRAINT_NAME) FROM information_schema.TABLE_CONSTRAINTS "
     "WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s AND CONSTRAINT_TYPE = 'FOREIGN KEY'"),
    ("SELECT CONCAT('it has the trigger ', TRIGGER_NAME) FROM information_schema.TRIGGERS "
     "WHERE EVENT_OBJECT_SCHEMA = DATABASE() AND EVENT_OBJECT_TABLE = %s"),
)  # fmt: skip


def write_mysql(table: Table, server: Mapping[str, Any], name: str, task_id: str, *, replaces: bool) -> None:
    """Write the table to the server's table `name`.

    Raises ComponentError, also if such a table of another task exists and may not, or cannot, be replaced."""
    comment = f"{_COMMENT}{task_id}"
    with open_server(server) as connection:
        is_there = _check_free(connection, f"table {shown(name)} of {place_of(server)}", name, comment, replaces)
    unfinished = f"{_UNFINISHED}{secrets.token_hex(8)}"
    try:
        with open_server(server) as connection:
            _lock(connection, unfinished)
            _sweep(connection)
            _fill(connection, unfinished, table, comment)
            _publish(connection, unfinished, name, is_there=is_there)
    except BaseException:
        _put_back(server, unfinished, name, comment)
        raise


def _check_free(connection: pymysql.Connection[Any], text: str, name: str, comment: str, replaces: bool) -> bool:
    """Return whether there is a table with this name. Raises ComponentError if it may not be replaced."""
    known = _comment_of(connection, name)
    if known is None:
        return False
    hindrance = _hindrance(connection, name)
    if hindrance is not None:
        raise ComponentError(f"{text} exists already and is not replaced, drop or not: {hindrance}")
    if known != comment and not replaces:
        raise ComponentError(f"{text} exists already; {TO_REPLACE}")
    return True


def _hindrance(connection: pymysql.Connection[Any], name: str) -> str | None:
    """Return why the table with this name cannot be replaced, as far as the database user can see; None if it can."""
    kind = _one(connection, f"SELECT TABLE_TYPE {_OF_TABLE}", name)
    if kind != _BASE_TABLE:
        return f"it is no table but a {str(kind).lower()}"
    found = (_one(connection, query, name) for query in _HANGS_ON_IT)
    return next((str(one) for one in found if one is not None), None)


def _comment_of(connection: pymysql.Connection[Any], name: str) -> str | None:
    """Return the comment of a table; None if there is no such table."""
    found = _one(connection, f"SELECT TABLE_COMMENT {_OF_TABLE}", name)
    return None if found is None else str(found)


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
    """Rename the new table in one step. Before the old one is dropped, check again for triggers and foreign keys."""
    if not is_there:
        _run(connection, f"RENAME TABLE {quoted(unfinished)} TO {quoted(name)}")
        return
    old = f"{unfinished}{_OLD}"
    _run(connection, f"RENAME TABLE {quoted(name)} TO {quoted(old)}, {quoted(unfinished)} TO {quoted(name)}")
    hindrance = _hindrance(connection, old)
    if hindrance is not None:
        raise ComponentError(f"table {shown(name)} is not replaced: {hindrance}")
    _run(connection, f"DROP TABLE {quoted(old)}")


def _put_back(server: Mapping[str, Any], unfinished: str, name: str, comment: str) -> None:
    """After a failure, restore the old name and drop the new table.

    This uses a new connection, because the old one may be the failure. When the lock of the old one is free, its
    statements are over."""
    try:
        with open_server(server) as connection:
            _lock(connection, unfinished)
            old = f"{unfinished}{_OLD}"
            if _comment_of(connection, old) is not None and _comment_of(connection, name) == comment:
                names = quoted(name), quoted(unfinished), quoted(old), quoted(name)
                _run(connection, "RENAME TABLE {} TO {}, {} TO {}".format(*names))
            _run(connection, f"DROP TABLE IF EXISTS {quoted(unfinished)}")
    except ComponentError as error:
        log.warning("what was begun as %s is left to the next writer: %s", unfinished, error.message)


def _sweep(connection: pymysql.Connection[Any]) -> None:
    """Drop tables that killed writers left, also a replaced one if the new table has its name."""
    for name in _names_like(connection, _UNFINISHED):
        if _is_left(connection, name):
            with suppress(pymysql.MySQLError):
                _run(connection, f"DROP TABLE {quoted(name)}")


def _is_left(connection: pymysql.Connection[Any], name: str) -> bool:
    left = _LEFT.fullmatch(name)
    if left is None or not _one(connection, "SELECT IS_FREE_LOCK(%s)", left[1]):
        return False
    if left[2] == _OLD:
        return _hindrance(connection, name) is None
    return str(_comment_of(connection, name)).startswith(_COMMENT)


def _lock(connection: pymysql.Connection[Any], name: str) -> None:
    """Take the lock until the connection ends. Raises ComponentError if another connection keeps it."""
    if not _one(connection, f"SELECT GET_LOCK(%s, {_LOCK_SECONDS})", name):
        raise ComponentError(f"lock {name} is held by a connection that does not end")


def _names_like(connection: pymysql.Connection[Any], beginning: str) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT TABLE_NAME FROM information_schema.TABLES "
            "WHERE TABLE_SCHEMA = DATABASE() AND LEFT(TABLE_NAME, %s) = %s",
            (len(beginning), beginning),
        )
        return [str(row[0]) for row in cursor.fetchall()]


def _one(connection: pymysql.Connection[Any], query: str, value: str) -> Any:
    """Return the first value that the query finds; None if it finds nothing."""
    with connection.cursor() as cursor:
        cursor.execute(query, (value,))
        found = cursor.fetchone()
    return None if found is None else found[0]


def _run(connection: pymysql.Connection[Any], statement: str, values: Sequence[object] = ()) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values or None)


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    rest = iter(rows)
    while batch := list(islice(rest, ROWS_AT_ONCE)):
        yield batch
