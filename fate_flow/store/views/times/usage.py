"""The query of the board about what was reserved when: it is in the rows of jobs, so nothing more is written for it."""

from __future__ import annotations

from peewee import Select

from fate_flow.core.values.dataclass import dataclass
from fate_flow.store.database.models import JobRow

MOST_ENDED = 5_000
"""Jobs that have ended of which one request reads the reservation, the newest."""


@dataclass(frozen=True)
class Reservation:
    """What a job had reserved here, from when to when. `end` 0: it still has it. Times are milliseconds since 1970."""

    start: int
    end: int
    cores: int
    memory: int                  # MB


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
