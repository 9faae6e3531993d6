"""The servers of a party that share its database: their names, and what proves that they share a folder, too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import peewee
from peewee import CharField, Database, TextField

from fate_flow.core.model.errors import StorageFailed
from fate_flow.store.database.base import Base


class ServerRow(Base):
    f_name = CharField(32, primary_key=True)
    f_sign = CharField(64)
    f_shared_home = TextField()

    class Meta:
        table_name = "t_server"


@dataclass(frozen=True)
class KnownServer:
    """A server of the party, as of its last start."""

    name: str
    sign: str              # stands in its file in the shared folder, too
    shared_home: str


def known_servers(database: Database) -> tuple[KnownServer, ...]:
    """Return the servers that have ever started with `servers.name` on this database. Raise StorageFailed."""
    with _refusals(database):
        query = ServerRow.select(ServerRow.f_name, ServerRow.f_sign, ServerRow.f_shared_home).order_by(ServerRow.f_name)
        return tuple(KnownServer(*row) for row in query.tuples())


def note_server(database: Database, server: KnownServer) -> None:
    """Store this server, in place of what its last start stored. Raise StorageFailed."""
    with _refusals(database), database.atomic():
        ServerRow.delete().where(ServerRow.f_name == server.name).execute()
        ServerRow.insert(f_name=server.name, f_sign=server.sign, f_shared_home=server.shared_home).execute()


@contextmanager
def _refusals(database: Database) -> Iterator[None]:
    try:
        with database.bind_ctx([ServerRow]):
            yield
    except (peewee.DatabaseError, peewee.InterfaceError) as error:
        raise StorageFailed(f"the database refused: {error}") from error
