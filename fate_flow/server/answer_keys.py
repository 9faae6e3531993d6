"""The keys with which other parties sign their answers to this server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from fate_flow.core.access.site import SiteKey
from fate_flow.core.model.errors import FlowError
from fate_flow.peers.signature import SiteSignature
from fate_flow.peers.signed_answers import SignedAnswers
from fate_flow.settings.settings import Settings
from fate_flow.store.contract.party_keys import message_keys
from fate_flow.store.sql.store import SqlStore

_FRESH_SECONDS = 1.0         # a change of keys counts after this time at the latest


def expecting_answers(signature: SiteSignature | None, settings: Settings, store: SqlStore) -> SiteSignature | None:
    """Return a signature that requires signed answers of the parties whose routes say so."""
    parties = [party_id for party_id, route in settings.routes.items() if route.signed_answers]
    if signature is None or not parties:
        return signature
    keys = StoredMessageKeys(store, lambda: time.time_ns() // 1_000_000, time.monotonic)
    return signature.expecting(SignedAnswers(parties, keys.of))


class StoredMessageKeys:
    """The stored message keys of other parties, read at most once a second; may be shared by threads.

    `clock` returns milliseconds since 1970, `passed` seconds from any moment on."""

    def __init__(self, store: SqlStore, clock: Callable[[], int], passed: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._passed = passed
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, tuple[SiteKey, ...]]] = {}

    def of(self, party_id: str) -> tuple[SiteKey, ...]:
        """Return the keys with which a party signs now. Raises StorageFailed if they could never be read."""
        with self._lock:
            read_at, keys = self._known.get(party_id, (None, ()))
            if read_at is None or not 0 <= self._passed() - read_at < _FRESH_SECONDS:
                try:
                    keys = self._read(party_id)
                except FlowError:
                    if read_at is None:
                        raise            # otherwise the last known keys count until the database is back
                self._known[party_id] = (self._passed(), keys)
            return keys

    def _read(self, party_id: str) -> tuple[SiteKey, ...]:
        had_no_connection = self._store.database.is_closed()
        try:
            with self._store.reading() as tx:
                return message_keys(tx, party_id, self._clock())
        finally:
            if had_no_connection:        # a thread that sends has no other use for one
                self._store.close()
