"""How many rows of a list there are in each stretch of time, so that its count and its late pages cost little.

A count and an OFFSET read every row that they pass over. Jobs and tasks come at the newer end of their lists, and what
is asked of them here hardly changes, so each stretch of `STRETCH` rows is counted once by a process and remembered; a
page is then looked for in the stretches that hold it.

Nothing younger than `SETTLED` is remembered: a transaction that began before may still add to it. Rows of old jobs go
by retention alone, and people change their notes; both count in `t_scheduler.f_forgotten`: another number there, and
everything is counted anew. So it is after `MOST_AGE`, because a clock that was set back makes tasks that are older
than they ought to be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from peewee import fn

STRETCH = 1_000                  # rows of the whole table; a page reads up to so many more than it shows
SETTLED = 600_000                # milliseconds; no transaction lasts nearly as long
MOST_AGE = 300.0                 # seconds
MOST_SHAPES = 64                 # filters that are remembered at once


@dataclass(frozen=True)
class Span:
    """Where a page is: among the rows with `low <= f_create_time < high`, behind the first `offset` of them."""

    low: int
    high: int | None
    offset: int


@dataclass(frozen=True)
class Counted:
    """The rows that a filter leaves, by stretches from the oldest to the newest."""

    stretches: tuple[tuple[int, int | None, int], ...]       # low, high, rows

    @property
    def total(self) -> int:
        return sum(rows for _, _, rows in self.stretches)

    def span(self, offset: int, limit: int, *, newest_first: bool) -> Span | None:
        """Where so many rows behind the first `offset` are; None when there are none."""
        ordered = self.stretches[::-1] if newest_first else self.stretches
        found: list[tuple[int, int | None]] = []
        for low, high, rows in ordered:
            if not rows or (not found and rows <= offset):
                offset -= rows
                continue
            found.append((low, high))
            limit -= rows if len(found) > 1 else rows - offset
            if limit <= 0:
                break
        if not found:
            return None
        oldest, newest = (found[-1], found[0]) if newest_first else (found[0], found[-1])
        return Span(oldest[0], newest[1], offset)


@dataclass
class _Known:
    """What has been counted since `made`, while `forgotten` stays what it was."""

    forgotten: int
    made: float
    bounds: tuple[int, ...] = (0,)                           # where stretches begin; the last one is still open
    counts: dict[Hashable, tuple[int, ...]] = field(default_factory=dict)


class Tally:
    """The counts of one table; for any number of threads, each in a transaction of its own."""

    def __init__(self, model: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._model = model
        self._clock = clock
        self._known = _Known(-1, 0.0)

    def count(self, where: Any, shape: Hashable, forgotten: int) -> Counted:
        """The rows that `where` leaves. `shape` tells it from other conditions; it looks at columns that stay."""
        known = self._known
        if known.forgotten != forgotten or self._clock() - known.made > MOST_AGE:
            known = self._known = _Known(forgotten, self._clock())
        bounds = known.bounds = self._extended(known.bounds)
        if len(known.counts) > MOST_SHAPES:
            known.counts = {}
        counts = known.counts.get(shape, ())
        fresh = zip(bounds[len(counts) : -1], bounds[len(counts) + 1 :], strict=True)
        counts += tuple(self._rows(where, low, high) for low, high in fresh)
        known.counts[shape] = counts
        closed = zip(bounds[:-1], bounds[1:], counts[: len(bounds) - 1], strict=True)
        return Counted((*closed, (bounds[-1], None, self._rows(where, bounds[-1], None))))

    def within(self, span: Span) -> Any:
        """The condition that a row lies there."""
        return self._between(span.low, span.high)

    def _between(self, low: int, high: int | None) -> Any:
        at = self._model.f_create_time
        return at >= low if high is None else (at >= low) & (at < high)

    def _rows(self, where: Any, low: int, high: int | None) -> int:
        between = self._between(low, high)
        return int(self._model.select().where(between if where is None else between & where).count())

    def _extended(self, bounds: tuple[int, ...]) -> tuple[int, ...]:
        """With the stretches that have come to their end since."""
        at = self._model.f_create_time
        settled = int(self._model.select(fn.MAX(at)).scalar() or 0) - SETTLED
        found = list(bounds)
        while True:
            behind = self._model.select(at).where(at >= found[-1]).order_by(at).limit(1).offset(STRETCH).scalar()
            if behind is not None and behind == found[-1]:         # so many rows of one moment
                behind = self._model.select(fn.MIN(at)).where(at > behind).scalar()
            if behind is None or behind > settled:
                return tuple(found)
            found.append(int(behind))
