"""A store on SQLite in memory."""

from __future__ import annotations

from pathlib import Path

from fate_flow.store.database.migrations import upgrade
from fate_flow.store.database.opening import open_database
from fate_flow.store.sql.store import SqlStore


def sqlite_in_memory() -> SqlStore:
    database = open_database("sqlite:///:memory:", Path())
    upgrade(database)
    return SqlStore(database)
