"""Refusals in the record: counted in this process, and written once their minute is over.

So a caller that sends nothing but what is refused makes one entry a minute, whatever it sends. Whoever counts never
waits for the database: a thread writes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from fate_flow.core.model.errors import CommitUnknown, StorageFailed
from fate_flow.core.record.refusal_counts import MINUTE_MS, RefusalCounts, Refusals
from fate_flow.services.record.entries import of_refusals
from fate_flow.store.contract.transaction import Transaction

log = logging.getLogger(__name__)

_AFTER_SECONDS = MINUTE_MS / 1000 + 1.0

Later = Callable[[float, Callable[[], None]], None]
"""Calls a function after so many seconds, in another thread."""


class Writes(Protocol):
    """What the refusals of a process need of its `Context`; the gateway has a smaller one."""

    @property
    def clock(self) -> Callable[[], int]: ...

    @property
    def fresh_salt(self) -> Callable[[], str]: ...

    def write(self, act: Callable[[Transaction], Any]) -> Any:
        """Run `act` in one transaction. Raises StorageFailed."""


def _in_a_thread(seconds: float, act: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, act)
    timer.daemon = True
    timer.start()


class RefusalRecord:
    """What the threads of one process have refused. The counts of a minute are lost if the process is killed in it.

    Counts that the database does not take are kept, and written when it does."""

    def __init__(self, context: Writes, later: Later = _in_a_thread) -> None:
        self._context, self._later = context, later
        self._counts, self._lock = RefusalCounts(), threading.Lock()
        self._writing = threading.Lock()         # the end of the process waits for a thread that writes
        self._is_due = False             # whether a thread will write them

    def note(self, party_id: str, route: str, retcode: int, cause: str = "", address: str = "") -> None:
        """Count a refusal; the arguments are those of `Refusals`."""
        with self._lock:
            self._counts.note(party_id, route, retcode, self._context.clock(), cause, address)
            is_first, self._is_due = not self._is_due, True
        if is_first:
            self._later(_AFTER_SECONDS, self.write)

    def write(self) -> None:
        """Write the refusals of the minutes that are over; those of the present one follow later."""
        try:
            with self._writing:
                with self._lock:
                    found = self._counts.take(self._context.clock())
                self._write(found)
        finally:
            with self._lock:
                self._is_due = is_due = not self._counts.is_empty()
            if is_due:
                self._later(_AFTER_SECONDS, self.write)

    def finish(self) -> None:
        """Write those of the present minute, too, at the end of the process. They are lost if that fails."""
        with self._writing:
            with self._lock:
                found = self._counts.take_all()
            self._write(found, is_last=True)

    def _write(self, found: Sequence[Refusals], *, is_last: bool = False) -> None:
        now = self._context.clock()
        entries = [of_refusals(one, now, self._context.fresh_salt) for one in found]
        try:
            if entries:
                self._context.write(lambda tx: tx.add_to_record(entries))
        except CommitUnknown:
            log.exception("%d entries about refusals may not be recorded", len(entries))
        except StorageFailed:
            if is_last:
                log.exception("%d entries about refusals could not be recorded", len(entries))
                return
            with self._lock:
                self._counts.put_back(found)
            log.exception("%d entries about refusals could not be recorded; they are tried again", len(entries))
