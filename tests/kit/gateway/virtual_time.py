"""An event loop whose clock jumps to the next timer as soon as nothing else is to be done.

So a test passes hours without waiting. Everything that a test waits for has to be in the same loop: sockets between its
own tasks, whose bytes arrive at once, and functions for other threads, which run at once in this one.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

_MOST_SECONDS = 10 * 24 * 3600.0


class _Inline(ThreadPoolExecutor):
    """An executor without threads."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  # as an executor does
            future.set_exception(error)
        return future


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.seconds = 0.0
        super().__init__(_Jumping(self))
        self.set_default_executor(_Inline(1))

    def time(self) -> float:
        return self.seconds

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # asyncio's own
        """There is no thread to end. asyncio would begin one for that, and it could be late."""


class _Jumping(selectors.EpollSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if found or timeout == 0:
            return found
        assert timeout is not None, "nothing will ever happen"
        self._loop.seconds += timeout
        assert self._loop.seconds < _MOST_SECONDS, "the test does not end"
        return []


def run(test: Coroutine[Any, Any, T]) -> T:
    """Run a test to its end."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(test)
