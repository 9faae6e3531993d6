"""All that the initiator knows of a job at one moment, and the words in which plans speak of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.job import Command, CommandKind, Job, Seat, Task
from fate_flow.core.model.spec import JobSpec, Party
from fate_flow.core.model.status import SeatStatus
from fate_flow.core.planning.actions import Send


@dataclass(frozen=True)
class JobView:
    """All the initiator knows of one job at one moment."""

    job: Job
    spec: JobSpec
    seats: tuple[Seat, ...]
    tasks: tuple[Task, ...]          # the newest version of each, at every party
    now: int                         # steady time in milliseconds, handed in, never asked for
    fresh_id: str                    # a random id that a new incarnation may take
    failed_workers: int = 0          # in this run, over all tasks and parties, where the job bounds them
    may_begin_round: bool = False    # the queue lets it ask for cores
    drain_milliseconds: int = 60_000
    retry_milliseconds: int = 2_000
    long_backoff_milliseconds: int = 30_000      # a job that runs nothing for longer gives its cores back
    has_workers: bool = False        # of a job that ends for a lost party: some worker of this party still lives


def others(view: JobView) -> tuple[Seat, ...]:
    return tuple(seat for seat in view.seats if seat.party != view.job.party)


def is_here(view: JobView, seat: Seat) -> bool:
    return seat.party.party_id == view.job.party.party_id


def seats_in(view: JobView, status: SeatStatus) -> list[Seat]:
    return [seat for seat in view.seats if seat.status is status]


def rows_by_name(view: JobView) -> dict[str, tuple[Task, ...]]:
    found: dict[str, list[Task]] = {name: [] for name in view.spec.tasks}
    for task in view.tasks:
        found[task.key.name].append(task)
    return {name: tuple(rows) for name, rows in found.items() if rows}


def leads(view: JobView) -> tuple[Task, ...]:
    """One row a task, to read its federated status from: it is the same in all of them."""
    return tuple(rows[0] for rows in rows_by_name(view).values())


def send(
    view: JobView, seat: Seat, kind: CommandKind, argument: str = "", body: Mapping[str, Any] | None = None
) -> Send:
    return Send(Command(kind, view.job.job_id, seat.party, view.job.run, argument=argument, body=body or {}))


def task_command(
    view: JobView, row: Task, kind: CommandKind, argument: str = "", more: Mapping[str, Any] | None = None
) -> Command:
    body = {"incarnation": row.incarnation, **(more or {})}
    key = row.key
    return Command(kind, key.job_id, key.party, view.job.run, key.name, key.version, argument, body)


def plain_v1_parties(view: JobView) -> frozenset[Party]:
    """Those that speak plain v1 only."""
    return frozenset(seat.party for seat in view.seats if seat.is_plain_v1)
