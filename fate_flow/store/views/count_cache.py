"""A cache of the number of rows in each bucket of a list, so that the count and the later pages of a list cost little.

A count and an OFFSET read every row that they skip. A list is ordered by one column, and most of its rows are settled:
the columns that the query uses do not change any more. Therefore the values of the order column are divided into
buckets of `BUCKET_ROWS` rows. A process counts the settled rows of each bucket once and keeps the number; it reads the
other rows every time. A page is then read only from the buckets that contain it.

A row counts as settled once its *age* column is old enough. The age is the time of creation, if the query uses nothing
that changes later; it is the end time, if the query uses the status, or an order that is known only at the end. The end
time of a task at another party comes from that party's clock. So tasks always use the time of creation, and jobs whose
tasks were not all over at the count, the *late* ones, are read every time.

Rows younger than `SETTLED` are never cached, because a transaction that began earlier may still add some. Settled rows
only change by retention, by a rerun, or by new notes of a user. Each of these increases `t_scheduler.f_forgotten`; if
that number has changed, everything is counted again. The same happens after `MOST_AGE`, because a clock that was set
back makes rows that seem older than they are.
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

from fate_flow.store.database.prepared import select_text

BUCKET_ROWS = 1_000              # rows of the whole table; a page reads at most so many more than it shows
SETTLED = 600_000                # milliseconds; much longer than any transaction
MOST_AGE = 300.0                 # seconds
MOST_SHAPES = 64                 # filters in the cache
MOST_LATE = 500                  # jobs; SQLite allows so many variables


@dataclass(frozen=True)
class Bucket:
    """The rows with `low <= value < high`; if `low` is None, the rows without a value."""

    low: int | None
    high: int | None = None


_VALUELESS = Bucket(None)


@dataclass(frozen=True)
class Span:
    """The place of a page, or of a part of it: in a bucket, behind its first `offset` rows."""

    bucket: Bucket
    offset: int


@dataclass(frozen=True)
class Counted:
    """The number of rows that a filter selects in each bucket: rows without a value first, then by ascending value."""

    by: str
    buckets: tuple[tuple[Bucket, int], ...]

    @property
    def total(self) -> int:
        return sum(rows for _, rows in self.buckets)

    def spans(self, offset: int, limit: int, *, is_descending: bool) -> list[Span]:
        """Return, in order, where `limit` rows behind the first `offset` are. Rows without a value have their own
        span."""
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
    """Join neighbouring buckets, but not the rows without a value, which need a condition of their own."""
    if buckets and buckets[0] == _VALUELESS:
        yield _VALUELESS
    if valued := [one for one in buckets if one != _VALUELESS]:
        ends = sorted((valued[0], valued[-1]), key=lambda one: one.low or 0)
        yield Bucket(ends[0].low, ends[1].high)
    if len(buckets) > 1 and buckets[-1] == _VALUELESS:
        yield _VALUELESS


@dataclass(frozen=True)
class _Cut:
    """The buckets of the table in one order, and the limit of its settled rows."""

    by: str
    age: str
    settled: int                                 # younger rows are not settled
    late: tuple[str, ...]                        # jobs of which no row counts as settled
    buckets: tuple[Bucket, ...]                  # the one without values first


@dataclass
class _Known:
    """The counts since `made`; they are valid as long as `forgotten` does not change."""

    forgotten: int
    made: float
    cuts: dict[tuple[str, str], _Cut] = field(default_factory=dict)              # by order and age
    counts: dict[Hashable, tuple[int, ...]] = field(default_factory=dict)        # of settled rows


class CountCache:
    """The cached counts of one table, for several threads, each with its own transaction."""

    def __init__(self, model: Any, clock: Callable[[], float] = time.monotonic, *, changes: Any = None) -> None:
        """`changes`: the condition for rows that may still change, whatever their age."""
        self._model = model
        self._clock = clock
        self._changes = changes
        self._known = _Known(-1, 0.0)

    def count(self, where: Any, shape: Hashable, forgotten: int, *, by: str, age: str) -> Counted:
        """Count the rows that `where` selects, in the order `by`; in the order of `age` if too many of them may change.

        `shape` identifies `where`, which must not use columns that change in rows settled by this age."""
        known = self._known
        if known.forgotten != forgotten or self._clock() - known.made > MOST_AGE:
            known = self._known = _Known(forgotten, self._clock())
        # Another thread may do the same now; `setdefault` makes all threads use the same buckets.
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
        """Return the condition for the rows of a bucket."""
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
        found = self._read("rows", fn.COUNT(self._model.f_job_id), condition, where)
        return int(found[0][0])

    def _read(self, name: str, column: Any, condition: Any, where: Any) -> list[tuple[Any, ...]]:
        """Return a column of the rows that both conditions select; `name` identifies the column."""

        def query() -> Any:
            return self._model.select(column).where(condition if where is None else condition & where)

        database = self._model._meta.database
        text, values = select_text(database, (self._model, name), (condition, where), (), query)
        return list(database.execute_sql(text, values).fetchall())

    def _unsettled(self, where: Any, cut: _Cut) -> Mapping[int, int]:
        """Return the number of rows that are not settled, by the place of their bucket."""
        moment = getattr(self._model, cut.age)
        begins = [one.low or 0 for one in cut.buckets[1:]]
        if cut.by == cut.age:
            young = range(max(1, bisect_right(begins, cut.settled)), len(cut.buckets))
            in_buckets = {
                place: self._rows(where, self.within(cut.by, cut.buckets[place]) & (moment >= cut.settled))
                for place in young
            }
            return Counter({0: self._rows(where, moment.is_null()), **in_buckets})
        conditions = [moment >= cut.settled, moment.is_null()]       # separate, so that each one can use an index
        if cut.late:
            conditions.append(self._model.f_job_id.in_(cut.late) & (moment < cut.settled))
        found: Counter[int] = Counter()
        for condition in conditions:
            values = self._read(cut.by, getattr(self._model, cut.by), condition, where)
            found.update(0 if value is None else bisect_right(begins, value) for (value,) in values)
        return found

    def _bounds(self, by: str) -> Iterator[int]:
        """Yield the lower bounds of the buckets of the whole table."""
        value = getattr(self._model, by)
        bound: int | None = 0
        while bound is not None:
            yield bound
            ahead = (
                self._model.select(value).where(value >= bound).order_by(value).limit(1).offset(BUCKET_ROWS).scalar()
            )
            if ahead is not None and ahead == bound:               # more rows than a bucket have this value
                ahead = self._model.select(fn.MIN(value)).where(value > bound).scalar()
            bound = ahead
