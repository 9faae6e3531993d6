"""The other parties as the overview shows them: both directions, and what is wrong in plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.text.peer_problems import problem_in

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


def partners_of(
    party_ids: Sequence[str], peers: Mapping[str, Mapping[str, Any]], troubles: Mapping[str, PeerTrouble], steady: int
) -> tuple[Partner, ...]:
    """`peers`: what the scheduler says of the connections that it has used since it started."""
    return tuple(_partner(one, peers.get(one), troubles.get(one), steady) for one in party_ids)


def _partner(party_id: str, seen: Seen | None, trouble: PeerTrouble | None, steady: int) -> Partner:
    there, text, problem = _there(seen, trouble, steady)
    back, back_text, back_problem = _back(there, seen, trouble, steady)
    commands = int((seen or {}).get("commands_waiting", 0))
    return Partner(party_id, there, text, problem, back, back_text, back_problem, commands)


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
