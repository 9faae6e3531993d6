"""A SQLite file of the present schema: the migrations run once a process, and each test gets a copy."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from peewee import Database

from fate_flow.store.database.migrations import upgrade
from fate_flow.store.database.opening import open_database

_FILE = "fate_flow.sqlite"


def migrated_sqlite(home: Path) -> Database:
    """Return the database of a home: an empty one for a new home, that of before for a restart."""
    if not (home / _FILE).exists():
        (home / _FILE).write_bytes(_migrated())
    database = open_database("", home)
    database.pragma("synchronous", "off", permanent=True)        # nothing here outlives a failure of power
    return database


@cache
def _migrated() -> bytes:
    with TemporaryDirectory() as folder:
        database = open_database("", Path(folder))
        upgrade(database)
        database.close()
        return (Path(folder) / _FILE).read_bytes()
