"""Acts of an operator that change files of keys."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fate_flow.cli.input.options import login_name
from fate_flow.cli.server.home_context import home_context, schema_of, upgrade_database
from fate_flow.services.context.recording import record_act_in
from fate_flow.settings.client_keys import is_new_home
from fate_flow.settings.settings import Settings
from fate_flow.store.database.opening import create_if_missing


@contextmanager
def recorded_act(settings: Settings, what: str, text: str) -> Iterator[None]:
    """Record what the block does, if there is a record; with a second entry if it fails.

    No transaction writes files, so the entry comes first: nothing changes without one. A new home gets its database.
    Raises FlowError if the entry cannot be written."""
    if not settings.recording.is_on:
        yield
        return
    if settings.home.is_dir() and is_new_home(settings.shared):
        create_if_missing(settings.database_url)
        if not schema_of(settings):      # else another home has made it: an upgrade is not for this command
            upgrade_database(settings)
    with home_context(settings) as context:
        context.write(lambda tx: record_act_in(context, tx, what, login_name(), text))
        try:
            yield
        except BaseException:
            context.write(lambda tx: record_act_in(context, tx, f"{what}, and failed", login_name(), text))
            raise
