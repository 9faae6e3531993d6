"""Few lines about what may happen often: other parties decide how often a quota refuses them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

_MOST_KEYS = 1000         # that are remembered; the oldest are forgotten


@dataclass
class _Since:
    at: float
    left_out: int = 0


class Seldom:
    """Decides for each key whether a line is due: the first one is, and then one each `seconds`."""

    def __init__(self, seconds: float = 60.0) -> None:
        self._seconds = seconds
        self._since: OrderedDict[Hashable, _Since] = OrderedDict()

    def due(self, key: Hashable, now: float) -> int | None:
        """Return how many lines were left out since the last one; None if this one is left out, too. `now`: seconds."""
        known = self._since.get(key)
        if known is not None and now - known.at < self._seconds:
            known.left_out += 1
            return None
        self._since[key] = _Since(now)
        self._since.move_to_end(key)
        if len(self._since) > _MOST_KEYS:
            self._since.popitem(last=False)
        return known.left_out if known else 0
