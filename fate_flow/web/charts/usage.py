"""Cores and memory over the last day: the mean of each quarter of an hour that is over, drawn.

A quarter that is over does not change any more, so the drawing is made once in each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from fate_flow.store.views.server_state import EngineUse
from fate_flow.store.views.times.usage import Usage
from fate_flow.web.charts.values import Block, Chart, Line, table_of


def usage_blocks(usage: Usage, engines: Sequence[EngineUse]) -> tuple[Block, ...]:
    """Return a chart of cores, and one of memory if any was reserved or is limited."""
    cores, memory = sum(one.cores for one in engines), sum(one.memory for one in engines)
    found = [_block("Cores reserved", "cores", usage.end, usage.cores, cores)]
    if memory or any(usage.memory):
        found.append(_block("Memory reserved", "MB", usage.end, usage.memory, memory))
    return tuple(found) if usage.cores else ()


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
