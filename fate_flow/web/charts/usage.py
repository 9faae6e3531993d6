"""Cores and memory over the last day: the mean of each quarter of an hour that is over.

A quarter that is over does not change any more, so the drawing is made once in each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from fate_flow.core.values.dataclass import dataclass
from fate_flow.store.views.server_state import EngineUse
from fate_flow.store.views.times.usage import Reservation
from fate_flow.web.charts.values import Block, Chart, Line, table_of

QUARTER = 15 * 60_000
QUARTERS = 96
DAY = QUARTER * QUARTERS


@dataclass(frozen=True)
class Usage:
    """The mean of what was reserved in each quarter, the oldest first. `end`: of the last one."""

    end: int
    cores: tuple[float, ...]
    memory: tuple[float, ...]    # MB


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


def usage_blocks(usage: Usage, engines: Sequence[EngineUse]) -> tuple[Block, ...]:
    """Return a chart of cores, and one of memory if any was reserved or is limited."""
    cores, memory = sum(one.cores for one in engines), sum(one.memory for one in engines)
    found = [_block("Cores reserved", "cores", usage.end, usage.cores, cores)]
    if memory or any(usage.memory):
        found.append(_block("Memory reserved", "MB", usage.end, usage.memory, memory))
    return tuple(found) if usage.cores else ()


def _shares(start: int, end: int, first: int) -> Iterator[tuple[int, float]]:
    """Yield the quarters that a time covers, each with which part of it is covered."""
    while start < end:
        at = (start - first) // QUARTER
        until = min(end, first + (at + 1) * QUARTER)
        yield at, (until - start) / QUARTER
        start = until


def _block(title: str, unit: str, end: int, values: Sequence[float], most: int) -> Block:
    hours = [(at - len(values)) / 4 for at in range(len(values) + 1)]
    steps = [(x, value) for at, value in enumerate(values) for x in hours[at : at + 2]]
    lines = [Line("reserved, mean of 15 minutes", tuple(steps))]
    if most:
        lines.append(Line("all of this party now", ((hours[0], float(most)), (0.0, float(most)))))
    rows = [(_time(end, hours[first]), _time(end, hours[last]), values[first]) for first, last in _runs(values)]
    note = f"The mean of 15 minutes, up to {datetime.fromtimestamp(end / 1000, UTC):%Y-%m-%d %H:%M} UTC."
    chart = Chart("hours", unit, tuple(lines), is_from_zero=True)
    return Block(title, table_of(("from (UTC)", "to", unit), rows, is_end=True), chart, note)


def _runs(values: Sequence[float]) -> Iterator[tuple[int, int]]:
    """Yield the beginning and the end of each run of equal values."""
    first = 0
    for at in range(1, len(values) + 1):
        if at == len(values) or values[at] != values[first]:
            yield first, at
            first = at


def _time(end: int, hours: float) -> str:
    return f"{datetime.fromtimestamp(end / 1000 + hours * 3600, UTC):%m-%d %H:%M}"
