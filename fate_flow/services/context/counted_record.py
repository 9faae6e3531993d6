"""What is counted for the record: refusals, and requests that have no entry of their own. Each process counts its own,
and writes them once their window of time is over.

So a caller that sends nothing but what is refused makes one entry a minute, whatever it sends. Whoever counts never
waits for the database: a thread writes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import urlsplit

from fate_flow.core.model.errors import CommitUnknown, StorageFailed
from fate_flow.core.record.entry import NewEntry
from fate_flow.core.record.refusal_counts import RefusalCounts, Refusals
from fate_flow.core.record.request_counts import HOUR_MS, Direction, Requests
from fate_flow.core.record.window_counts import Counted, WindowCounts
from fate_flow.core.wire.v1.paths import kind_without_entry
from fate_flow.services.record.entries import FreshSalt, of_refusals, of_requests
from fate_flow.store.contract.transaction import Transaction

log = logging.getLogger(__name__)

_V1 = "/v1"

V = TypeVar("V", bound=Counted)
Later = Callable[[float, Callable[[], None]], None]
"""Calls a function after so many seconds, in another thread."""


class Writes(Protocol):
    """What the counts of a process need of its `Context`; the gateway has a smaller one."""

    @property
    def clock(self) -> Callable[[], int]: ...

    @property
    def fresh_salt(self) -> FreshSalt: ...

    def write(self, act: Callable[[Transaction], Any]) -> Any:
        """Run `act` in one transaction. Raises StorageFailed."""


def _in_a_thread(seconds: float, act: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, act)
    timer.daemon = True
    timer.start()


class CountedRecord(Generic[V]):
    """What the threads of one process have counted. The counts of a window are lost if the process is killed in it.

    Counts that the database does not take are kept, and written when it does."""

    def __init__(
        self, context: Writes, counts: WindowCounts[V], entry_of: Callable[[V, int, FreshSalt], NewEntry], what: str,
        later: Later,
    ) -> None:  # fmt: skip
        """`what`: what the entries are about, for the log of the server."""
        self._context, self._counts, self._entry_of, self._what, self._later = context, counts, entry_of, what, later
        self._after_seconds = counts.window_ms / 1000 + 1.0
        self._lock = threading.Lock()
        self._writing = threading.Lock()         # the end of the process waits for a thread that writes
        self._is_due = False             # whether a thread will write them

    def add(self, one: V) -> None:
        """Count it."""
        with self._lock:
            self._counts.add(one)
            is_first, self._is_due = not self._is_due, True
        if is_first:
            self._write_later()

    def _write_later(self) -> None:
        try:
            self._later(self._after_seconds, self.write)
        except RuntimeError:             # there can be no thread now: the next one that is counted tries again
            with self._lock:
                self._is_due = False

    def write(self) -> None:
        """Write the counts of the windows that are over; those of the present one follow later."""
        try:
            with self._writing:
                with self._lock:
                    found = self._counts.take(self._context.clock())
                self._write(found)
        finally:
            with self._lock:
                self._is_due = is_due = not self._counts.is_empty()
            if is_due:
                self._write_later()

    def finish(self) -> None:
        """Write those of the present window, too, at the end of the process. They are lost if that fails."""
        with self._writing:
            with self._lock:
                found = self._counts.take_all()
            self._write(found, is_last=True)

    def _write(self, found: Sequence[V], *, is_last: bool = False) -> None:
        now, what = self._context.clock(), self._what
        entries = [self._entry_of(one, now, self._context.fresh_salt) for one in found]
        try:
            if entries:
                self._context.write(lambda tx: tx.add_to_record(entries))
        except CommitUnknown:
            log.exception("%d entries about %s may not be recorded", len(entries), what)
        except StorageFailed:
            if is_last:
                log.exception("%d entries about %s could not be recorded", len(entries), what)
                return
            with self._lock:
                self._counts.put_back(found)
            log.exception("%d entries about %s could not be recorded; they are tried again", len(entries), what)


class RefusalRecord(CountedRecord[Refusals]):
    """Refusals, by minute."""

    def __init__(self, context: Writes, later: Later = _in_a_thread) -> None:
        super().__init__(context, RefusalCounts(), of_refusals, "refusals", later)

    def note(self, party_id: str, route: str, retcode: int, cause: str = "", address: str = "") -> None:
        """Count a refusal; the arguments are those of `Refusals`."""
        now = self._context.clock()
        self.add(Refusals(1, now, now, party_id, route, retcode, cause, address))


class RequestRecord(CountedRecord[Requests]):
    """Requests between parties that have no entry of their own, by hour."""

    def __init__(self, context: Writes, later: Later = _in_a_thread) -> None:
        super().__init__(context, WindowCounts(HOUR_MS), of_requests, "requests", later)

    def sent(self, party_id: str, url: str, is_answered: bool) -> None:
        """Count a request of this party to another one; most have entries of their own, and are not counted."""
        path = urlsplit(url).path.partition(_V1)[2]
        # Other servers' heartbeat of plain v1, which is a command where it is received.
        what = "align" if path.endswith("/align") else kind_without_entry(path)
        if what:
            self._note(party_id, what, Direction.SENT, is_answered)

    def received(self, party_id: str, path: str) -> None:
        """Count a request of another party, at this path of the server; as `sent`."""
        if what := kind_without_entry(path.removeprefix(_V1)):
            self._note(party_id, what, Direction.RECEIVED)

    def _note(self, party_id: str, what: str, direction: Direction, is_answered: bool = True) -> None:
        now = self._context.clock()
        self.add(Requests(1, now, now, party_id, what, direction, is_answered))
