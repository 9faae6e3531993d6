"""What is done at intervals. They are measured by a clock that nobody sets."""

from __future__ import annotations

from collections.abc import Callable

from fate_flow.server.periodic.periodic_work import PeriodicWork


class Interval:
    """Tells whoever asks often whether so many seconds have passed again."""

    def __init__(self, seconds: float, monotonic: Callable[[], float]) -> None:
        self._seconds, self._monotonic = seconds, monotonic
        self._next = monotonic() + seconds

    def seconds_left(self) -> float:
        return max(0.0, self._next - self._monotonic())

    def has_passed(self) -> bool:
        """Return whether they have; they begin anew then. Of several that were missed, one counts."""
        now = self._monotonic()
        if now < self._next:
            return False
        self._next += self._seconds
        if self._next <= now:
            self._next = now + self._seconds
        return True


class Tick(PeriodicWork):
    """A thread that calls a function again and again. What waits for a disk or a database here delays nothing else."""

    def __init__(self, name: str, seconds: float, act: Callable[[], None], close: Callable[[], None]) -> None:
        super().__init__(name, f"a step of the {name} failed", close, first=seconds, again=seconds)
        self._seconds, self._act = seconds, act

    def step(self) -> float:
        self._act()
        return self._seconds
