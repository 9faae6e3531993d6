"""Whether this party and another one that has joined reach each other, for the commands that have joined them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import cast

from fate_flow.core.model.spec import Party
from fate_flow.core.wire.v1.paths import INTAKE
from fate_flow.core.wire.v1.queries import intake_query, way_back_in
from fate_flow.peers.inquiry import Inquirer, why_unreached
from fate_flow.peers.pinned import PinnedParties, SeenTls
from fate_flow.server.other_parties.answer_keys import expecting_answers
from fate_flow.server.other_parties.inquirers import inquirer_of
from fate_flow.server.other_parties.party_routes import with_joined_routes
from fate_flow.server.peer_tls import pinned_parties
from fate_flow.server.runtime import signature_of
from fate_flow.services.context.ports import Context
from fate_flow.services.record.asking import Ask, HeldNow, ask_what_is_held, parties_to_ask
from fate_flow.settings.settings import Settings
from fate_flow.store.sql.store import SqlStore

_PAUSE_SECONDS = 0.5         # the servers notice a new party within a second


@dataclass(frozen=True)
class Reach:
    """What one question to the other party has shown. A problem begins with what has to be corrected; empty: none."""

    url: str                 # of the other party
    there: str               # why this party does not reach the other one
    back: str                # why the other party does not reach this one; also set if nobody could be asked
    seen: SeenTls | None     # of the connection to the other party

    @property
    def is_both_ways(self) -> bool:
        return not self.there and not self.back


def reach(settings: Settings, store: SqlStore, party_id: str, seconds: float) -> Reach:
    """Ask the other party whether it answers and reaches this one, again until both is so or the time is over.

    It is asked as the server would ask it: by the same route, with the same keys, signed if the server signs. Raises
    FlowError."""
    settings = with_joined_routes(settings, store)
    route = settings.routes.get(party_id)
    if route is None:
        return Reach("", f"port: party {party_id} has no route here any more", "not asked", None)
    pinned = pinned_parties(settings, store)
    inquirer = inquirer_of(settings, expecting_answers(signature_of(settings), settings, store), pinned)
    deadline = time.monotonic() + seconds
    while True:
        found = _asked(inquirer, pinned, party_id, route.url)
        if found.is_both_ways or time.monotonic() > deadline:
            return found
        time.sleep(_PAUSE_SECONDS)


def held_elsewhere(context: Context, settings: Settings) -> HeldNow:
    """Ask the other parties what they hold of this party's record now, as the server would ask them. Raises
    FlowError."""
    routes = with_joined_routes(settings, _store_of(context)).routes
    parties = context.read(lambda tx: parties_to_ask(tx, routes))
    return ask_what_is_held(parties, asking_others(context, settings), context.clock())


def asking_others(context: Context, settings: Settings) -> Ask:
    """Return what asks other parties as the server would ask them. Raises FlowError."""
    store = _store_of(context)
    settings = with_joined_routes(settings, store)
    inquirer = inquirer_of(
        settings, expecting_answers(signature_of(settings), settings, store), pinned_parties(settings, store)
    )  # fmt: skip
    return inquirer.ask


def _store_of(context: Context) -> SqlStore:
    return cast("SqlStore", context.store)       # that of a home always is one


def _asked(inquirer: Inquirer, pinned: PinnedParties, party_id: str, url: str) -> Reach:
    answer = inquirer.ask(Party("host", party_id), INTAKE, intake_query(call_back=True))
    seen = pinned.seen(party_id)
    if problem := why_unreached(party_id, answer) or ("" if answer.is_ok else answer.retmsg):
        return Reach(url, named_problem(problem), "not asked", seen)
    way_back = way_back_in(answer)
    return Reach(url, "", named_problem(way_back.error) if way_back else "", seen)


def named_problem(text: str) -> str:
    """Return the text of a problem behind what has to be corrected: port, name, clock or key."""
    for name, signs in _SIGNS:
        if any(sign in text for sign in signs):
            return f"{name}: {text}"
    return f"port: {text}"


_SIGNS = (
    ("clock", ("compare the clocks", "correct the clocks")),
    ("name", ("cannot be resolved", "another server, that of party", "has no route here")),
    ("key", ("TLS", "key", "signature", "signed", "not authenticated")),
)
"""What a problem is called, by parts of its text; what nobody knows is a matter of address, firewall and port."""
