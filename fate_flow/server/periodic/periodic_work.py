"""Work that a thread of its own repeats, so that nothing else waits for it."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from fate_flow.core.model.errors import DATABASE_AWAY

log = logging.getLogger(__name__)

END_SECONDS = 5.0


class PeriodicWork(ABC):
    """A thread that does a step, pauses, and does the next one, until it is stopped."""

    def __init__(
        self, name: str, failure: str, close: Callable[[], None], *, first: float = 0.0, again: float
    ) -> None:
        """`failure`: what the log says of a step that raises. `first`: the seconds before the first step; `again`:
        those after a step that has raised. The thread calls `close` at its end."""
        self._failure, self._close = failure, close
        self._first, self._again = first, again
        self._is_over, self._is_roused = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    @abstractmethod
    def step(self) -> float:
        """Do a piece of the work; return the seconds until the next one."""

    def start(self) -> None:
        self._thread.start()

    def rouse(self) -> None:
        """Let the next step begin now."""
        self._is_roused.set()

    def rest(self, seconds: float) -> None:
        """Wait before a step."""
        self._is_roused.wait(seconds)
        self._is_roused.clear()

    def end(self) -> None:
        """Ask the thread to end, and do not wait for it."""
        self._is_over.set()
        self.rouse()

    def stop(self, seconds: float = END_SECONDS) -> None:
        """Ask the thread to end, and wait for it so long at most."""
        self.end()
        self._thread.join(seconds)

    def _work(self) -> None:
        pause = self._first
        while not self._is_over.is_set():
            self.rest(pause)
            if self._is_over.is_set():
                break
            try:
                pause = self.step()
            except Exception as error:
                # The thread goes on: whatever a step meets, the next one may do.
                log.error("%s: %s", self._failure, error, exc_info=not isinstance(error, DATABASE_AWAY))
                pause = self._again
        self._close()


def stop_all(works: Sequence[PeriodicWork], seconds: float = END_SECONDS) -> None:
    """Ask all these threads to end, and wait for all of them together so long at most."""
    for work in works:
        work.end()
    deadline = time.monotonic() + seconds
    for work in works:
        work.stop(max(0.0, deadline - time.monotonic()))
