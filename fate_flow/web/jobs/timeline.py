"""The time that each part of a job took, from its history: bars on one scale, and the same as rows of a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fate_flow.core.model.history import HistoryEntry, HistoryLevel
from fate_flow.core.model.status import JOB_END, TASK_END

WIDTH = 1000
_LEAST = 3                   # units of the width: a bar is always to be seen
_ENDS = {status.value for status in JOB_END} | {status.value for status in TASK_END}


@dataclass(frozen=True)
class Bar:
    what: str                    # whose: a seat of the job, or a task and a party
    attempt: int
    status: str                  # during this time
    start: int                   # milliseconds since 1970
    end: int
    x: int = 0                   # on the scale of the drawing
    width: int = 0


def timeline_of(entries: Iterable[HistoryEntry]) -> tuple[Bar, ...]:
    """Return a bar for each status of the seats of the job and of the shares of tasks, in order of their begin."""
    opened: dict[tuple[str, int], HistoryEntry] = {}
    bars: list[Bar] = []
    last = 0
    for entry in entries:
        last = max(last, entry.at)
        if entry.level not in (HistoryLevel.JOB, HistoryLevel.PARTY_TASK) or entry.old == entry.new:
            continue
        key = (_name(entry), entry.version)
        before = opened.pop(key, None)
        if before is not None:
            bars.append(Bar(*key, before.new, before.at, max(entry.at, before.at)))
        if entry.new not in _ENDS:
            opened[key] = entry
    bars += [Bar(*key, entry.new, entry.at, max(last, entry.at)) for key, entry in opened.items()]
    bars.sort(key=lambda bar: (bar.start, bar.what, bar.attempt))
    return tuple(_scaled(bars))


def _name(entry: HistoryEntry) -> str:
    return f"{entry.task} at {entry.party}" if entry.level is HistoryLevel.PARTY_TASK else f"job at {entry.party}"


def _scaled(bars: list[Bar]) -> Iterable[Bar]:
    if not bars:
        return
    first, last = min(bar.start for bar in bars), max(bar.end for bar in bars)
    span = max(1, last - first)
    for bar in bars:
        x = (bar.start - first) * WIDTH // span
        width = max(_LEAST, (bar.end - bar.start) * WIDTH // span)
        x = min(x, WIDTH - width)
        yield Bar(bar.what, bar.attempt, bar.status, bar.start, bar.end, x, width)
