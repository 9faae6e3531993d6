"""How the gateway reaches those of other parties, to open streams there: their routes, keys, and our signature."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from urllib3.util import parse_url

from fate_flow.core.model.errors import FlowError
from fate_flow.core.wire.v1.envelope import headers
from fate_flow.peers.key_changes import own_tls
from fate_flow.peers.peer_http import login_fields
from fate_flow.peers.signature import SiteSignature
from fate_flow.peers.tls import OwnTls, PeerKey, client_context, peer_of
from fate_flow.server.peer_tls import StoredTlsKeys
from fate_flow.services.context.wall_clock import now_on_the_wall
from fate_flow.settings.parties import Route
from fate_flow.settings.settings import Settings
from fate_flow.store.sql.store import SqlStore
from fate_flow.streams.ways import NotOpened, Way


class StreamWays:
    """The ways to all parties. `routes` follow the parties that join; `own`: None until the tls key is needed."""

    def __init__(
        self, settings: Settings, store: SqlStore, own: OwnTls | None, signature: SiteSignature | None
    ) -> None:  # fmt: skip
        self._settings = settings
        self._own = own
        self._signature = signature
        self._keys = StoredTlsKeys(store, now_on_the_wall, time.monotonic, settings.certified_parties)

    def to(self, party_id: str) -> Way:
        """Return how a party is reached now. Raises NotOpened."""
        way = self._to(party_id)
        return way if self._signature is None else replace(way, check_upgrade=partial(self._check_upgrade, party_id))

    def _check_upgrade(self, party_id: str, asked: Mapping[str, str], answered: Mapping[str, str]) -> None:
        assert self._signature is not None
        self._signature.check_upgrade(party_id, asked, answered)

    def _to(self, party_id: str) -> Way:
        if why := self._settings.why_no_stream(party_id):
            raise NotOpened(why, is_for_now=False)
        route = self._settings.routes[party_id]
        fields = partial(self._fields, party_id, route.url)
        if route.is_dialed:
            return self._kept_open(party_id, route, fields)
        if not route.url.startswith("https:"):
            return Way(route.url, fields)
        if route.ca_file:
            return Way(route.url, fields, ssl.create_default_context(cafile=route.ca_file))
        return self._over_tls(party_id, route, fields)

    def _over_tls(self, party_id: str, route: Route, fields: Callable[[str], Mapping[str, str]]) -> Way:
        try:
            keys = self._keys.of(party_id)
            if keys is None:
                return Way(route.url, fields, ssl.create_default_context())
            context = client_context(self._own_tls(), keys) if keys else None
        except FlowError as error:
            raise NotOpened(error.message, is_for_now=True) from error
        if context is None:
            raise _no_key(party_id)
        return self._checked(Way(route.url, fields, context), party_id, keys)

    def _kept_open(self, party_id: str, route: Route, fields: Callable[[str], Mapping[str, str]]) -> Way:
        """Return the way to a party that dials this one: over a connection whose handshake was its own."""
        try:
            keys = self._keys.of(party_id)
        except FlowError as error:
            raise NotOpened(error.message, is_for_now=True) from error
        if not keys:
            raise _no_key(party_id)
        return self._checked(Way(route.url, fields), party_id, keys)

    def _checked(self, way: Way, party_id: str, keys: Sequence[PeerKey]) -> Way:
        """Return a way on which only a server with one of these keys is believed, as long as it is valid."""
        seen: list[PeerKey] = []

        def check(leaf: bytes | None) -> None:
            seen.append(peer_of(leaf, keys, now_on_the_wall()))

        return replace(way, check=check, still_holds=lambda: self._holds(party_id, seen))

    def _holds(self, party_id: str, seen: list[PeerKey]) -> bool:
        try:
            return not seen or seen[-1] in (self._keys.of(party_id) or ())
        except FlowError:            # without the database, nothing is known to be revoked
            return True

    def _fields(self, party_id: str, url: str, target: str) -> Mapping[str, str]:
        """Return the fields of the head that name both parties, signed if requests are."""
        head = headers(self._settings.party_id, party_id)
        signature = self._signature
        proof = login_fields(parse_url(url)) if signature is None else signature.fields("POST", target, head, b"")
        return {**head, **proof}

    def _own_tls(self) -> OwnTls:
        if self._own is None:
            here = self._settings
            self._own = own_tls(here.party_id, here.keys_dir, now_on_the_wall, here.parties_certificate)
        return self._own


def _no_key(party_id: str) -> NotOpened:
    return NotOpened(f"no tls key of party {party_id} is valid here (flow key save --list)", is_for_now=False)
