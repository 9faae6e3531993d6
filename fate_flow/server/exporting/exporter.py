"""A thread that sends what is recorded to one program that collects logs: page by page, and again after a failure.

Nothing waits for it. It sends what was sealed, in the order of each log, and remembers how far the receiver has taken
it. After a crash, or an answer that was lost, a page is sent again: every entry is sent once at least, and its log,
epoch and index say which it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from fate_flow.core.record.shown import Position, ShownEntry
from fate_flow.records.export_state import ExportState, ExportStates
from fate_flow.server.periodic.periodic_work import PeriodicWork
from fate_flow.services.context.ports import Context
from fate_flow.services.record.following import followed, waiting

log = logging.getLogger(__name__)

PAGE = 200                   # entries, of at most 64 KiB and their texts
_LOOK_SECONDS, _STAND_BY_SECONDS = 1.0, 2.0
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0


class NotTaken(Exception):
    """A receiver has not taken entries, or has not said that it has. The text says why."""


class Receiver(Protocol):
    """A program that collects logs."""

    def send(self, entries: Sequence[ShownEntry]) -> None:
        """Return once it has taken them all. Raise NotTaken; some may have arrived then."""

    def abort(self) -> None:
        """End a `send` that is under way in another thread."""


class Exporter(PeriodicWork):
    """Works in the process that schedules. If another one still works, too, the receiver gets entries twice."""

    def __init__(
        self, context: Context, name: str, receiver: Receiver, states: ExportStates, may_work: Callable[[], bool],
        close: Callable[[], None],
    ) -> None:  # fmt: skip
        """`name`: of the export in the configuration. The thread calls `close` at its end."""
        failure = f"record.exports.{name}: entries could not be read or sent; it is tried again"
        super().__init__(f"export-{name}", failure, close, again=_LONGEST_PAUSE)
        self._context, self._name, self._receiver, self._states = context, name, receiver, states
        self._may_work = may_work
        self._position: Position | None = None       # None: another process may have moved it on
        self._failures = 0

    def step(self) -> float:
        if not self._may_work():
            self._position = None
            return _STAND_BY_SECONDS
        if self._position is None:
            self._position = self._states.read(self._name).position
        before = self._position
        page = self._context.read(lambda tx: followed(tx, before, PAGE))
        for which, (epoch, index) in page.beyond.items():
            log.warning(
                "record.exports.%s: %s ends at epoch %d, entry %d, before what was sent already: entries were lost, as "
                "by a restored backup; what comes after is sent", self._name, which, epoch, index,
            )  # fmt: skip
        if page.entries:
            try:
                self._receiver.send(page.entries)
            except NotTaken as error:
                return self._failed(before, str(error))
        if page.entries or page.beyond or self._failures:
            self._taken(page.position)
        return 0.0 if page.has_more else _LOOK_SECONDS

    def stop(self) -> None:
        self._is_over.set()
        self._receiver.abort()
        super().stop()

    def _taken(self, position: Position) -> None:
        if self._failures:
            log.warning("record.exports.%s: the receiver takes entries again", self._name)
        self._failures = 0
        self._note(position, "")
        self._position = position

    def _failed(self, position: Position, why: str) -> float:
        if not self._failures and not self._is_over.is_set():
            log.warning("record.exports.%s: entries are not taken, and are sent again later: %s", self._name, why)
        self._failures += 1
        self._note(position, why)
        return min(_LONGEST_PAUSE, _FIRST_PAUSE * float(1 << min(self._failures - 1, 10)))

    def _note(self, position: Position, error: str) -> None:
        left = self._context.read(lambda tx: waiting(tx, position))
        self._states.write(self._name, ExportState(position, left, error))
