"""How many requests of workers may block a thread at once, so that there is always one for the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore, Lock


def threads_for(slots: int) -> int:
    """Return how many threads serve workers, if so many pops may wait: twice as many pushes may be on their way."""
    return 3 * slots


class Slots:
    """A limit on the number of concurrent users."""

    def __init__(self, count: int) -> None:
        self._free = BoundedSemaphore(count)

    @contextmanager
    def take(self, wanted: bool) -> Iterator[bool]:
        """Take a slot until the end of the block; yield whether there was one. Never wait."""
        taken = wanted and self._free.acquire(blocking=False)
        try:
            yield taken
        finally:
            if taken:
                self._free.release()


class SharedSlots:
    """A limit on the number of concurrent users, of which nobody takes the last ones.

    Whoever has as many slots as are free gets no further one. So of 30 slots a single user has 15, a second one beside
    it 8, a third one 4, and somebody who comes after them still gets one."""

    def __init__(self, count: int) -> None:
        self._lock = Lock()
        self._free = count
        self._taken: Counter[Hashable] = Counter()

    @contextmanager
    def take(self, *users: Hashable) -> Iterator[bool]:
        """Take one slot for all these users together, until the end of the block; yield whether there was one. Never
        wait."""
        with self._lock:
            taken = all(self._taken[one] < self._free for one in users)
            self._add(users, taken)
        try:
            yield taken
        finally:
            with self._lock:
                self._add(users, -taken)

    def _add(self, users: tuple[Hashable, ...], count: int) -> None:
        self._free -= count
        for one in users:
            self._taken[one] += count
            if not self._taken[one]:
                del self._taken[one]
