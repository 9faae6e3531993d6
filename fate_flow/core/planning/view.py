"""The initiator's snapshot of a job, from which plans are made, and helpers to read it and to send commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fate_flow.core.model.job import Command, CommandKind, Job, Seat, Task
from fate_flow.core.model.spec import JobSpec, Party
from fate_flow.core.model.status import SeatStatus
from fate_flow.core.planning.actions import Send
from fate_flow.core.wire.v1.task_bodies import of_incarnation


@dataclass(frozen=True)
class JobView:
    """All that the initiator knows of one job at one moment."""

    job: Job
    spec: JobSpec
    seats: tuple[Seat, ...]
    tasks: tuple[Task, ...]          # the newest version of each task, at every party
    now: int                         # steady time in milliseconds; planners never read a clock
    fresh_id: str                    # a random id for the incarnation of a new version
    failed_workers: int = 0          # in this run, over all tasks and parties, if the job limits them
    may_begin_round: bool = False    # the queue allows it a reservation round
    drain_milliseconds: int = 60_000
    retry_milliseconds: int = 2_000
    long_backoff_milliseconds: int = 30_000      # a job that runs nothing for longer releases its cores
    has_workers: bool = False        # of a job that ends because of a lost party: this party still has live workers

    @cached_property
    def rows_by_name(self) -> Mapping[str, tuple[Task, ...]]:
        """The rows of each task that has any, in the order of the document. Made once: some ask it for each task."""
        found: dict[str, list[Task]] = {name: [] for name in self.spec.tasks}
        for task in self.tasks:
            found[task.key.name].append(task)
        return {name: tuple(rows) for name, rows in found.items() if rows}


def others(view: JobView) -> tuple[Seat, ...]:
    return tuple(seat for seat in view.seats if seat.party != view.job.party)


def is_here(view: JobView, seat: Seat) -> bool:
    return seat.party.party_id == view.job.party.party_id


def seats_in(view: JobView, status: SeatStatus) -> list[Seat]:
    return [seat for seat in view.seats if seat.status is status]


def leads(view: JobView) -> tuple[Task, ...]:
    """Return one row of each task. Use it for the federated status, which is the same in all rows of the task."""
    return tuple(rows[0] for rows in view.rows_by_name.values())


def send(
    view: JobView, seat: Seat, kind: CommandKind, argument: str = "", body: Mapping[str, Any] | None = None
) -> Send:
    return Send(Command(kind, view.job.job_id, seat.party, view.job.run, argument=argument, body=body or {}))


def task_command(
    view: JobView, row: Task, kind: CommandKind, argument: str = "", more: Mapping[str, Any] | None = None
) -> Command:
    body = of_incarnation(row.incarnation, more or {})
    key = row.key
    return Command(kind, key.job_id, key.party, view.job.run, key.name, key.version, argument, body)


def plain_v1_parties(view: JobView) -> frozenset[Party]:
    """Return the parties that speak plain v1 only."""
    return frozenset(seat.party for seat in view.seats if seat.is_plain_v1)
