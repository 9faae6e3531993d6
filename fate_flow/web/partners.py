"""The other parties as the overview shows them: both directions, and what is wrong in plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.peer import PeerTrouble

GOOD, BAD, UNKNOWN = "good", "bad", "unknown"


@dataclass(frozen=True)
class Partner:
    party_id: str
    there: str                   # the state of requests to it: one of the three above
    there_text: str
    back: str                    # the state of its requests to this party
    back_text: str
    commands: int                # that have no answer yet


def partners_of(
    party_ids: Sequence[str], peers: Mapping[str, Mapping[str, Any]], troubles: Mapping[str, PeerTrouble], steady: int
) -> tuple[Partner, ...]:
    """`peers`: what the scheduler says of the connections that it has used since it started."""
    return tuple(_partner(one, peers.get(one), troubles.get(one), steady) for one in party_ids)


def _partner(party_id: str, seen: Mapping[str, Any] | None, trouble: PeerTrouble | None, steady: int) -> Partner:
    there, text = _there(seen, trouble, steady)
    back, back_text = _back(there, trouble, steady)
    return Partner(party_id, there, text, back, back_text, int((seen or {}).get("commands_waiting", 0)))


def _there(seen: Mapping[str, Any] | None, trouble: PeerTrouble | None, steady: int) -> tuple[str, str]:
    if trouble is not None and trouble.silent_since:
        return BAD, f"does not answer for {_since(trouble.silent_since, steady)}: {trouble.silence or 'no answer'}"
    if seen is None:
        return UNKNOWN, "no job has needed it since this server started; flow party list asks it"
    if seen.get("circuit") != "closed":
        return BAD, f"does not answer: {seen.get('error') or 'no answer'}"
    return GOOD, "answers"


def _back(there: str, trouble: PeerTrouble | None, steady: int) -> tuple[str, str]:
    if trouble is not None and trouble.cut_off_since:
        why = trouble.cut_off or "it does not say why"
        return BAD, f"cannot reach this party for {_since(trouble.cut_off_since, steady)}: {why}"
    if there == UNKNOWN:
        return UNKNOWN, "not known yet"
    return (GOOD, "reaches this party") if there == GOOD else (UNKNOWN, "not known while it does not answer")


def _since(at: int, steady: int) -> str:
    """Round, so that the page does not change with every second."""
    seconds = max(0, steady - at) // 1000
    return "less than a minute" if seconds < 60 else f"{seconds // 60} min"
