"""Connections to a MySQL or MariaDB server that the operator has configured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import pymysql

from fate_flow.components.base.errors import BadConfig, ComponentError, shown

_SECONDS = 10
_READ_SECONDS = 600


def place_of(server: Mapping[str, Any]) -> str:
    """Return the address of the server for people, without user and password."""
    return f"{server['host']}:{server['port']}/{server['db']}"


@contextmanager
def open_server(server: Mapping[str, Any], **more: Any) -> Iterator[pymysql.Connection[Any]]:
    """Connect to a server; `server` has host, port, user, password and db.

    Raises ComponentError, without the password in its text, also if the server refuses something in the block."""
    if not server:
        raise BadConfig("conf.storage: is missing: the configuration of this party has the connector no more")
    try:
        connection = pymysql.connect(
            host=server["host"], port=server["port"], user=server["user"], password=server["password"],
            database=server["db"], charset="utf8mb4", connect_timeout=_SECONDS, read_timeout=_READ_SECONDS,
            write_timeout=_READ_SECONDS, **more,
        )  # fmt: skip
        with closing(connection):
            yield connection
    except pymysql.MySQLError as error:
        text = error.args[1] if len(error.args) > 1 else "connection failed"
        raise ComponentError(f"MYSQL at {place_of(server)}: {shown(str(text), 200)}") from error


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
