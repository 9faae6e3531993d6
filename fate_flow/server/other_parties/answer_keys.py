"""Which other parties have to sign their answers to this server, and with which keys."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from fate_flow.core.access.key_list import KeyState
from fate_flow.core.access.site import SiteKey, SiteRule
from fate_flow.core.model.errors import FlowError
from fate_flow.peers.signature import SiteSignature
from fate_flow.peers.signed_answers import SignedAnswers
from fate_flow.server.other_parties.stored_rows import recent_rows
from fate_flow.services.context.wall_clock import now_on_the_wall
from fate_flow.settings.parties import Route
from fate_flow.settings.settings import Settings
from fate_flow.store.contract.party_keys import KeysOfParties, message_keys
from fate_flow.store.sql.store import SqlStore


def expecting_answers(
    signature: SiteSignature | None, settings: Settings, store: SqlStore, passed: Callable[[], float] = time.monotonic
) -> SiteSignature | None:  # fmt: skip
    """Return a signature that requires signed answers of parties that nothing else proves. A change of their keys
    counts after a second at the latest; `passed` returns seconds from any moment on."""
    rule = settings.site
    routes = {party_id: one for party_id, one in settings.routes.items() if _may_have_to_sign(party_id, one, rule)}
    if signature is None or not routes:
        return signature
    answers = _Answers(routes, store, passed)
    return signature.expecting(SignedAnswers(answers, answers.keys_of))


def _may_have_to_sign(party_id: str, route: Route, rule: SiteRule) -> bool:
    return route.signed_answers or (
        route.signed_answers is None and rule.needs_saved_key(party_id) and not route.is_local
        and not route.is_dialed
    )


class _Answers:
    """The parties that have to sign their answers, and their keys.

    An https server without `ca` proves its party by a tls key, unless the party has no key list here: then any
    authority vouches for it, as for that of a proxy, and answers have to be signed, too."""

    def __init__(self, routes: Mapping[str, Route], store: SqlStore, passed: Callable[[], float]) -> None:
        """`routes`: those of parties that may have to sign, depending on their keys."""
        self._routes = routes
        self._rows = recent_rows(store, self._read, passed)

    def __contains__(self, party_id: object) -> bool:
        route = self._routes.get(str(party_id))
        if route is None or route.signed_answers or not route.shows_key:
            return route is not None
        try:
            return party_id in self._rows.read()
        except FlowError:           # nobody knows whether a key list is here
            return True

    def keys_of(self, party_id: str) -> tuple[SiteKey, ...]:
        return self._rows.read().get(party_id, ())

    def _read(self, tx: KeysOfParties) -> dict[str, tuple[SiteKey, ...]]:
        """Return the keys of those that have to sign."""
        listed = {one.party_id for one in tx.all_party_keys() if one.state is not KeyState.REMOVED}
        now = now_on_the_wall()
        return {
            party_id: message_keys(tx, party_id, now) for party_id, route in self._routes.items()
            if route.signed_answers or not route.shows_key or party_id not in listed
        }
