"""What the workers of an attempt use: cores and memory over time, beside what is reserved for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fate_flow.core.model.job import Worker
from fate_flow.core.model.resources import Need, WorkerUsage
from fate_flow.web.charts.values import Block, Chart, Line, table_of

MOST_DRAWN = 7
"""Workers in a drawing, the first: each has a line, and what is reserved for each has one more."""


@dataclass(frozen=True)
class UsedBy:
    """A worker, with what it has used. `usage`: None: nothing has measured it. `need`: None: it is not known here."""

    worker: Worker
    usage: WorkerUsage | None
    need: Need | None

    @property
    def name(self) -> str:
        attempt = f", process {self.worker.attempt + 1}" if self.worker.attempt else ""
        return f"worker {self.worker.slot}{attempt}"

    @property
    def mean_cores(self) -> float | None:
        last = self.usage.last if self.usage else None
        return last.processor_seconds / last.seconds if last and last.seconds else None

    @property
    def most_cores(self) -> float | None:
        """The most cores that were busy between two looks; None if there was no look while it lived."""
        if self.usage is None or not self.usage.samples:
            return None
        return max(cores for _, _, cores in self.usage.cores())


def worker_blocks(workers: Sequence[UsedBy]) -> tuple[Block, ...]:
    """Return a chart of cores and one of memory, of the workers at which somebody has looked while they lived."""
    looked_at = [one for one in workers if one.usage is not None and one.usage.samples]
    if not looked_at:
        return ()
    begin = min((one.worker.start_time for one in looked_at if one.worker.start_time), default=0)
    cores, memory = list[tuple[object, ...]](), list[tuple[object, ...]]()
    lines_of_cores, lines_of_memory = list[Line](), list[Line]()
    for one in looked_at:
        assert one.usage is not None
        late = max(0, one.worker.start_time - begin) / 1000      # of some engines, the start is never known
        spans = [(late + start, late + end, busy) for start, end, busy in one.usage.cores()]
        points = [(late + sample.seconds, sample.memory_mb) for sample in one.usage.samples]
        cores += [(one.name, round(start, 1), round(end, 1), round(busy, 2)) for start, end, busy in spans]
        memory += [(one.name, round(at, 1), round(size, 1)) for at, size in points]
        lines_of_cores.append(Line(one.name, tuple((at, busy) for start, end, busy in spans for at in (start, end))))
        lines_of_memory.append(Line(one.name, tuple(points)))
    note = _note(looked_at)
    return (
        Block("Cores", table_of(("worker", "from (s)", "to (s)", "cores"), cores),
              _chart("cores", lines_of_cores, {one.need.cores for one in looked_at if one.need}), note),
        Block("Memory", table_of(("worker", "after (s)", "MB"), memory),
              _chart("MB", lines_of_memory, {one.need.memory_mb for one in looked_at if one.need}), note),
    )  # fmt: skip


def _chart(unit: str, lines: Sequence[Line], reserved: set[int]) -> Chart:
    drawn = list(lines[:MOST_DRAWN])
    if len(reserved) == 1 and (each := reserved.pop()):
        last = max(at for line in drawn for at, _ in line.points)
        drawn.append(Line("reserved for each", ((0.0, float(each)), (last, float(each)))))
    return Chart("seconds since the first of them was started", unit, tuple(drawn), is_from_zero=True)


def _note(looked_at: Sequence[UsedBy]) -> str:
    if len(looked_at) <= MOST_DRAWN:
        return ""
    return f"The drawing has the first {MOST_DRAWN} of {len(looked_at)} workers of this page; the table has all."
