"""Times of entries of the record."""

from __future__ import annotations

from datetime import UTC, datetime

from fate_flow.core.model.grammar import shown


def time_of(at: int, timespec: str = "milliseconds") -> str:
    """Return the time of an entry in UTC: records of several parties are read side by side. `timespec`: how exact.

    What another party has written may be in no calendar: then the number itself."""
    try:
        return datetime.fromtimestamp(at / 1000, UTC).isoformat(" ", timespec).removesuffix("+00:00")
    except (ValueError, OverflowError, OSError):
        return f"{shown(at)} ms after 1970 began"
