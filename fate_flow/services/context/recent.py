"""Values that are looked at often and change rarely, or take long to make."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
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


class MadeValues(Generic[T]):
    """Values that take long to make: those that were looked at last, by key. May be shared by threads, which may make
    one at the same time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Hashable, tuple[Hashable, T]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, key: Hashable, version: Hashable, make: Callable[[], T]) -> T:
        """Return the value of a key. `version`: of what it is made of; for another one it is made anew."""
        with self._lock:
            known = self._values.get(key)
        if known is not None and known[0] == version:
            return known[1]
        made = make()
        with self._lock:
            self._values[key] = (version, made)
            self._values.move_to_end(key)
            while len(self._values) > self._most:
                self._values.popitem(last=False)
        return made
