"""Times of entries of the record."""

from __future__ import annotations

from datetime import UTC, datetime


def time_of(at: int) -> str:
    """Return the time of an entry in UTC: records of several parties are read side by side."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(" ", "milliseconds").removesuffix("+00:00")
