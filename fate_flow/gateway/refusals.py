"""Refusals: what a peer is told, and what the operator of this server reads about them."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from fate_flow.core.record.refusal_counts import Cause
from fate_flow.core.text.phrases import counted, sanitized

LOG = logging.getLogger(__name__)

_LINES = 5                    # of one address within _SECONDS
_SECONDS = 60.0
_ADDRESSES = 1000             # that are remembered; an attacker with more addresses is cut off by the oldest ones
_MOST_LETTERS = 300


Count = Callable[[Cause, str, str, int], None]
"""Counts a refusal for the record: why, what counts as the address of the caller, its party if a key has proved it, and
the HTTP status of the answer, 0 without one. It is called on the event loop, and waits for nothing."""


def uncounted(_cause: Cause, _address: str, _party_id: str, _status: int) -> None:
    """There is no record."""


class Refused(Exception):
    """A request that is not passed on; `text` is a sentence for the operator of the other party."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


@dataclass
class _Lines:
    """The lines about one address since a moment."""

    since: float
    written: int = 0
    left_out: int = 0


class RefusalLog:
    """Writes a few lines a minute about each address, and then how many were left out.

    `clock` returns seconds that only grow; `verb` says what was done to an address."""

    def __init__(self, clock: Callable[[], float], verb: str = "refused") -> None:
        self._clock = clock
        self._verb = verb
        self._of: OrderedDict[str, _Lines] = OrderedDict()

    def note(self, address: str, text: str) -> None:
        now = self._clock()
        lines = self._of.get(address)
        if lines is not None and now - lines.since >= _SECONDS:
            self._finish(address)
            lines = None
        if lines is None:
            lines = self._of[address] = _Lines(now)
            if len(self._of) > _ADDRESSES:
                self._finish(next(iter(self._of)))
        if lines.written >= _LINES:
            lines.left_out += 1
            return
        lines.written += 1
        LOG.warning("%s %s: %s", self._verb, address or "a connection", sanitized(text, _MOST_LETTERS))

    def tick(self) -> None:
        """Write the counts of the minutes that are over."""
        now = self._clock()
        while self._of and now - next(iter(self._of.values())).since >= _SECONDS:
            self._finish(next(iter(self._of)))

    def finish(self) -> None:
        """Write all counts."""
        while self._of:
            self._finish(next(iter(self._of)))

    def _finish(self, address: str) -> None:
        lines = self._of.pop(address)
        if lines.left_out:
            LOG.warning(
                "%s %s %s within a minute, which are not logged", self._verb, address or "connections",
                counted(lines.left_out, "more time"),
            )
