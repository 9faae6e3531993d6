"""How often, and for how long, a notification is tried."""

from __future__ import annotations

_PAUSES = (5.0, 30.0, 120.0, 600.0, 1_800.0, 7_200.0, 18_000.0)
MOST_TRIES = len(_PAUSES) + 1
LONGEST_AGE = 24 * 3600 * 1000           # milliseconds; a server that was down for longer tells no old stories
MOST_WAITING = 10_000                    # in the database, over all channels
MOST_ENDED = 1_000                       # sent or dropped, kept for `fate_flow notify list`
_LONGEST_REST = 60.0


def pause_after(tries: int) -> float | None:
    """Return the seconds until the next try, after so many; None if there is none."""
    return _PAUSES[tries - 1] if tries < MOST_TRIES else None


def rest_after(failures: int) -> float:
    """Return the seconds for which a channel rests after so many failures one after the other."""
    return min(float(2 ** min(failures, 10)), _LONGEST_REST) if failures else 0.0
