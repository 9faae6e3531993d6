"""How many requests of a process wait for another party at once: the threads for all else stay free."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore

from fate_flow.core.model.errors import Busy


class PartnerPlaces:
    def __init__(self, http_threads: int) -> None:
        self.count = max(1, min(4, http_threads // 8))
        self._free = BoundedSemaphore(self.count)

    @contextmanager
    def one(self) -> Iterator[None]:
        """Take one of the places. Raise Busy."""
        if not self._free.acquire(blocking=False):
            raise Busy(f"this server waits for logs of other parties {self.count} times already; try again")
        try:
            yield
        finally:
            self._free.release()
