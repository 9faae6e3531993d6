"""Refusals in the record: counted in this process, and written once their minute is over.

So a caller that sends nothing but what is refused makes one entry a minute, whatever it sends.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.record.refusal_counts import MINUTE_MS, RefusalCounts
from fate_flow.services.context.ports import Context
from fate_flow.services.record.entries import of_refusals

log = logging.getLogger(__name__)

_AFTER_SECONDS = MINUTE_MS / 1000 + 1.0

Later = Callable[[float, Callable[[], None]], None]
"""Calls a function after so many seconds, in another thread."""


def _in_a_thread(seconds: float, act: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, act)
    timer.daemon = True
    timer.start()


class RefusalRecord:
    """What the threads of one process have refused. The counts of a minute are lost if the process is killed in it."""

    def __init__(self, context: Context, later: Later = _in_a_thread) -> None:
        self._context, self._later = context, later
        self._counts, self._lock = RefusalCounts(), threading.Lock()
        self._is_due = False             # whether a thread will write them

    def note(self, party_id: str, route: str, retcode: int) -> None:
        """Count a refusal. `party_id`: empty if no key has proved it; `route`: `party` or `client`."""
        with self._lock:
            self._counts.note(party_id, route, retcode, self._context.clock())
            is_first, self._is_due = not self._is_due, True
        if is_first:
            self._later(_AFTER_SECONDS, self.write)

    def write(self) -> None:
        """Write the refusals of the minutes that are over; those of the present one follow later."""
        now = self._context.clock()
        with self._lock:
            found = self._counts.take(now)
            self._is_due = not self._counts.is_empty()
            is_due = self._is_due
        entries = [of_refusals(one, now) for one in found]
        try:
            if entries:
                self._context.write(lambda tx: tx.add_to_record(entries))
        except StorageFailed:
            log.exception("%d entries about refusals could not be recorded", len(entries))
        if is_due:
            self._later(_AFTER_SECONDS, self.write)
