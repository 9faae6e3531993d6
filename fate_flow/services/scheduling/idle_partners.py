"""When parties that no job binds get a heartbeat: whoever looks at the board has to know whether they answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class IdlePartners:
    """Each party is due once in `interval` at least, and never all of them at once. Times are in milliseconds."""

    def __init__(self, interval: int, gap: int, random: Callable[[int], int]) -> None:
        """`interval`: 0: no party is ever due. `gap`: between two calls of `due`. `random` returns a number from 0 to
        below its argument."""
        self._interval, self._gap, self._random = interval, gap, random
        self._latest: dict[str, int] = {}        # by party: the time at which it gets the next heartbeat at the latest

    def due(self, idle: Sequence[str], now: int) -> tuple[str, ...]:
        """Return those of the idle parties that get a heartbeat now. One that was not idle before is due soon.

        The order of the parties decides which random number each gets."""
        if not self._interval:
            return ()
        self._latest = {one: self._latest.get(one, now + self._gap + self._spread()) for one in idle}
        found = tuple(one for one, latest in self._latest.items() if latest < now + self._gap)
        for one in found:
            self._latest[one] = now + self._interval - self._spread()
        return found

    def _spread(self) -> int:
        return self._random(max(1, self._interval // 4))
