"""How many lines the requests of each party may cause in the log."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

_MOST_KEYS = 1000         # that are remembered; the oldest are forgotten


@dataclass
class _Minute:
    since: float
    written: int = 0
    left_out: int = 0


class LineCounts:
    """Counts lines for each key, in periods of `seconds` that begin with a line."""

    def __init__(self, seconds: float = 60.0) -> None:
        self._seconds = seconds
        self._of: OrderedDict[str, _Minute] = OrderedDict()

    def take(self, key: str, most: int, now: float) -> tuple[bool, int]:
        """Count a line. Return whether it is among the first `most` of its period; and, for the first of a period, how
        many were left out in the one before. `now`: seconds."""
        known, left_out = self._of.get(key), 0
        if known is None or now - known.since >= self._seconds:
            left_out = known.left_out if known else 0
            known = self._of[key] = _Minute(now)
            self._of.move_to_end(key)
            if len(self._of) > _MOST_KEYS:
                self._of.popitem(last=False)
        if known.written < most:
            known.written += 1
            return True, left_out
        known.left_out += 1
        return False, 0
