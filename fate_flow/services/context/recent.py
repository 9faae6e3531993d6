"""Values that are looked at often and change rarely."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from fate_flow.core.model.errors import FlowError

T = TypeVar("T")

FRESH_SECONDS = 1.0          # a change counts after this time at the latest


class Recent(Generic[T]):
    """What `fetch` returns, called at most once in `fresh_seconds`; may be shared by threads.

    `passed` returns seconds from any moment on."""

    def __init__(
        self, fetch: Callable[[], T], passed: Callable[[], float], fresh_seconds: float = FRESH_SECONDS
    ) -> None:
        self._fetch = fetch
        self._passed = passed
        self._fresh_seconds = fresh_seconds
        self._lock = threading.Lock()
        self._known: tuple[T, float] | None = None

    def read(self) -> T:
        """Return the value; the last known one while the database is away. Raises what `fetch` raises if there is
        none."""
        with self._lock:
            if self._known is None or not 0 <= self._passed() - self._known[1] < self._fresh_seconds:
                try:
                    found = self._fetch()
                except FlowError:
                    if self._known is None:
                        raise
                    found = self._known[0]
                self._known = (found, self._passed())
            return self._known[0]
