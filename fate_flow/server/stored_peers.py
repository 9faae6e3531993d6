"""The peers of the gateway: the tls keys on the newest key lists of other parties."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from fate_flow.core.access.key_list import TLS
from fate_flow.gateway.peers import Peers
from fate_flow.peers.tls import PeerKey
from fate_flow.store.sql.store import SqlStore

LOG = logging.getLogger(__name__)


class StoredPeers:
    """Reads the stored keys; `clock` returns milliseconds since 1970, as the times in key lists are."""

    def __init__(self, store: SqlStore, own_party_id: str, clock: Callable[[], int]) -> None:
        self._store = store
        self._own = own_party_id
        self._clock = clock
        self._last: tuple[Peers, list[tuple[str, str]]] = (Peers(), [])      # what was returned, and of which keys

    def read(self, known: Peers) -> Peers:
        """Return the peers of this moment; `known` itself if nothing has changed."""
        now = self._clock()
        with self._store.reading() as tx:
            stored = tx.all_party_keys()
        pems = [(one.party_id, pem) for one in stored if one.party_id != self._own for pem in one.valid(TLS, now)]
        if (known, pems) != self._last:
            self._last = (Peers(known.version + 1, tuple(_keys(pems))), pems)
        return self._last[0]


def _keys(pems: list[tuple[str, str]]) -> Iterator[PeerKey]:
    for party_id, pem in pems:
        try:
            yield PeerKey.of(party_id, pem)
        except ValueError as error:       # such a list is not stored; one wrong key must not lock all others out
            LOG.error("a tls key of party %s cannot be used: it %s", party_id, error)
