"""`flow party list`: the other parties, and their answers to a query that is sent now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from fate_flow.api.http.services import Services
from fate_flow.api.monitoring.peer_states import peers_of
from fate_flow.api.v1.rendering.queue import hold_of
from fate_flow.core.model.errors import UNREACHABLE, Busy
from fate_flow.core.model.job import Answer
from fate_flow.core.model.spec import Party
from fate_flow.core.text.peer_problems import problem_in
from fate_flow.core.text.phrases import counted, sanitized
from fate_flow.core.wire.v1.extensions import offered_in
from fate_flow.core.wire.v1.paths import INTAKE
from fate_flow.core.wire.v1.plain_v1 import has_no_such_route
from fate_flow.core.wire.v1.queries import clock_in, hold_in, intake_query, way_back_in
from fate_flow.peers.inquiry import why_unreached
from fate_flow.services.participant.call_back import cannot_reach
from fate_flow.services.use_cases.joining import described_parties

ANSWERS, SILENT, CUT_OFF, NOT_ASKED = "answers", "does not answer", "cannot reach this party", "not asked"

_MOST_AT_ONCE = 64
_SECONDS = 6.0               # for all of them together
_LONGEST_TEXT = 500
_END_OF_TIME = 1 << 53       # milliseconds; JSON's numbers are exact up to there


def known_parties(services: Services) -> dict[str, Any]:
    """Return the parties with a route, and the own party. Ask each whether it is on hold and reaches this server.

    If too many handlers already wait for other parties, no party is asked."""
    settings = services.settings
    seen = peers_of(settings)
    routes = {party_id: route.url for party_id, route in sorted(settings.routes.items())}
    answers = _ask(services, list(routes))
    own = settings.party_id
    keys = described_parties(services.context)
    parties = [
        {**_shown(one, url, seen.get(one), answers.get(one, _NOBODY), own), "keys": keys.get(one)}
        for one, url in routes.items()
    ]
    hold = services.context.read(lambda tx: tx.intake_hold())
    return {"parties": parties, "own": {"party_id": own, "hold": hold_of(hold)}}


@dataclass(frozen=True)
class _Asked:
    """What a party has answered; `answer` None: it was not asked."""

    answer: Answer | None
    arrived: int = 0         # milliseconds since 1970 by the clock of this party

    @property
    def clock_offset(self) -> int | None:
        """By how many milliseconds the clock of the party is ahead, but for the way of the answer; None if it does not
        say. The party looks at its clock last, after it has called back."""
        clock = clock_in(self.answer) if self.answer is not None else None
        return None if clock is None else clock - self.arrived


def _ask(services: Services, party_ids: Sequence[str]) -> dict[str, _Asked]:
    """Return the answer of each party; {} if no party was asked."""
    if not party_ids:
        return {}

    clock = services.context.clock

    def ask(party_id: str) -> _Asked:
        return _Asked(services.ask_party(Party("host", party_id), INTAKE, intake_query(call_back=True)), clock())

    pool = ThreadPoolExecutor(min(len(party_ids), _MOST_AT_ONCE))
    try:
        with services.use_cases.submits.waiting():
            asked: dict[str, Future[_Asked]] = {party_id: pool.submit(ask, party_id) for party_id in party_ids}
            done, _ = wait(asked.values(), _SECONDS)
            return {party_id: one.result() if one in done else _LATE for party_id, one in asked.items()}
    except Busy:
        return {}
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


_LATE, _NOBODY = _Asked(Answer(UNREACHABLE, "no answer in time")), _Asked(None)


def _shown(
    party_id: str, url: str, seen: Mapping[str, Any] | None, asked: _Asked, own: str
) -> dict[str, Any]:
    """Return a party's entry. `seen`: the scheduler's state of the connection."""
    answer = asked.answer
    circuit = {key: value for key, value in (seen or {}).items() if key not in ("party_id", "url")}
    status, message = _judged(party_id, answer, own)
    problem = problem_in(message) if status in (SILENT, CUT_OFF) else ""
    if waiting := _waiting(seen or {}, status, message):
        message = "; ".join(filter(None, [message, waiting]))
    found = {"party_id": party_id, "url": url, "status": status, "problem": problem, "message": message}
    offers = list(offered_in(answer.data)) if answer is not None and answer.is_ok else None
    return {**circuit, **found, "hold": _hold_in(answer), "offers": offers, "clock_offset": asked.clock_offset}


def _judged(party_id: str, answer: Answer | None, own: str) -> tuple[str, str]:
    if answer is None:
        return NOT_ASKED, "too many handlers wait for other parties; ask again in a second"
    if why := why_unreached(party_id, answer):
        return SILENT, why
    if not answer.is_ok and not has_no_such_route(answer):
        # Our server answers with retcode 0, and a plain v1 server does not know the route: this is neither.
        return SILENT, sanitized(answer.retmsg, _LONGEST_TEXT)
    way_back = way_back_in(answer)
    return (ANSWERS, "") if way_back is None else (CUT_OFF, cannot_reach(own, way_back.error))


def _waiting(seen: Mapping[str, Any], status: str, message: str) -> str:
    """Return a text about a party that does not answer the scheduler either: since when, why (unless `message` already
    says so), and how many commands wait for it. "" for a party that answers."""
    if status == ANSWERS or not seen.get("silent_seconds"):
        return ""
    tries, count = counted(int(seen.get("failures") or 0), "try", "tries"), int(seen.get("commands_waiting") or 0)
    why = "" if seen.get("error") in (None, "", message) else f" ({seen['error']})"
    kept_back = f"; {counted(count, 'command waits', 'commands wait')} for it" if count else ""
    since = f"silent for {seen.get('silent_seconds')} s and {tries}{why}"
    return f"{since}, asked again in {seen.get('next_try_seconds')} s{kept_back}"


def _hold_in(answer: Answer | None) -> dict[str, Any] | None:
    """Return the hold in another party's answer, with checked values only. A plain v1 party does not report a hold."""
    hold = hold_in(answer) if answer is not None else None
    if hold is None:
        return None
    at = hold.get("time")
    text = {key: sanitized(hold.get(key), _LONGEST_TEXT) for key in ("message", "by")}
    return {**text, "time": at if isinstance(at, int) and 0 <= at < _END_OF_TIME else 0}
