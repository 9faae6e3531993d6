"""The other parties as the overview shows them: both directions, what is wrong in plain text, the circuit, and the keys
that count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fate_flow.api.monitoring.peer_states import answered_at, problems_of, why_cut_off, why_silent
from fate_flow.core.access.key_ends import ending_soon
from fate_flow.core.access.key_list import MESSAGE, TLS, KeyList, KeyState, key_id_of, stored_key_list
from fate_flow.core.model.peer import PeerTrouble
from fate_flow.store.views.board import SavedKeys

Seen = Mapping[str, Any]
GOOD, BAD, UNKNOWN = "good", "bad", "unknown"


@dataclass(frozen=True)
class Partner:
    party_id: str
    there: str                   # the state of requests to it: one of the three above
    there_text: str
    there_problem: str           # what is wrong, as one word; empty: nothing, or not known
    back: str                    # the state of its requests to this party
    back_text: str
    back_problem: str
    commands: int                # that have no answer yet
    circuit: str                 # in words
    keys: PartnerKeys


@dataclass(frozen=True)
class KeyInUse:
    """The key of one use that counts now. Times are milliseconds since 1970."""

    use: str
    key_id: str
    until: int | None            # its end; None: it has none
    next_id: str                 # of the key that replaces it; empty: none is announced
    next_from: int


@dataclass(frozen=True)
class PartnerKeys:
    keys: tuple[KeyInUse, ...]
    text: str                    # why there are none, or what else to know about them
    is_bad: bool                 # jobs with this party cannot work by these keys
    warnings: tuple[str, ...]    # a sentence for each use whose last key ends soon


CIRCUITS: Mapping[str, str] = {
    "closed": "closed: requests go out at once", "open": "open: no requests for a pause",
    "probing": "probing: it is asked once again",
}  # fmt: skip


def partners_of(
    party_ids: Sequence[str], peers: Mapping[str, Mapping[str, Any]], troubles: Mapping[str, PeerTrouble], steady: int,
    saved: Mapping[str, SavedKeys], now: int, fresh: int,
) -> tuple[Partner, ...]:  # fmt: skip
    """`peers`: what the scheduler says of the connections that it has used since it started. `steady`: the time since
    when troubles are counted; `now`: that of the clock on the wall, for last answers and the ends of keys. `fresh`: for
    how long an answer says how things stand. All times are in milliseconds."""
    return tuple(
        _partner(one, _at(peers.get(one), now, fresh), troubles.get(one), steady, keys_of(saved.get(one), now))
        for one in party_ids
    )


@dataclass(frozen=True)
class _Connection:
    """What the scheduler says of a connection that it has used."""

    seen: Seen
    age: int | None              # milliseconds since the last answer; None: there was none since it started
    fresh: int                   # milliseconds for which an answer says how things stand

    @property
    def is_fresh(self) -> bool:
        return self.age is not None and self.age <= self.fresh


def _at(seen: Seen | None, now: int, fresh: int) -> _Connection | None:
    if seen is None:
        return None
    last = answered_at(seen)
    age = None if last is None else max(0, now - last)
    return _Connection(seen, age, fresh)


def _partner(
    party_id: str, known: _Connection | None, trouble: PeerTrouble | None, steady: int, keys: PartnerKeys
) -> Partner:
    seen = known.seen if known is not None else None
    there, text = _there(known, trouble, steady)
    back, back_text = _back(there, seen, trouble, steady)
    problem, back_problem = problems_of(seen, trouble)
    commands = int((seen or {}).get("commands_waiting", 0))
    circuit = "not known yet" if seen is None else CIRCUITS.get(str(seen.get("circuit")), "not known")
    return Partner(party_id, there, text, problem, back, back_text, back_problem, commands, circuit, keys)


def keys_of(saved: SavedKeys | None, now: int) -> PartnerKeys:
    """Return the keys of a partner that count now, and what will become of them."""
    if saved is None or saved.state is KeyState.REMOVED:
        return PartnerKeys((), "no key of it is saved here", False, ())
    if saved.state is None:
        only = KeyInUse(MESSAGE, saved.key_id, None, "", 0)
        return PartnerKeys((only,), "saved alone, without a key list", False, ())
    if saved.state is KeyState.REVOKED:
        return PartnerKeys((), "revoked: none of its keys counts any more", True, ())
    listed = stored_key_list(saved.content)
    found = tuple(one for use in (TLS, MESSAGE) if (one := _in_use(listed, use, now)) is not None)
    warnings = tuple(ending_soon(listed, "", now))
    return PartnerKeys(found, "" if found else "all its keys have ended", not found, warnings)


def _in_use(listed: KeyList, use: str, now: int) -> KeyInUse | None:
    """Return the key that the partner uses now; the first one to come while none has begun."""
    coming = sorted((one for one in listed.keys if one.use == use and one.since > now), key=lambda one: one.since)
    used = listed.in_use(use, now) or (coming.pop(0) if coming else None)
    if used is None:
        return None
    following = coming[0] if coming else None
    next_id, next_from = (key_id_of(following.pem), following.since) if following is not None else ("", 0)
    return KeyInUse(use, key_id_of(used.pem), used.until, next_id, next_from)


def _there(known: _Connection | None, trouble: PeerTrouble | None, steady: int) -> tuple[str, str]:
    if why := why_silent(known.seen if known is not None else None, trouble):
        since = trouble.silent_since if trouble is not None else 0
        return BAD, f"does not answer{f' for {_since(since, steady)}' if since else ''}: {why}"
    if known is None:
        return UNKNOWN, f"not asked since this server started{_ASK}"
    if known.age is None:
        return UNKNOWN, f"has not answered since this server started{_ASK}"
    if not known.is_fresh:
        return UNKNOWN, f"answered {_rounded(known.age)} ago, not asked since{_ASK}"
    return GOOD, f"answers{_within(known.seen.get('round_trip_ms'))}, last less than {_at_most(known.fresh)} ago"


_ASK = "; flow party list asks it"


def _back(there: str, seen: Seen | None, trouble: PeerTrouble | None, steady: int) -> tuple[str, str]:
    if trouble is not None and (why := why_cut_off(trouble)):
        return BAD, f"cannot reach this party for {_since(trouble.cut_off_since, steady)}: {why}"
    if there == UNKNOWN:
        return UNKNOWN, "not known while it is not asked" if seen else "not known yet"
    if there == BAD:
        return UNKNOWN, "not known while it does not answer"
    within = _within((seen or {}).get("back_ms"))
    if not within:
        return UNKNOWN, "it does not say whether it reaches this party"
    return GOOD, f"reaches this party{within}"


def _within(milliseconds: object) -> str:
    """Round up to 1, 2 or 5 by a power of ten: a page whose figures change with each request would never stay the same.
    """
    if not isinstance(milliseconds, int) or isinstance(milliseconds, bool):
        return ""
    steps = (factor * 10**power for power in range(7) for factor in (1, 2, 5))
    most = next((one for one in steps if one >= milliseconds), milliseconds)
    return f" within {most} ms" if most < 1000 else f" within {most // 1000} s"


def _at_most(milliseconds: int) -> str:
    """Round up to minutes."""
    return f"{-(-milliseconds // 60_000)} min"


def _since(at: int, steady: int) -> str:
    return _rounded(max(0, steady - at))


def _rounded(milliseconds: int) -> str:
    """Round, so that the page does not change with every second."""
    minutes = milliseconds // 60_000
    if minutes < 1:
        return "less than a minute"
    if minutes < 2 * 60:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // (24 * 60)} days"
