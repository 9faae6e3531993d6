"""A table as one of a MySQL or MariaDB server, there in full or as it was before.

It is filled under another name and renamed in one step. Its comment names the task that made it, so that a second
attempt of the task knows the table of the first.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from typing import Any

import pymysql

from fate_flow.components.errors import BadConfig, ComponentError, shown
from fate_flow.components.table import Row, Table

ROWS_AT_ONCE = 1000
_SECONDS = 10
_READ_SECONDS = 600
_COMMENT = "made by fate_flow, task "


def write_mysql(table: Table, server: Mapping[str, Any], name: str, task_id: str, *, replaces: bool) -> None:
    """`server` has host, port, user, password and db. Raises ComponentError, in words without the password."""
    if not server:
        raise BadConfig("conf.storage: is missing: the configuration of this party has the connector no more")
    where = f"{server.get('host')}:{server.get('port')}/{server.get('db')}"
    with _told(where), closing(_connect(server)) as connection:
        known = _comment_of(connection, name)
        if known not in (None, _comment(task_id)) and not replaces:
            raise ComponentError(
                f"table {shown(name)} of {where} exists already; with destroy (--drop) it is overwritten"
            )
        unfinished = f"fate_flow_{secrets.token_hex(8)}"
        try:
            _fill(connection, unfinished, table, _comment(task_id))
            _publish(connection, unfinished, name, is_there=known is not None)
        finally:
            with suppress(pymysql.MySQLError):
                _run(connection, f"DROP TABLE IF EXISTS {_quoted(unfinished)}")


def _connect(server: Mapping[str, Any]) -> pymysql.Connection[Any]:
    return pymysql.connect(
        host=server["host"], port=server["port"], user=server["user"], password=server["password"],
        database=server["db"], charset="utf8mb4", connect_timeout=_SECONDS, read_timeout=_READ_SECONDS,
        write_timeout=_READ_SECONDS, autocommit=False,
    )  # fmt: skip


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
    columns = ", ".join(f"{_quoted(one)} LONGTEXT NOT NULL" for one in (table.schema.sid, *table.schema.header))
    form = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    _run(connection, f"CREATE TABLE {_quoted(name)} ({columns}) {form} COMMENT = %s", (comment,))
    marks = ", ".join(["%s"] * (len(table.schema.header) + 1))
    with connection.cursor() as cursor:
        for rows in _batches(table):
            cursor.executemany(f"INSERT INTO {_quoted(name)} VALUES ({marks})", rows)  # noqa: S608  # quoted, and marks
            connection.commit()


def _publish(connection: pymysql.Connection[Any], unfinished: str, name: str, *, is_there: bool) -> None:
    if not is_there:
        _run(connection, f"RENAME TABLE {_quoted(unfinished)} TO {_quoted(name)}")
        return
    old = f"{unfinished}_old"
    _run(connection, f"RENAME TABLE {_quoted(name)} TO {_quoted(old)}, {_quoted(unfinished)} TO {_quoted(name)}")
    _run(connection, f"DROP TABLE {_quoted(old)}")


def _run(connection: pymysql.Connection[Any], statement: str, values: Sequence[object] = ()) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values or None)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``').replace('%', '%%')}`"


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    rest = iter(rows)
    while batch := list(islice(rest, ROWS_AT_ONCE)):
        yield batch


@contextmanager
def _told(where: str) -> Iterator[None]:
    """Says in words what the server refused."""
    try:
        yield
    except pymysql.MySQLError as error:
        words = error.args[1] if len(error.args) > 1 else type(error).__name__
        raise ComponentError(f"MYSQL at {where}: {shown(str(words), 200)}") from error
