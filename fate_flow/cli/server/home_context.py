"""The use cases of a party for a command of its operator, whether the server runs or not, and its database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import peewee
from peewee import Database, SqliteDatabase

from fate_flow.core.model.errors import FlowError, StorageFailed
from fate_flow.relay.wakeup import Wakeup
from fate_flow.services.context.ports import Context, in_place
from fate_flow.settings.client_keys import make_client_keys
from fate_flow.settings.settings import Settings
from fate_flow.store.database import migrations
from fate_flow.store.database.opening import create_if_missing, open_database


@contextmanager
def home_context(settings: Settings) -> Iterator[Context]:
    """Yield the use cases of this party, for a process outside the server. Raise FlowError."""
    # Imported here: it is most of a server, and commands for the database alone do not need it.
    from fate_flow.server.runtime import EffectRunner, Wakeups, build_context, open_log, open_store, prepare_home

    if not settings.home.is_dir():
        raise FlowError(f"home: the folder {settings.home} does not exist; no server has run with this configuration")
    _check_schema(schema_of(settings))   # before a connection makes a file that would say that a server has run here
    prepare_home(settings)
    record = open_log(settings)
    store = open_store(settings, record)
    try:
        migrations.check_digests(store.database)
        migrations.bind_party(store.database, settings.party_id)
        # Nobody receives these wake-ups: the server finds the changes at its next poll.
        wakeups, effect_runner = Wakeups(Wakeup(), Wakeup(), Wakeup()), EffectRunner()
        context = build_context(settings, wakeups, settings.url, record, store, effect_runner)
        yield replace(context, carry_out=in_place)
    finally:
        store.close()
        record.close()


def _check_schema(have: int) -> None:
    newest = migrations.migrations()[-1].number
    if not have:
        raise StorageFailed(
            "the database is empty: start the server once (fate_flow serve), or run fate_flow db upgrade"
        )
    if have != newest:
        raise StorageFailed(f"the database has schema {have}, this release needs {newest}: run fate_flow db upgrade")


def schema_of(settings: Settings) -> int:
    """Return the number of the newest applied migration; 0 if there is no database yet, or an empty one."""
    with _open(settings) as database:
        return migrations.version(database) if _exists(database) else 0


def upgrade_database(settings: Settings) -> tuple[migrations.Migration, ...]:
    """Upgrade the database of a home, or make it, with the client keys that the first start would make; return the
    migrations that were applied. Raises FlowError."""
    create_if_missing(settings.database_url)
    settings.home.mkdir(parents=True, exist_ok=True)
    if settings.makes_client_keys:          # before the upgrade hides that no server has run here yet
        make_client_keys(settings.shared, settings.client_keys)
    with _open(settings) as database:
        done = migrations.upgrade(database)
        migrations.bind_party(database, settings.party_id)
    return done


@contextmanager
def _open(settings: Settings) -> Iterator[Database]:
    """Yield the database, which connects at its first use; close it at the end. Raise StorageFailed if it refuses."""
    database = open_database(settings.database_url, settings.home)
    try:
        yield database
    except (peewee.DatabaseError, peewee.InterfaceError) as error:
        raise StorageFailed(f"the database refused: {error}") from error
    finally:
        database.close()


def _exists(database: Database) -> bool:
    """Return False for a SQLite file that does not exist: connecting would create it."""
    return not isinstance(database, SqliteDatabase) or Path(database.database).exists()
