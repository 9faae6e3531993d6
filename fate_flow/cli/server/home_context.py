"""The use cases of a party for a command of its operator, whether the server runs or not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from fate_flow.core.model.errors import FlowError, StorageFailed
from fate_flow.relay.wakeup import Wakeup
from fate_flow.server.runtime import EffectRunner, Wakeups, build_context, open_log, open_store, prepare_home
from fate_flow.services.context.ports import Context, in_place
from fate_flow.settings.settings import Settings
from fate_flow.store.database import migrations


@contextmanager
def home_context(settings: Settings) -> Iterator[Context]:
    """Yield the use cases of this party, for a process outside the server. Raise FlowError."""
    if not settings.home.is_dir():
        raise FlowError(f"home: the folder {settings.home} does not exist; no server has run with this configuration")
    prepare_home(settings)
    record = open_log(settings)
    store = open_store(settings, record)
    try:
        _check_schema(store.database, settings)
        # Nobody receives these wake-ups: the server finds the changes at its next poll.
        wakeups, effect_runner = Wakeups(Wakeup(), Wakeup(), Wakeup()), EffectRunner()
        context = build_context(settings, wakeups, settings.url, record, store, effect_runner)
        yield replace(context, carry_out=in_place)
    finally:
        store.close()
        record.close()


def _check_schema(database: Any, settings: Settings) -> None:
    newest = migrations.migrations()[-1].number
    have = migrations.version(database)
    if have != newest:
        if not have:
            raise StorageFailed(
                "the database is empty: start the server once (fate_flow serve), or run fate_flow db upgrade"
            )
        raise StorageFailed(f"the database has schema {have}, this release needs {newest}: run fate_flow db upgrade")
    migrations.check_digests(database)
    migrations.bind_party(database, settings.party_id)
