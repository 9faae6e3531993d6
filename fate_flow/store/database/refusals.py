"""Turning errors of the database into the errors of this package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import peewee
from peewee import Database

from fate_flow.core.model.errors import CommitUnknown, DiskFull, StorageFailed, StorageUnavailable
from fate_flow.store.database.opening import is_disk_full, is_lost, is_passing

REFUSALS = (peewee.DatabaseError, peewee.InterfaceError)


@contextmanager
def reading_refused(database: Database) -> Iterator[None]:
    """Turn database errors of reads into StorageFailed."""
    try:
        yield
    except REFUSALS as error:
        drop_if_lost(database, error)
        raise refusal_of(error) from error


def first_refusal(error: BaseException, before: BaseException | None) -> BaseException:
    """Return the first database error, if the rollback after it failed, too.

    Between two errors of peewee there is one of the driver. `before` is an error from before the transaction."""
    found, one = error, error.__cause__ or error.__context__
    while one is not None and one is not before:
        if isinstance(one, REFUSALS):
            found = one
        one = one.__cause__ or one.__context__
    return found


def drop_if_lost(database: Database, error: BaseException) -> None:
    """Close a lost connection, so that the next transaction begins on a new one."""
    if is_lost(error) and not database.in_transaction():
        with suppress(*REFUSALS):
            database.close()


def refusal_of(error: BaseException, while_committing: bool = False) -> StorageFailed:
    """Return the error for the caller; `retry.py` says which errors are retried."""
    if is_disk_full(error):
        return DiskFull(f"the disk of the database is full: {error}")
    if while_committing and is_lost(error):
        return CommitUnknown(f"the database was gone while it committed: {error}")
    if is_passing(error):
        return StorageUnavailable(f"the database refused for the moment: {error}")
    return StorageFailed(f"the database refused: {error}")
