"""A store on SQLite in memory: the migrations run once a process, and each store gets a copy."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from fate_flow.store.database.migrations import upgrade
from fate_flow.store.database.opening import open_database
from fate_flow.store.sql.store import SqlStore


def sqlite_in_memory() -> SqlStore:
    database = open_database("sqlite:///:memory:", Path())
    database.connect()
    database.connection().deserialize(_migrated())
    return SqlStore(database)


@cache
def _migrated() -> bytes:
    database = open_database("sqlite:///:memory:", Path())
    upgrade(database)
    found: bytes = database.connection().serialize()
    database.close()
    return found
