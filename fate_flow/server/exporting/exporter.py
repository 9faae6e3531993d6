"""A thread that sends what is recorded to one program that collects logs: page by page, and again after a failure.

Nothing waits for it. It sends what was sealed, in the order of each log, and remembers how far the receiver has taken
it. After a crash, or an answer that was lost, a page is sent again: every entry is sent once at least, and its log,
epoch and index say which it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256

from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.record.shown import Followed, Position, ShownEntry
from fate_flow.records.export_state import BadState, ExportState, ExportStates
from fate_flow.server.exporting.receiver import NotTaken, Receiver
from fate_flow.server.periodic.periodic_work import PeriodicWork
from fate_flow.services.context.ports import Context
from fate_flow.services.record.following import followed
from fate_flow.store.contract.transaction import Transaction

log = logging.getLogger(__name__)

PAGE = 200                   # entries at most
PAGE_BYTES = 1 << 20         # of entries and their texts, at most, unless one alone is larger
_LOOK_SECONDS, _STAND_BY_SECONDS = 1.0, 2.0
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0


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
        self._state: ExportState | None = None       # None: another process may have moved it on
        self._most = PAGE                            # fewer after a failure: a page may be too large for the receiver
        self._failures = 0
        self._said = ""

    def step(self) -> float:
        if not self._may_work():
            self._state = None
            return _STAND_BY_SECONDS
        try:
            if self._state is None:
                self._state = self._states.read(self._name)
            page = self._next(self._state)
            if page.entries:
                self._receiver.send(page.entries)
        except (NotTaken, StorageFailed, BadState, OSError) as error:
            return self._failed(str(error))
        self._taken(self._state, page)
        return 0.0 if page.has_more else _LOOK_SECONDS

    def end(self) -> None:
        super().end()
        self._receiver.abort()

    # ------------------------------------------------------------------ the next page

    def _next(self, state: ExportState) -> Followed:
        """Return the next page. A log that is not the one that was sent is sent from the beginning of its epoch."""
        page = self._context.read(lambda tx: followed(tx, state.position, self._most))
        logs = {one.log for one in page.entries} & state.last.keys()
        others = self._context.read(lambda tx: {one for one in logs if not _is_as_sent(tx, state, one)})
        if others:
            self._say(
                f"{', '.join(sorted(others))}: other entries are here than were sent, as after a restored backup; the "
                "epoch is sent again from its beginning"
            )
            back = {one: (state.position[one][0], 0) for one in others}
            last = {one: digest for one, digest in state.last.items() if one not in others}
            self._state = replace(state, position={**state.position, **back}, last=last)
            return self._next(self._state)
        if page.beyond:
            ends = ", ".join(f"{one} at epoch {place[0]}, entry {place[1]}" for one, place in page.beyond.items())
            self._say(
                f"logs end before what was sent already ({ends}): entries were lost, as by a restored backup; what "
                "comes after is sent"
            )
        return self._cut(state.position, page)

    def _cut(self, before: Position, page: Followed) -> Followed:
        """Return the beginning of a page that is not too large."""
        some = tuple(_first(page.entries))
        if len(some) == len(page.entries):
            return page
        after = {one.log: (one.epoch, one.index + 1) for one in some}
        return replace(page, entries=some, position={**before, **page.beyond, **after}, has_more=True)

    # ------------------------------------------------------------------ what has come of it

    def _taken(self, state: ExportState, page: Followed) -> None:
        if self._failures:
            log.warning("record.exports.%s: the receiver takes entries again", self._name)
        self._failures, self._most = 0, min(PAGE, self._most * 2)
        last = {one.log: _digest(one.content) for one in page.entries}
        kept = {one: digest for one, digest in state.last.items() if one not in page.beyond}
        self._state = ExportState(page.position, {**kept, **last})
        if self._state != state:
            self._note(self._state)

    def _failed(self, why: str) -> float:
        if not self._failures and not self._is_over.is_set():
            log.warning("record.exports.%s: entries are not sent; it is tried again: %s", self._name, why)
        self._failures += 1
        self._most = max(1, self._most // 2)
        if self._state is not None:
            self._state = replace(self._state, error=why)
            self._note(self._state)
        return min(_LONGEST_PAUSE, _FIRST_PAUSE * float(1 << min(self._failures - 1, 10)))

    def _note(self, state: ExportState) -> None:
        try:
            self._states.write(self._name, state)
        except OSError as error:
            self._say(f"how far it has got cannot be kept, and entries may be sent again after a restart: {error}")

    def _say(self, text: str) -> None:
        """Write a warning, unless it is the one that was written last."""
        if text != self._said:
            log.warning("record.exports.%s: %s", self._name, text)
        self._said = text


def _first(entries: Sequence[ShownEntry]) -> Iterator[ShownEntry]:
    """Yield the first of them that are not too large together, and one at least."""
    size = 0
    for number, one in enumerate(entries):
        size += len(one.content) + len(one.text)
        if number and size > PAGE_BYTES:
            return
        yield one


def _is_as_sent(tx: Transaction, state: ExportState, which: str) -> bool:
    """Return whether the last entry of a log that was sent is the one that is here."""
    epoch, index = state.position[which]
    if not index:
        return True
    found = tx.sealed_entries(which, epoch, index - 1, 1)
    return bool(found) and _digest(found[0].content.decode("utf-8", "replace")) == state.last[which]


def _digest(content: str) -> str:
    return sha256(content.encode()).hexdigest()
