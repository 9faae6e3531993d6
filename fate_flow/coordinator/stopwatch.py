"""How long something has stood still, on the observer's own monotonic clock.

Leases, holds and silence are judged by it: a token that does not change for so long. Nobody's wall clock is
compared with anybody's, and a restart of the observer starts the watch anew, which errs on the side of patience.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable


class Stopwatch:
    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._seen: dict[Hashable, tuple[object, float]] = {}

    def unchanged_seconds(self, key: Hashable, token: object) -> float:
        """Seconds since this key was first seen with this token; 0 when the token is new."""
        now = self._monotonic()
        known = self._seen.get(key)
        if known is None or known[0] != token:
            self._seen[key] = (token, now)
            return 0.0
        return now - known[1]

    def keep_only(self, keys: set[Hashable]) -> None:
        """Forget what is not watched any more."""
        for key in set(self._seen) - keys:
            del self._seen[key]
