"""The rows of each party as its last commit has left them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, TypeVar

from fate_flow.core.model.job import Claim, EngineState, Job, JobKey, Seat, Task, TaskKey, Worker
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import WorkerStatus
from tests.simulation.world.stores import Changes

if TYPE_CHECKING:
    from tests.simulation.world.party import SimParty
    from tests.simulation.world.world import World

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

BY_POLICY = (Reason.FAILED_BY_POLICY, Reason.STOPPED_BY_POLICY, Reason.COMPLETED_BY_POLICY)


class Seen:
    """The rows of one party when they were looked at last."""

    def __init__(self) -> None:
        self.jobs: dict[JobKey, Job] = {}
        self.held: dict[JobKey, Claim] = {}   # by those of them that hold something
        self.tasks: dict[TaskKey, Task] = {}
        self.newest: dict[tuple[str, str, Party], int] = {}        # the version of a task that was made last
        self.seats: dict[tuple[str, Party], Seat] = {}
        self.engines: dict[str, EngineState] = {}
        self.devices: dict[str, Worker] = {}  # the workers that have some and have not exited, by id
        self.elastic: dict[str, Worker] = {}  # those that have not exited, by id
        self.begun: set[str] = set()          # of them those that the last commit has added
        self.is_dirty = True                  # the books have to be balanced again

    def take(self, changes: Changes) -> None:
        self.is_dirty = self.is_dirty or bool(changes.jobs)
        self._take_workers(changes)
        update(self.jobs, changes.jobs)
        for job_key, job in changes.jobs.items():
            if job is not None and job.claim.token:
                self.held[job_key] = job.claim
            else:
                self.held.pop(job_key, None)
        update(self.tasks, changes.tasks)
        for key, task in changes.tasks.items():
            maker = (key.job_id, key.name, key.party)
            if task is not None and key.version >= self.newest.get(maker, 0):
                self.newest[maker] = key.version
        update(self.seats, changes.seats)

    def _take_workers(self, changes: Changes) -> None:
        self.begun = set()
        for worker_id, worker in changes.workers.items():
            if worker is not None and worker.devices and worker.status is not WorkerStatus.EXITED:
                self.devices[worker_id] = worker
            else:
                self.devices.pop(worker_id, None)
            if worker is not None and worker.is_elastic and worker.status is not WorkerStatus.EXITED:
                self.begun |= {worker_id} - self.elastic.keys()
                self.elastic[worker_id] = worker
                self.is_dirty = True
            elif self.elastic.pop(worker_id, None) is not None:
                self.is_dirty = True


class Rules:
    """What the rules of one world share: its rows as of the last commits, and the way to report a breach."""

    def __init__(self, world: World, rows: dict[str, Seen]) -> None:
        self._world = world
        self._seen = rows

    def seen(self, party: SimParty) -> Seen:
        """All rows of this party, as they were at its last commit."""
        return self._seen.setdefault(party.party_id, Seen())

    def _fail(self, message: str) -> None:
        self._world.fail(message)


def present(seen: Mapping[K, V], changes: Mapping[K, V | None]) -> dict[K, V]:
    """The rows as they are after these changes."""
    found = dict(seen)
    update(found, changes)
    return found


def update(rows: dict[K, V], changes: Mapping[K, V | None]) -> None:
    for key, row in changes.items():
        if row is None:
            rows.pop(key, None)
        else:
            rows[key] = row
