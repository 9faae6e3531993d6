"""The keys of a cluster: each party gets its own, and the key list of every other one, before its server starts.

Two organisations do the same with `fate_flow key make` and `flow key save`. Here no fingerprint has to be compared,
since all homes belong to one user.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import peewee

from fate_flow.cli.server.cluster_plan import Cluster, ClusterError
from fate_flow.cli.server.home_context import upgrade_database
from fate_flow.core.access.key_list import KeyState, SignedKeyList
from fate_flow.core.model.errors import Conflict, FlowError
from fate_flow.peers.key_lists import check_key_list
from fate_flow.peers.own_keys import OwnKeys
from fate_flow.services.context.wall_clock import now_on_the_wall
from fate_flow.services.use_cases.keys import put_key_list
from fate_flow.settings.reader import load_settings
from fate_flow.settings.settings import Settings
from fate_flow.store.contract.transaction_retry import Retry
from fate_flow.store.database.opening import open_database
from fate_flow.store.sql.store import SqlStore

_BY = "bin/cluster"


def exchange_keys(cluster: Cluster) -> None:
    """Make the keys that are missing, and save the key list of each party at all others but those that have revoked or
    removed it. Raise ClusterError."""
    mask = os.umask(0o077)           # as the servers have it: keys and databases are for this user alone
    try:
        lists: dict[str, SignedKeyList] = {}
        homes: dict[str, Settings] = {}
        for name in cluster.party_ids:
            with _naming(name):
                homes[name] = load_settings(cluster.conf_path(name))
                lists[name] = _list_of(homes[name])
        for name, settings in homes.items():
            with _naming(name):
                _save(settings, [one for other, one in lists.items() if other != name])
    finally:
        os.umask(mask)


def _list_of(settings: Settings) -> SignedKeyList:
    keys = OwnKeys(settings.party_id, settings.keys_dir, settings.private_key, now_on_the_wall)
    with suppress(Conflict):         # every key is there already
        keys.make()
    return keys.signed_list()


def _save(settings: Settings, lists: Sequence[SignedKeyList]) -> None:
    upgrade_database(settings)
    store = SqlStore(open_database(settings.database_url, settings.home))
    try:
        Retry()(lambda: _write(store, lists), is_repeatable=True)
    finally:
        store.close()


def _write(store: SqlStore, lists: Sequence[SignedKeyList]) -> None:
    with store.transaction() as tx:
        for signed in lists:
            found, root = check_key_list(signed)
            before = tx.party_keys(found.party_id)
            if before is not None and before.state is not KeyState.JOINED:
                continue                 # an operator has revoked or removed it
            put_key_list(tx, found, signed, root.key_id, True, _BY, now_on_the_wall())


@contextmanager
def _naming(party_id: str) -> Iterator[None]:
    try:
        yield
    except FlowError as error:
        raise ClusterError(f"party {party_id}: {error.message}") from error
    except (peewee.DatabaseError, peewee.InterfaceError) as error:
        raise ClusterError(f"party {party_id}: the database refused: {error}") from error
