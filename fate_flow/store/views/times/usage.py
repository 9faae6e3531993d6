"""What was reserved when: it is in the rows of jobs, so nothing more is written for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from peewee import Select

from fate_flow.store.database.models import JobRow

QUARTER = 15 * 60_000
QUARTERS = 96
DAY = QUARTER * QUARTERS
MOST_ENDED = 5_000
"""Jobs that have ended of which one request reads the reservation, the newest."""


@dataclass(frozen=True)
class Reservation:
    """What a job had reserved here, from when to when. `end` 0: it still has it. Times are milliseconds since 1970."""

    start: int
    end: int
    cores: int
    memory: int                  # MB


@dataclass(frozen=True)
class Usage:
    """The mean of what was reserved in each quarter, the oldest first. `end`: of the last one."""

    end: int
    cores: tuple[float, ...]
    memory: tuple[float, ...]    # MB

    @property
    def quarters(self) -> list[tuple[int, float, float]]:
        """The begin of each quarter, with cores and memory."""
        first = self.end - len(self.cores) * QUARTER
        return [(first + at * QUARTER, *both) for at, both in enumerate(zip(self.cores, self.memory, strict=True))]


def reservations_since(since: int) -> tuple[tuple[Reservation, ...], int]:
    """Return the last reservation of each job that has one, or that has ended since then and had one; and from which
    time on none is missing, which is later than `since` if more jobs have ended than are read."""
    row = JobRow
    columns = (row.f_apply_resource_time, row.f_return_resource_time, row.f_cores, row.f_memory, row.f_end_time)
    had = row.f_apply_resource_time.is_null(False)
    ended = row.select(*columns).where((row.f_end_time > since) & (row.f_resource_in_use == False) & had)  # noqa: E712
    newest = ended.order_by(row.f_end_time.desc()).limit(MOST_ENDED).alias("newest")
    held = row.select(*columns).where((row.f_resource_in_use == True) & had)  # noqa: E712
    names = [getattr(newest.c, column.name) for column in columns]
    rows = list(Select([newest], names).union_all(held).bind(row._meta.database).tuples())
    found = tuple(
        Reservation(start, 0 if over is None else end or over, cores, memory)
        for start, end, cores, memory, over in rows
    )  # fmt: skip
    ends = [over for *_, over in rows if over is not None]
    return found, since if len(ends) < MOST_ENDED else max(since, min(ends))


def end_of_quarters(now: int) -> int:
    """Return the end of the last quarter that is over."""
    return now // QUARTER * QUARTER


def usage_of(reservations: Iterable[Reservation], end: int, complete_from: int) -> Usage:
    """Return the usage until `end`. Quarters that begin before `complete_from` are left out: not all jobs of them were
    read."""
    first = max(end - DAY, -(-complete_from // QUARTER) * QUARTER)
    count = max(0, (end - first) // QUARTER)
    cores, memory = [0.0] * count, [0.0] * count
    for one in reservations:
        for at, share in _shares(max(one.start, first), min(one.end or end, end), first):
            cores[at] += one.cores * share
            memory[at] += one.memory * share
    return Usage(end, tuple(round(one, 2) for one in cores), tuple(round(one, 1) for one in memory))


def _shares(start: int, end: int, first: int) -> Iterator[tuple[int, float]]:
    """Yield the quarters that a time covers, each with which part of it is covered."""
    while start < end:
        at = (start - first) // QUARTER
        until = min(end, first + (at + 1) * QUARTER)
        yield at, (until - start) / QUARTER
        start = until
