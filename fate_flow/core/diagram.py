"""Mermaid state diagrams made from the move tables: `python -m fate_flow.core.diagram`."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from enum import Enum
from typing import TypeVar

from fate_flow.core.model.status import JOB_END, JOB_MOVES, SEAT_MOVES, TASK_END, TASK_MOVES, WORKER_MOVES, SeatStatus

S = TypeVar("S", bound=Enum)


def all_diagrams() -> str:
    """Return one Markdown section with a diagram for each state machine; equal tables give equal text."""
    seat_end = {SeatStatus.REFUSED, SeatStatus.LEFT, SeatStatus.UNCONFIRMED}
    return "\n".join((
        _section("Job", diagram(JOB_MOVES, JOB_END)),
        _section("Task", diagram(TASK_MOVES, TASK_END)),
        _section("Seat", diagram(SEAT_MOVES, seat_end)),
        _section("Worker", diagram(WORKER_MOVES)),
    ))


def diagram(moves: Mapping[S, Collection[S]], ends: Collection[S] = ()) -> str:
    """Return the Mermaid text of one move table, in the order in which the statuses are declared.

    `ends` are statuses that count as final although the table has moves out of them."""
    declared = list(type(next(iter(moves))))
    lines = ["stateDiagram-v2", f"    [*] --> {declared[0].value}"]
    for old in declared:
        lines += [f"    {old.value} --> {new.value}" for new in declared if new in moves[old]]
        lines += [f"    {old.value} --> [*]"] if old in ends or not moves[old] else []
    return "\n".join(lines)


def _section(title: str, text: str) -> str:
    return f"### {title}\n\n```mermaid\n{text}\n```\n"


if __name__ == "__main__":
    sys.stdout.write(all_diagrams())
