"""How fast requests may follow each other."""

from __future__ import annotations


class TokenBucket:
    """Lets `rate` requests a second through, and after a rest up to `burst` at once. Times are in seconds."""

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._at = now

    def take(self, now: float, patience: float = 0.0) -> float | None:
        """Count a request, and return for how long it has to wait. None if that is longer than `patience`; such a
        request does not count."""
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._rate)
        self._at = max(self._at, now)
        wait = max(0.0, (1.0 - self._tokens) / self._rate)
        if wait > patience:
            return None
        self._tokens -= 1.0
        return wait
