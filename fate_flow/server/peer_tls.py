"""How this server recognises the https servers of other parties: by the tls keys on their newest key lists."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from fate_flow.core.access.key_list import TLS, KeyState, PartyKeys
from fate_flow.core.model.errors import FlowError
from fate_flow.peers.pinned import PinnedParties
from fate_flow.peers.tls import OwnTls, PeerKey, load_tls_key
from fate_flow.settings.settings import Settings
from fate_flow.store.sql.store import SqlStore

_FRESH_SECONDS = 1.0         # a change of keys counts after this time at the latest


def pinned_parties(settings: Settings, store: SqlStore) -> PinnedParties:
    """Return the TLS contexts for requests to other parties; the own tls key is read when it is first needed."""

    def own() -> OwnTls:
        return OwnTls(settings.party_id, load_tls_key(settings.keys_dir / "tls.pem"), _wall_clock)

    return PinnedParties(own, StoredTlsKeys(store, _wall_clock, time.monotonic).of, _wall_clock)


class StoredTlsKeys:
    """The stored key lists, read at most once a second; may be shared by threads.

    `clock` returns milliseconds since 1970, `passed` seconds from any moment on."""

    def __init__(self, store: SqlStore, clock: Callable[[], int], passed: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._passed = passed
        self._lock = threading.Lock()
        self._known: dict[str, PartyKeys] | None = None
        self._read_at = 0.0

    def of(self, party_id: str) -> tuple[PeerKey, ...] | None:
        """Return the tls keys of a party that are valid now; None if it has no key list. Raises StorageFailed if the
        lists could never be read."""
        found = self._lists().get(party_id)
        if found is None or found.state is KeyState.REMOVED:
            return None
        return tuple(PeerKey.of(party_id, pem) for pem in found.valid(TLS, self._clock()))

    def _lists(self) -> dict[str, PartyKeys]:
        with self._lock:
            if self._known is None or not 0 <= self._passed() - self._read_at < _FRESH_SECONDS:
                try:
                    self._known = self._read()
                except FlowError:
                    if self._known is None:
                        raise            # otherwise the last known lists count until the database is back
                self._read_at = self._passed()
            return self._known

    def _read(self) -> dict[str, PartyKeys]:
        had_no_connection = self._store.database.is_closed()
        try:
            with self._store.reading() as tx:
                return {keys.party_id: keys for keys in tx.all_party_keys()}
        finally:
            if had_no_connection:        # a thread that sends has no other use for one
                self._store.close()


def _wall_clock() -> int:
    return time.time_ns() // 1_000_000
