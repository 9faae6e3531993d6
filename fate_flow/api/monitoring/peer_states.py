"""What the scheduler says of the connections to other parties: a file that it rewrites with each heartbeat."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fate_flow.settings.settings import Settings


def peers_of(settings: Settings) -> Mapping[str, Mapping[str, Any]]:
    """Return what is known of each party, by its id; {} before the scheduler has written it."""
    try:
        found = json.loads((settings.shared_run_dir / "peers.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {party_id: one for party_id, one in found.items() if isinstance(one, dict)}


def round_trip_to(settings: Settings, party_id: str) -> int | None:
    """Return how many milliseconds this party's requests to another one take; None if none was answered lately."""
    return _number_in(peers_of(settings).get(party_id, {}), "round_trip_ms")


def answered_at(seen: Mapping[str, Any]) -> int | None:
    """Return when a party answered the scheduler last, in milliseconds since 1970; None: not since it started."""
    return _number_in(seen, "answered_at")


def _number_in(seen: Mapping[str, Any], key: str) -> int | None:
    found = seen.get(key)
    return found if isinstance(found, int) and not isinstance(found, bool) else None
