"""How many rows of a list there are in each stretch of it, so that its count and its late pages cost little.

A count and an OFFSET read every row that they pass over. A list is ordered by one column, and most of its rows are
settled: what is asked of them here does not change. So the values of that column are cut into stretches of `STRETCH`
rows, the settled rows of each are counted once by a process and remembered, and those that are not settled are read
every time; a page is then looked for in the stretches that hold it.

By what a row is settled says a column that holds a moment, the *age*: its time of creation, where nothing is asked that
changes later; the time of its end, where its status is asked for, or an order that comes with the end. Nothing younger
than `SETTLED` is remembered: a transaction that began before may still add to it. Settled rows go by retention or a
rerun alone, and people change their notes; that counts in `t_scheduler.f_forgotten`: another number there, and
everything is counted anew. So it is after `MOST_AGE`, because a clock that was set back makes rows that are older than
they ought to be.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from peewee import fn

STRETCH = 1_000                  # rows of the whole table; a page reads up to so many more than it shows
SETTLED = 600_000                # milliseconds; no transaction lasts nearly as long
MOST_AGE = 300.0                 # seconds
MOST_SHAPES = 64                 # filters that are remembered at once


@dataclass(frozen=True)
class Stretch:
    """The rows with `low <= value < high`; those without a value when there is no `low`."""

    low: int | None
    high: int | None = None


_VALUELESS = Stretch(None)


@dataclass(frozen=True)
class Span:
    """Where a page, or a part of it, is: among the rows of a stretch, behind the first `offset` of them."""

    stretch: Stretch
    offset: int


@dataclass(frozen=True)
class Counted:
    """The rows that a filter leaves, by stretches: those without a value, then from the least value to the greatest."""

    stretches: tuple[tuple[Stretch, int], ...]

    @property
    def total(self) -> int:
        return sum(rows for _, rows in self.stretches)

    def spans(self, offset: int, limit: int, *, is_descending: bool) -> list[Span]:
        """Where so many rows behind the first `offset` are, in their order; rows without a value stand apart."""
        found: list[Stretch] = []
        first = 0
        for stretch, rows in self.stretches[::-1] if is_descending else self.stretches:
            if not rows or (not found and rows <= offset):
                offset -= rows
                continue
            if not found:
                first, limit = offset, limit + offset
            found.append(stretch)
            limit -= rows
            if limit <= 0:
                break
        offsets = [first, 0]
        return [Span(stretch, start) for stretch, start in zip(_joined(found), offsets, strict=False)]


def _joined(stretches: list[Stretch]) -> Iterator[Stretch]:
    """Neighbours as one, but for the rows without a value, which no condition on values finds beside others."""
    if stretches and stretches[0] == _VALUELESS:
        yield _VALUELESS
    if valued := [one for one in stretches if one != _VALUELESS]:
        ends = sorted((valued[0], valued[-1]), key=lambda one: one.low or 0)
        yield Stretch(ends[0].low, ends[1].high)
    if len(stretches) > 1 and stretches[-1] == _VALUELESS:
        yield _VALUELESS


@dataclass
class _Known:
    """What has been counted since `made`, while `forgotten` stays what it was."""

    forgotten: int
    made: float
    settled: dict[str, int] = field(default_factory=dict)    # by the age: what is below is settled
    bounds: dict[str, tuple[int, ...]] = field(default_factory=dict)     # by the order: where stretches begin
    counts: dict[Hashable, tuple[int, ...]] = field(default_factory=dict)


class Tally:
    """The counts of one table; for any number of threads, each in a transaction of its own."""

    def __init__(self, model: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._model = model
        self._clock = clock
        self._known = _Known(-1, 0.0)

    def count(self, where: Any, shape: Hashable, forgotten: int, *, by: str, age: str) -> Counted:
        """The rows that `where` leaves, in the order `by`. `shape` tells it from other conditions; it looks at nothing
        that changes in a row that is settled by this age."""
        known = self._known
        if known.forgotten != forgotten or self._clock() - known.made > MOST_AGE:
            known = self._known = _Known(forgotten, self._clock())
        if age not in known.settled:
            known.settled[age] = int(self._model.select(fn.MAX(getattr(self._model, age))).scalar() or 0) - SETTLED
        if by not in known.bounds:
            known.bounds[by] = tuple(self._bounds(by))
        if len(known.counts) > MOST_SHAPES:
            known.counts = {}
        stretches = (_VALUELESS, *(Stretch(*ends) for ends in pairwise((*known.bounds[by], None))))
        moment, now_settled = getattr(self._model, age), known.settled[age]
        counts = known.counts.get((by, age, shape))
        if counts is None:
            counts = tuple(self._rows(where, self.within(by, one) & (moment < now_settled)) for one in stretches)
            known.counts[by, age, shape] = counts
        fresh = self._fresh(where, by, moment, now_settled, stretches)
        rows = (known_rows + fresh[place] for place, known_rows in enumerate(counts))
        return Counted(tuple(zip(stretches, rows, strict=True)))

    def within(self, by: str, stretch: Stretch) -> Any:
        """The condition that a row lies there."""
        value = getattr(self._model, by)
        if stretch.low is None:
            return value.is_null()
        return value >= stretch.low if stretch.high is None else (value >= stretch.low) & (value < stretch.high)

    def _rows(self, where: Any, condition: Any) -> int:
        return int(self._model.select().where(condition if where is None else condition & where).count())

    def _fresh(
        self, where: Any, by: str, moment: Any, settled: int, stretches: Sequence[Stretch]
    ) -> Mapping[int, int]:
        """How many unsettled rows are in each stretch, by its place."""
        begins = [one.low or 0 for one in stretches[1:]]
        if by == moment.name:
            late = range(max(1, bisect_right(begins, settled)), len(stretches))
            open_ended = {n: self._rows(where, self.within(by, stretches[n]) & (moment >= settled)) for n in late}
            return Counter({0: self._rows(where, moment.is_null()), **open_ended})
        found: Counter[int] = Counter()
        for unsettled in (moment >= settled, moment.is_null()):        # two queries: an index answers each of them
            asked = unsettled if where is None else unsettled & where
            values = self._model.select(getattr(self._model, by)).where(asked).tuples()
            found.update(0 if value is None else bisect_right(begins, value) for (value,) in values)
        return found

    def _bounds(self, by: str) -> Iterator[int]:
        """Where the stretches begin, as long as the table is."""
        value = getattr(self._model, by)
        bound: int | None = 0
        while bound is not None:
            yield bound
            ahead = self._model.select(value).where(value >= bound).order_by(value).limit(1).offset(STRETCH).scalar()
            if ahead is not None and ahead == bound:               # so many rows of one value
                ahead = self._model.select(fn.MIN(value)).where(value > bound).scalar()
            bound = ahead
