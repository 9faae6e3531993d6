"""A record that grows while it is read, as that of a server at work does."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from fate_flow.core.record.entry import OWN_LOG, log_with
from fate_flow.services.record.checkpoints import sign_heads
from fate_flow.store.sql.store import SqlStore, SqlTransaction
from tests.kit.services.records import SIGNER, add, an_entry, salts

_MOST = 4        # or a reader that goes on until there is nothing new would go on for ever


def seal_while_read(monkeypatch: pytest.MonkeyPatch, *, signs: bool) -> list[str]:
    """After each of the next pages of entries that a transaction reads, somebody else seals one more entry in two logs,
    and signs them if `signs`. Return the list in which each time is noted."""
    read, done = SqlTransaction.sealed_entries, list[str]()
    writes = threading.Event()

    def seal(database: Any) -> None:
        store = SqlStore(database)
        add(store, [an_entry("meanwhile"), an_entry("meanwhile", log_with("10000"))])
        if signs:
            with store.transaction() as tx:
                sign_heads(tx, SIGNER, 1, salts)
        store.close()
        done.append(OWN_LOG)

    def read_and_seal(tx: SqlTransaction, *asked: Any) -> Any:
        found = read(tx, *asked)
        if len(done) < _MOST and not writes.is_set():
            writes.set()
            writer = threading.Thread(target=seal, args=(tx._database,))
            writer.start()
            writer.join()
            writes.clear()
        return found

    monkeypatch.setattr(SqlTransaction, "sealed_entries", read_and_seal)
    return done
