"""The keys with which other parties sign their answers to this server."""

from __future__ import annotations

import time
from collections.abc import Callable

from fate_flow.peers.signature import SiteSignature
from fate_flow.peers.signed_answers import SignedAnswers
from fate_flow.server.other_parties.stored_rows import recent_rows
from fate_flow.settings.settings import Settings
from fate_flow.store.contract.party_keys import message_keys
from fate_flow.store.sql.store import SqlStore


def expecting_answers(
    signature: SiteSignature | None, settings: Settings, store: SqlStore, passed: Callable[[], float] = time.monotonic
) -> SiteSignature | None:  # fmt: skip
    """Return a signature that requires signed answers of the parties whose routes say so. A change of their keys counts
    after a second at the latest; `passed` returns seconds from any moment on."""
    parties = [party_id for party_id, route in settings.routes.items() if route.signed_answers]
    if signature is None or not parties:
        return signature
    keys = recent_rows(store, lambda tx: {one: message_keys(tx, one, _wall_clock()) for one in parties}, passed)
    return signature.expecting(SignedAnswers(parties, lambda party_id: keys.read()[party_id]))


def _wall_clock() -> int:
    return time.time_ns() // 1_000_000
