"""How this server recognises the https servers of other parties: by the tls keys on their newest key lists."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from fate_flow.core.access.certified import CertifiedParty
from fate_flow.core.access.joined_party import TO, Contact
from fate_flow.core.access.key_list import TLS, KeyState, PartyKeys
from fate_flow.peers.key_changes import own_tls
from fate_flow.peers.pinned import PinnedParties, SeenTls
from fate_flow.peers.tls import OwnTls, PeerKey
from fate_flow.server.other_parties.stored_rows import recent_rows
from fate_flow.services.context.contacts import ContactNotes
from fate_flow.services.context.wall_clock import now_on_the_wall
from fate_flow.settings.settings import Settings
from fate_flow.store.contract.party_keys import KeysOfParties
from fate_flow.store.sql.store import SqlStore

_FRESH_SECONDS = 0.4         # open connections of a revoked key end within a second


def pinned_parties(settings: Settings, store: SqlStore) -> PinnedParties:
    """Return the TLS contexts for requests to other parties; the own tls key is read when it is first needed."""

    def own() -> OwnTls:
        return own_tls(settings.party_id, settings.keys_dir, now_on_the_wall, settings.parties_certificate)

    def reached(party_id: str, seen: SeenTls) -> None:
        notes.note(TO, party_id, seen.version, seen.key_id)

    keys = StoredTlsKeys(store, now_on_the_wall, time.monotonic, settings.certified_parties)
    notes = ContactNotes(partial(_keep, store), now_on_the_wall)
    return PinnedParties(own, keys.of, now_on_the_wall, reached, store.kept_connection)


def _keep(store: SqlStore, contact: Contact) -> None:
    had_no_connection = store.database.is_closed()
    try:
        with store.transaction() as tx:
            tx.note_contact(contact)
    finally:
        if had_no_connection:        # a thread that sends has no other use for one
            store.close()


class StoredTlsKeys:
    """The tls keys on the stored key lists; may be shared by threads.

    `clock` returns milliseconds since 1970, `passed` seconds from any moment on."""

    def __init__(
        self, store: SqlStore, clock: Callable[[], int], passed: Callable[[], float],
        certified: Mapping[str, CertifiedParty] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        self._clock = clock
        self._certified = certified
        self._rows = recent_rows(store, _lists, passed, _FRESH_SECONDS)

    def of(self, party_id: str) -> tuple[PeerKey, ...] | None:
        """Return the tls keys of a party that are valid now; None if it has no key list, and never had one: no other
        authority vouches for a party that was revoked or removed. Raises StorageFailed if the lists could never be
        read."""
        found = self._rows.read().get(party_id)
        if found is None:
            return None
        certified = self._certified.get(party_id)
        return tuple(PeerKey.of(party_id, pem, certified) for pem in found.valid(TLS, self._clock()))


def _lists(tx: KeysOfParties) -> dict[str, PartyKeys]:
    """Return the key lists by party id, without those of removed parties that came back with a message key alone."""
    return {
        one.party_id: one for one in tx.all_party_keys()
        if one.state is not KeyState.REMOVED or tx.site_key(one.party_id) is None
    }  # fmt: skip
