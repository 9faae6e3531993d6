"""The peers of the gateway: the tls keys on the newest key lists of other parties, strangers who may join, and the
addresses of parties that this one dials."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from fate_flow.core.access.certified import CertifiedParty
from fate_flow.core.access.joined_party import JoinedParty
from fate_flow.core.access.key_list import TLS
from fate_flow.core.model.errors import FlowError
from fate_flow.gateway.peers import Peers
from fate_flow.peers.tls import PeerKey
from fate_flow.settings.parties import Route
from fate_flow.store.sql.store import SqlStore

LOG = logging.getLogger(__name__)

_Values = tuple[list[tuple[str, str]], bool, tuple[tuple[str, str], ...]]
"""Party ids with their keys, whether strangers may join, and party ids with addresses to dial."""


class StoredPeers:
    """Reads the stored keys; `clock` returns milliseconds since 1970, as the times in key lists are. `may_join` returns
    whether an invitation is open, and may raise FlowError. `dials`: the routes in the configuration, if this party
    dials others."""

    def __init__(
        self, store: SqlStore, own_party_id: str, clock: Callable[[], int],
        may_join: Callable[[], bool] = lambda: False, dials: Mapping[str, Route] | None = None,
        certified: Mapping[str, CertifiedParty] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        self._store = store
        self._own = own_party_id
        self._clock = clock
        self._may_join = may_join
        self._dials = dials
        self._certified = certified
        self._why_closed = ""            # why nobody can join, as it was logged last
        self._last: tuple[Peers, _Values] = (Peers(), ([], False, ()))      # what was returned, and of which values

    def read(self, known: Peers) -> Peers:
        """Return the peers of this moment; `known` itself if nothing has changed."""
        now = self._clock()
        with self._store.reading() as tx:
            stored = tx.all_party_keys()
            joined = tx.joined_parties() if self._dials is not None else ()
        pems = [(one.party_id, pem) for one in stored if one.party_id != self._own for pem in one.valid(TLS, now)]
        values = (pems, self._lets_join(), self._to_dial(joined))
        if (known, values) != self._last:
            self._last = (Peers(known.version + 1, tuple(self._keys(pems)), *values[1:]), values)
        return self._last[0]

    def _to_dial(self, joined: Iterable[JoinedParty]) -> tuple[tuple[str, str], ...]:
        if self._dials is None:
            return ()
        urls = {one.party_id: one.address for one in joined}
        urls |= {party_id: route.url for party_id, route in self._dials.items() if not route.ca_file}
        return tuple((party_id, url) for party_id, url in sorted(urls.items()) if url.startswith("https:"))

    def _lets_join(self) -> bool:
        try:
            may_join, problem = self._may_join(), ""
        except FlowError as error:        # a wrong file of an invitation must not lock the peers out
            may_join, problem = False, error.message
        if problem not in ("", self._why_closed):        # this is asked twice a second
            LOG.error("nobody can join: %s", problem)
        self._why_closed = problem
        return may_join

    def _keys(self, pems: list[tuple[str, str]]) -> Iterator[PeerKey]:
        for party_id, pem in pems:
            try:
                yield PeerKey.of(party_id, pem, self._certified.get(party_id))
            except ValueError as error:       # such a list is not stored; one wrong key must not lock all others out
                LOG.error("a tls key of party %s cannot be used: it %s", party_id, error)
