"""What the scheduler says of the connections to other parties: a file that it rewrites with each heartbeat."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.text.peer_problems import problem_in
from fate_flow.settings.limits import Limits
from fate_flow.settings.settings import Settings

_UNSAID = "no answer"        # why, if nobody says so


def peers_of(settings: Settings) -> Mapping[str, Mapping[str, Any]]:
    """Return what is known of each party, by its id; {} before the scheduler has written it."""
    try:
        found = json.loads((settings.shared_run_dir / "peers.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {party_id: one for party_id, one in found.items() if isinstance(one, dict)}


def freshness(limits: Limits) -> int:
    """Return how many milliseconds the last answer of a party is old at most while it is asked and answers.

    The scheduler asks with heartbeats, waits for the answer, and writes down with one of the next heartbeats that it
    came. Without idle heartbeats, that holds for parties that jobs bind."""
    pause = limits.idle_heartbeat_interval or limits.heartbeat_interval
    return int((max(pause, limits.heartbeat_interval) + 2 * limits.heartbeat_interval + limits.longest_answer) * 1000)


def round_trip_to(settings: Settings, party_id: str, now: int) -> int | None:
    """Return how many milliseconds this party's requests to another one take; None if none was answered lately. `now`:
    milliseconds since 1970."""
    seen = peers_of(settings).get(party_id, {})
    at = answered_at(seen)
    is_fresh = at is not None and now - at <= freshness(settings.limits)
    return _number_in(seen, "round_trip_ms") if is_fresh else None


def answered_at(seen: Mapping[str, Any]) -> int | None:
    """Return when a party answered the scheduler last, in milliseconds since 1970; None: not since it started."""
    return _number_in(seen, "answered_at")


def why_silent(seen: Mapping[str, Any] | None, trouble: PeerTrouble | None) -> str:
    """Return why a party does not answer; empty if it does, or was not asked."""
    if trouble is not None and trouble.silent_since:
        return trouble.silence or _UNSAID
    return "" if seen is None or seen.get("circuit") == "closed" else str(seen.get("error") or _UNSAID)


def why_cut_off(trouble: PeerTrouble | None) -> str:
    """Return why a party does not reach this one, as it says; empty if it does, or says nothing."""
    return (trouble.cut_off or "it does not say why") if trouble is not None and trouble.cut_off_since else ""


def problems_of(seen: Mapping[str, Any] | None, trouble: PeerTrouble | None) -> tuple[str, str]:
    """Return what is wrong with requests to a party, and with its requests to this one, as one word each."""
    there, back = why_silent(seen, trouble), why_cut_off(trouble)
    return problem_in(there) if there else "", problem_in(back) if back else ""


def _number_in(seen: Mapping[str, Any], key: str) -> int | None:
    found = seen.get(key)
    return found if isinstance(found, int) and not isinstance(found, bool) else None
