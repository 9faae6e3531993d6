"""Events that are too many for an entry each: counted by what is alike of them, within a window of time.

Those that could not be written are kept, without their window: a database that is away for long takes no more memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

MINUTE_MS = 60_000
_KEPT = -1                       # stands for the windows of those that could not be written


@dataclass(frozen=True)
class Counted:
    """So many events that are alike. `first` and `last`: milliseconds since 1970."""

    count: int
    first: int
    last: int


V = TypeVar("V", bound=Counted)
Span = tuple[int, int, int]
"""`count`, `first` and `last` of those that are counted as one: a flood makes no value for each."""


class WindowCounts(Generic[V]):
    """Counts. Threads that share it hold a lock."""

    def __init__(self, window_ms: int) -> None:
        self.window_ms = window_ms
        self._of: dict[tuple[int, V], Span] = {}

    def add(self, one: V) -> None:
        """Count it in the window of its time."""
        self._add(one.last // self.window_ms, one)

    def put_back(self, taken: Iterable[V]) -> None:
        """Count again those that were taken, and could not be written."""
        for one in taken:
            self._add(_KEPT, one)

    def _add(self, window: int, one: V) -> None:
        alike = self._counted_as(window, replace(one, count=0, first=0, last=0))
        count, first, last = self._of.get((window, alike), (0, one.first, one.last))
        self._of[window, alike] = (count + one.count, min(first, one.first), max(last, one.last))

    def _counted_as(self, window: int, alike: V) -> V:      # noqa: ARG002  # for those that count some together
        """Return what an event is counted as; its own count and times are 0."""
        return alike

    def take(self, at: int) -> tuple[V, ...]:
        """Return those of all windows but the present one, and count them no more."""
        return self._take([key for key in self._of if key[0] != at // self.window_ms])

    def take_all(self) -> tuple[V, ...]:
        """Return those of the present window, too, and count them no more."""
        return self._take(list(self._of))

    def _take(self, keys: list[tuple[int, V]]) -> tuple[V, ...]:
        return tuple(
            replace(alike, count=count, first=first, last=last)
            for alike, (count, first, last) in ((key[1], self._of.pop(key)) for key in keys)
        )

    def is_empty(self) -> bool:
        return not self._of
