"""Durations, on the observer's own monotonic clock: nobody's wall clock is compared with anybody's, or with its past.

`Stopwatch`: how long something has stood still. Leases, holds and silence are judged by it: a token that does not
change for so long. A restart of the observer starts the watch anew, which errs on the side of patience.

`SteadyClock`: for what is stored and due later (a retry, the end of a drain, a timeout). It counts on from where the
last scheduler of this party stopped counting, so it never goes back, and stands still while nobody schedules.

`AwakeClock`: what both count by. A server that was stopped, or whose machine slept, has watched
nothing meanwhile; answers and reports of that time wait in its sockets, and are to be read before anything is overdue.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable


class AwakeClock:
    """A monotonic clock that leaves out the time for which its process stood still; for one thread."""

    def __init__(self, monotonic: Callable[[], float], slack_seconds: float = 1.0) -> None:
        self._monotonic = monotonic
        self._slack = slack_seconds
        self._last = monotonic()
        self._expected = 0.0
        self._asleep = 0.0

    def __call__(self) -> float:
        now = self._monotonic()
        if now - self._last > self._expected + self._slack:
            self._asleep += now - self._last
        self._last = now
        return now - self._asleep

    def expect(self, seconds: float) -> None:
        """From now on readings come this often: after a longer pause the process stood still meanwhile."""
        self()
        self._expected = seconds


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


class SteadyClock:
    """Steady time in milliseconds, as the scheduler of this party counts it."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._read, self._since = 0, monotonic()

    def go_on_from(self, milliseconds: int) -> None:
        """Count on from what was written down last."""
        self._read, self._since = milliseconds, self._monotonic()

    def now(self) -> int:
        return self._read + int((self._monotonic() - self._since) * 1000)
