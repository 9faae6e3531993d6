"""The other parties as the overview shows them: both directions, what is wrong in plain text, the circuit, and the keys
that count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fate_flow.core.access.key_ends import ending_soon
from fate_flow.core.access.key_list import MESSAGE, TLS, KeyList, KeyState, key_id_of, stored_key_list
from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.text.peer_problems import problem_in
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
    "closed": "closed: it is asked", "open": "open: no requests for a pause",
    "probing": "probing: it is asked once again",
}  # fmt: skip


def partners_of(
    party_ids: Sequence[str], peers: Mapping[str, Mapping[str, Any]], troubles: Mapping[str, PeerTrouble], steady: int,
    saved: Mapping[str, SavedKeys], now: int,
) -> tuple[Partner, ...]:  # fmt: skip
    """`peers`: what the scheduler says of the connections that it has used since it started. `steady`: the time since
    when troubles are counted; `now`: that of the clock on the wall, for the ends of keys."""
    return tuple(
        _partner(one, peers.get(one), troubles.get(one), steady, keys_of(saved.get(one), now)) for one in party_ids
    )


def _partner(
    party_id: str, seen: Seen | None, trouble: PeerTrouble | None, steady: int, keys: PartnerKeys
) -> Partner:
    there, text, problem = _there(seen, trouble, steady)
    back, back_text, back_problem = _back(there, seen, trouble, steady)
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


def _there(seen: Seen | None, trouble: PeerTrouble | None, steady: int) -> tuple[str, str, str]:
    if trouble is not None and trouble.silent_since:
        why = trouble.silence or "no answer"
        return BAD, f"does not answer for {_since(trouble.silent_since, steady)}: {why}", problem_in(why)
    if seen is None:
        return UNKNOWN, "no job has needed it since this server started; flow party list asks it", ""
    if seen.get("circuit") != "closed":
        why = str(seen.get("error") or "no answer")
        return BAD, f"does not answer: {why}", problem_in(why)
    return GOOD, f"answers{_within(seen.get('round_trip_ms'))}", ""


def _back(there: str, seen: Seen | None, trouble: PeerTrouble | None, steady: int) -> tuple[str, str, str]:
    if trouble is not None and trouble.cut_off_since:
        why = trouble.cut_off or "it does not say why"
        return BAD, f"cannot reach this party for {_since(trouble.cut_off_since, steady)}: {why}", problem_in(why)
    if there == UNKNOWN:
        return UNKNOWN, "not known yet", ""
    if there == GOOD:
        return GOOD, f"reaches this party{_within((seen or {}).get('back_ms'))}", ""
    return UNKNOWN, "not known while it does not answer", ""


def _within(milliseconds: object) -> str:
    """Round up to 1, 2 or 5 by a power of ten: a page whose figures change with each request would never stay the same.
    """
    if not isinstance(milliseconds, int) or isinstance(milliseconds, bool):
        return ""
    steps = (factor * 10**power for power in range(7) for factor in (1, 2, 5))
    most = next((one for one in steps if one >= milliseconds), milliseconds)
    return f" within {most} ms" if most < 1000 else f" within {most // 1000} s"


def _since(at: int, steady: int) -> str:
    """Round, so that the page does not change with every second."""
    seconds = max(0, steady - at) // 1000
    return "less than a minute" if seconds < 60 else f"{seconds // 60} min"
