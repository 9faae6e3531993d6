"""A fake engine: workers that live on when their server dies, seen through what they left in their folders.

It may place its workers as a cluster does (`gathers`): they arrive late, and those of a gang wait for each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from fate_flow.core.model.job import TaskKey, Worker, WorkerPlace
from fate_flow.services.context.ports import LaunchOrder, Observation, TaskOutputs
from tests.kit.services.sights import a_table

if TYPE_CHECKING:
    from tests.simulation.world.party import SimParty

_LONGEST_KILL = 5_000       # milliseconds from SIGKILL until a process that hangs in the kernel has gone
_SLOW_STOP = 1_000
_PLACE = WorkerPlace(1)
_NEVER = 10**15
_LONGEST_TO_ARRIVE, _LONGEST_TO_GATHER = 3_000, 20_000


@dataclass
class FakeWorker:
    order: LaunchOrder
    started_at: int
    ends_at: int
    succeeds: bool
    is_killed: bool = False       # by somebody else: no result
    is_stopped: bool = False      # because its server said so
    is_lost: bool = False         # and its runner with it: nothing was left that says how it ended
    arrives_at: int = 0           # where it waits for its gang; it has begun at `started_at`
    is_alone: bool = False        # it has waited for its gang in vain

    @property
    def task(self) -> TaskKey:
        return self.order.worker.task

    @property
    def slot(self) -> int:
        return self.order.worker.slot

    @property
    def is_good(self) -> bool:
        return self.succeeds and not (self.is_killed or self.is_stopped or self.is_lost)


class FakeEngine:
    """The workers of one party, whichever process of it ordered them."""

    def __init__(self, party: SimParty) -> None:
        self._party = party
        self._world = party.world
        self.workers: dict[str, FakeWorker] = {}
        self._never: set[str] = set()       # handles with an order to stop that came first
        self.gathers = False

    def handle_for(self, key: TaskKey, worker_id: str) -> str:
        return f"/{self._party.party_id}/{key.task_id}/{key.version}/{worker_id}"

    def launch(self, order: LaunchOrder) -> None:
        handle = order.worker.handle
        if handle in self.workers or handle in self._never:
            return
        world, faults = self._world, self._world.faults
        begin = world.now + world.random.randint(1, 30)
        worker = FakeWorker(order, begin, begin + world.length_of(order), True)
        worker.succeeds = not world.chance(faults.fail_task)
        worker.is_killed = worker.succeeds and world.chance(faults.kill_worker)
        if not worker.succeeds or worker.is_killed:
            world.inject("task fails" if not worker.succeeds else "worker killed", str(worker.task))
        self.workers[handle] = worker
        if self.gathers and order.gathers:
            self._place(worker)
            return
        world.at(begin, lambda: self._begun(worker))
        world.at(worker.ends_at, lambda: self._wake(worker))

    def _place(self, worker: FakeWorker) -> None:
        world = self._world
        worker.started_at = worker.ends_at = _NEVER
        worker.arrives_at = world.now + world.random.randint(1, _LONGEST_TO_ARRIVE)
        world.at(worker.arrives_at, lambda: self._wake(worker))
        world.at(worker.arrives_at + _LONGEST_TO_GATHER, lambda: self._end_alone(worker))

    def _end_alone(self, worker: FakeWorker) -> None:
        if worker.started_at == _NEVER and not worker.is_lost:
            worker.is_alone, worker.started_at, worker.ends_at = True, self._world.now, self._world.now
            self._wake(worker)

    def release(self, worker: Worker) -> None:
        found, world = self.workers.get(worker.handle), self._world
        if found is None or found.started_at != _NEVER or found.is_lost:
            return
        self._check_gang(found)
        found.started_at = world.now + world.random.randint(1, 30)
        found.ends_at = found.started_at + world.length_of(found.order)
        world.at(found.started_at, lambda: self._begun(found))
        world.at(found.ends_at, lambda: self._wake(found))

    def _check_gang(self, worker: FakeWorker) -> None:
        """A worker that waits for its gang begins when a worker of each other party has arrived, or has begun."""
        there = {
            (one.task.party.role, one.task.party.party_id)
            for party in self._world.parties.values() for one in party.engine.workers.values()
            if one.order.incarnation == worker.order.incarnation and one.task.name == worker.task.name
            and (one.arrives_at or one.started_at) <= self._world.now
        }  # fmt: skip
        if missing := set(worker.order.parties) - there:
            self._world.fail(f"a worker of {worker.task} begins before its gang is there: {sorted(missing)}")
        self._world.inject("gang begins", str(worker.task))

    def _begun(self, worker: FakeWorker) -> None:
        if worker.is_lost or worker.ends_at <= self._world.now:
            return
        self._world.invariants.worker_begins(self._party, worker, self.living())
        self._wake(worker)

    def _wake(self, worker: FakeWorker) -> None:
        self._party.worker_changed(worker.order.worker.worker_id)

    def observe(self, worker: Worker) -> Observation:
        found = self.workers.get(worker.handle)
        now = self._world.now
        if worker.handle in self._never:
            return Observation("exited", cause="stopped")
        if found is not None and found.is_lost:
            return Observation("lost", _PLACE)
        if found is not None and found.started_at == _NEVER:
            has_arrived = now >= found.arrives_at
            return Observation("created", is_placed=True, waits="waits in Slurm: Priority", has_arrived=has_arrived)
        if found is None or now < found.started_at:
            return Observation("created")
        return Observation("running", _PLACE) if now < found.ends_at else _how_it_ended(found)

    def stop(self, worker: Worker, grace_seconds: float) -> None:
        found = self.workers.get(worker.handle)
        now = self._world.now
        if found is None:
            self._never.add(worker.handle)
            self._world.at(now, lambda: self._party.worker_changed(worker.worker_id))
        elif found.started_at == _NEVER and not found.is_lost:
            found.is_stopped, found.started_at, found.ends_at = True, now, now
            self._world.at(now, lambda: self._wake(found))
        elif now < found.ends_at and not found.is_stopped:
            found.is_stopped = True
            longest = min(self._world.longest_stop, int(grace_seconds * 1000) + _LONGEST_KILL)
            takes = self._world.random.randint(1, longest)
            if takes > _SLOW_STOP:
                self._world.inject("slow to stop", str(found.task))
            found.ends_at = max(now, found.started_at) + takes
            self._world.at(found.ends_at, lambda: self._wake(found))

    def forget(self, worker: Worker) -> None:
        found = self.workers.get(worker.handle)
        assert found is None or found.ends_at <= self._world.now, f"{worker} still runs"

    def lose_all(self) -> None:
        """The machine loses its power: workers and runners are gone at once."""
        for worker in self.workers.values():
            if self._world.now < worker.ends_at:
                worker.is_lost, worker.ends_at = True, self._world.now

    def request_force_stop(self) -> None:
        """What runs has little left to do."""
        soon = self._world.now + self._world.longest_task
        for worker in self.workers.values():
            if worker.ends_at > soon and worker.started_at != _NEVER:
                worker.ends_at = max(soon, worker.started_at + 1)
                self._world.at(worker.ends_at, partial(self._wake, worker))

    def living(self) -> list[FakeWorker]:
        now = self._world.now
        return [one for one in self.workers.values() if one.started_at <= now < one.ends_at]


def _how_it_ended(found: FakeWorker) -> Observation:
    if found.is_alone:
        return Observation("exited", cause="not_placed", message="waited for the others of its gang")
    if found.is_stopped:
        return Observation("exited", _PLACE, "stopped", None, 15)
    if found.is_killed:
        return Observation("exited", _PLACE, "exited", None, 9)
    if not found.succeeds and found.started_at % 3 == 0:
        return Observation("exited", _PLACE, "exited", None, 11)
    if not found.succeeds:
        return Observation("exited", _PLACE, "exited", 1, None, False, "it went wrong")
    key = found.task
    outputs = TaskOutputs((a_table(f"{key.task_id}_{key.version}", count=1),))
    return Observation("exited", _PLACE, "exited", 0, None, True, "", outputs)
