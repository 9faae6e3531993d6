"""How many rows of a list there are in each bucket of it, so that its count and its late pages cost little.

A count and an OFFSET read every row that they pass over. A list is ordered by one column, and most of its rows are
settled: what is asked of them here does not change. So the values of that column are cut into buckets of `BUCKET_ROWS`
rows, the settled rows of each are counted once by a process and remembered, and those that are not settled are read
every time; a page is then looked for in the buckets that hold it.

By what a row is settled says a column that holds a moment, the *age*: its time of creation, where nothing is asked that
changes later; the time of its end, where its status is asked for, or an order that comes with the end. The end of a
task at another party is told by that party's clock, so tasks go by their creation in every order, and the jobs whose
tasks were not all over when they were counted, the *late* ones, are read every time. Nothing younger than `SETTLED` is
remembered: a transaction that began before may still add to it. Settled rows go by retention or a rerun alone, and
people change their notes; that counts in `t_scheduler.f_forgotten`: another number there, and everything is counted
anew. So it is after `MOST_AGE`, because a clock that was set back makes rows that are older than they ought to be.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from peewee import fn

BUCKET_ROWS = 1_000              # rows of the whole table; a page reads up to so many more than it shows
SETTLED = 600_000                # milliseconds; no transaction lasts nearly as long
MOST_AGE = 300.0                 # seconds
MOST_SHAPES = 64                 # filters that are remembered at once
MOST_LATE = 500                  # jobs; SQLite takes so many variables


@dataclass(frozen=True)
class Bucket:
    """The rows with `low <= value < high`; those without a value when there is no `low`."""

    low: int | None
    high: int | None = None


_VALUELESS = Bucket(None)


@dataclass(frozen=True)
class Span:
    """Where a page, or a part of it, is: among the rows of a bucket, behind the first `offset` of them."""

    bucket: Bucket
    offset: int


@dataclass(frozen=True)
class Counted:
    """The rows that a filter leaves, by buckets: those without a value, then from the least value to the greatest."""

    by: str
    buckets: tuple[tuple[Bucket, int], ...]

    @property
    def total(self) -> int:
        return sum(rows for _, rows in self.buckets)

    def spans(self, offset: int, limit: int, *, is_descending: bool) -> list[Span]:
        """Where so many rows behind the first `offset` are, in their order; rows without a value stand apart."""
        found: list[Bucket] = []
        first = 0
        for bucket, rows in self.buckets[::-1] if is_descending else self.buckets:
            if not rows or (not found and rows <= offset):
                offset -= rows
                continue
            if not found:
                first, limit = offset, limit + offset
            found.append(bucket)
            limit -= rows
            if limit <= 0:
                break
        offsets = [first, 0]
        return [Span(bucket, start) for bucket, start in zip(_joined(found), offsets, strict=False)]


def _joined(buckets: list[Bucket]) -> Iterator[Bucket]:
    """Neighbours as one, but for the rows without a value, which no condition on values finds beside others."""
    if buckets and buckets[0] == _VALUELESS:
        yield _VALUELESS
    if valued := [one for one in buckets if one != _VALUELESS]:
        ends = sorted((valued[0], valued[-1]), key=lambda one: one.low or 0)
        yield Bucket(ends[0].low, ends[1].high)
    if len(buckets) > 1 and buckets[-1] == _VALUELESS:
        yield _VALUELESS


@dataclass(frozen=True)
class _Cut:
    """One order of the table, cut into buckets, and which of its rows are settled."""

    by: str
    age: str
    settled: int                                 # what is younger is not
    late: tuple[str, ...]                        # jobs of which no row is
    buckets: tuple[Bucket, ...]                  # those without a value first


@dataclass
class _Known:
    """What has been counted since `made`, while `forgotten` stays what it was."""

    forgotten: int
    made: float
    cuts: dict[tuple[str, str], _Cut] = field(default_factory=dict)              # by order and age
    counts: dict[Hashable, tuple[int, ...]] = field(default_factory=dict)        # of settled rows


class CountCache:
    """The counts of one table; for any number of threads, each in a transaction of its own."""

    def __init__(self, model: Any, clock: Callable[[], float] = time.monotonic, *, changes: Any = None) -> None:
        """`changes`: the condition that a row may still change in what is asked of it, however old it is."""
        self._model = model
        self._clock = clock
        self._changes = changes
        self._known = _Known(-1, 0.0)

    def count(self, where: Any, shape: Hashable, forgotten: int, *, by: str, age: str) -> Counted:
        """The rows that `where` leaves, in the order `by`; in that of their age when too many of them change.

        `shape` tells `where` from others; it looks at nothing that changes in a row that is settled by this age."""
        known = self._known
        if known.forgotten != forgotten or self._clock() - known.made > MOST_AGE:
            known = self._known = _Known(forgotten, self._clock())
        # Another thread may be as far: all have to go by the cut of one of them.
        cut = known.cuts.get((by, age)) or known.cuts.setdefault((by, age), self._cut(by, age))
        if len(cut.late) > MOST_LATE:
            return self.count(where, shape, forgotten, by=age, age=age)
        if len(known.counts) > MOST_SHAPES:
            known.counts = {}
        counts = known.counts.get((by, age, shape))
        if counts is None:
            counts = tuple(self._rows(where, self.within(by, one) & self._is_settled(cut)) for one in cut.buckets)
            known.counts[by, age, shape] = counts
        fresh = self._unsettled(where, cut)
        rows = (settled + fresh[place] for place, settled in enumerate(counts))
        return Counted(by, tuple(zip(cut.buckets, rows, strict=True)))

    def within(self, by: str, bucket: Bucket) -> Any:
        """The condition that a row lies there."""
        value = getattr(self._model, by)
        if bucket.low is None:
            return value.is_null()
        return value >= bucket.low if bucket.high is None else (value >= bucket.low) & (value < bucket.high)

    def _cut(self, by: str, age: str) -> _Cut:
        moment = getattr(self._model, age)
        settled = int(self._model.select(fn.MAX(moment)).scalar() or 0) - SETTLED
        late: tuple[str, ...] = ()
        if self._changes is not None and by != age:
            job_id = self._model.f_job_id
            query = self._model.select(job_id).where(self._changes & (moment < settled)).distinct().limit(MOST_LATE + 1)
            late = tuple(row[0] for row in query.tuples())
        buckets = (Bucket(*ends) for ends in pairwise((*self._bounds(by), None)))
        return _Cut(by, age, settled, late, (_VALUELESS, *buckets))

    def _is_settled(self, cut: _Cut) -> Any:
        is_old = getattr(self._model, cut.age) < cut.settled
        return is_old & self._model.f_job_id.not_in(cut.late) if cut.late else is_old

    def _rows(self, where: Any, condition: Any) -> int:
        return int(self._model.select().where(condition if where is None else condition & where).count())

    def _unsettled(self, where: Any, cut: _Cut) -> Mapping[int, int]:
        """How many of the other rows are in each bucket, by its place."""
        moment = getattr(self._model, cut.age)
        begins = [one.low or 0 for one in cut.buckets[1:]]
        if cut.by == cut.age:
            young = range(max(1, bisect_right(begins, cut.settled)), len(cut.buckets))
            in_stretches = {
                place: self._rows(where, self.within(cut.by, cut.buckets[place]) & (moment >= cut.settled))
                for place in young
            }
            return Counter({0: self._rows(where, moment.is_null()), **in_stretches})
        conditions = [moment >= cut.settled, moment.is_null()]       # apart: an index answers each of them
        if cut.late:
            conditions.append(self._model.f_job_id.in_(cut.late) & (moment < cut.settled))
        found: Counter[int] = Counter()
        for condition in conditions:
            asked = condition if where is None else condition & where
            values = self._model.select(getattr(self._model, cut.by)).where(asked).tuples()
            found.update(0 if value is None else bisect_right(begins, value) for (value,) in values)
        return found

    def _bounds(self, by: str) -> Iterator[int]:
        """Where the buckets begin, as long as the table is."""
        value = getattr(self._model, by)
        bound: int | None = 0
        while bound is not None:
            yield bound
            ahead = (
                self._model.select(value).where(value >= bound).order_by(value).limit(1).offset(BUCKET_ROWS).scalar()
            )
            if ahead is not None and ahead == bound:               # so many rows of one value
                ahead = self._model.select(fn.MIN(value)).where(value > bound).scalar()
            bound = ahead
