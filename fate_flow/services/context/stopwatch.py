"""Clocks for durations. All use the observer's own monotonic clock; no rule compares wall clocks.

`Stopwatch` measures how long something has not changed. Leases, holds and silence use it: a token that has stayed the
same for so long. If the observer restarts, the watch starts from zero, so that a limit is reached late, never early.

`SteadyClock` is for stored times (a retry, the end of a drain, a timeout). It counts on from where the last scheduler
of this party stopped, so it never goes back, and it stands still while no process schedules.

`AwakeClock` is the base of both. A server that was stopped, or whose machine slept, has seen nothing meanwhile. Answers
and reports of that time wait in its sockets and must be read before anything counts as overdue.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

SLACK_SECONDS = 1.0
"""How late a reading may be before the process counts as stopped."""


class AwakeClock:
    """A monotonic clock that leaves out the time while its process stood still; for use by one thread."""

    def __init__(self, monotonic: Callable[[], float], slack_seconds: float = SLACK_SECONDS) -> None:
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
        """Set the longest time between readings; after a longer pause the process counts as stopped meanwhile."""
        self()
        self._expected = seconds


class Stopwatch:
    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._seen: dict[Hashable, tuple[object, float]] = {}

    def unchanged_seconds(self, key: Hashable, token: object) -> float:
        """Return the seconds since this key was first seen with this token; 0 if the token is new."""
        now = self._monotonic()
        known = self._seen.get(key)
        if known is None or known[0] != token:
            self._seen[key] = (token, now)
            return 0.0
        return now - known[1]

    def keep_only(self, keys: set[Hashable]) -> None:
        """Forget all other keys."""
        for key in set(self._seen) - keys:
            del self._seen[key]


class SteadyClock:
    """Steady time in milliseconds, as the scheduler of this party counts it."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._read, self._since = 0, monotonic()

    def go_on_from(self, milliseconds: int) -> None:
        """Count on from the time that was stored last."""
        self._read, self._since = milliseconds, self._monotonic()

    def now(self) -> int:
        return self._read + int((self._monotonic() - self._since) * 1000)
