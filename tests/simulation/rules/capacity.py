"""The rules for what a party has, holds and promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from fate_flow.core.model.job import Claim, Command, EngineState, Job, JobKey, Worker
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.resources import LOCAL
from fate_flow.core.model.status import JobStatus, WorkerStatus
from fate_flow.core.planning.elastic import held_by
from fate_flow.core.planning.queue import fits
from fate_flow.services.context.ports import LaunchOrder
from tests.simulation.rules.rows import Rules, Seen
from tests.simulation.world.stores import Changes

if TYPE_CHECKING:
    from tests.simulation.world.engine import FakeWorker
    from tests.simulation.world.party import SimParty
    from tests.simulation.world.world import World



class CapacityRules(Rules):
    """The books balance, elastic workers give way, and capacity notices promise no more than there is."""

    def __init__(self, world: World, rows: dict[str, Seen]) -> None:
        super().__init__(world, rows)
        self._checked: Counter[tuple[str, JobKey, int]] = Counter()

    def check_books(self, party: SimParty, seen: Seen) -> None:
        """On each engine, what is in use and what remains are all there is."""
        engines = {name: party.books.engine(name) for name in party.sizes}
        if engines == seen.engines and not seen.is_dirty:
            return
        seen.engines, seen.is_dirty = engines, False
        self._check_devices(party, seen)
        elastic = [(one.engine, held_by(one)) for one in seen.elastic.values()]
        held = [*(part for one in seen.held.values() for part in one.by_engine().items()), *elastic]
        for name, engine in engines.items():
            claims = [claim for there, claim in held if there == name]
            cores, memory = sum(one.cores for one in claims), sum(one.memory for one in claims)
            gpus = sum(one.gpus for one in claims)
            used = (engine.cores - engine.remaining_cores, engine.memory - engine.remaining_memory,
                    engine.gpus - engine.remaining_gpus)
            if used != (cores, memory, gpus):
                self._fail(
                    f"books of party {party.party_id}: {engine} and {cores} cores, {memory} MB, {gpus} GPUs held"
                )
            least = min(engine.remaining_cores, engine.remaining_memory, engine.remaining_gpus)
            if least < 0 and not party.was_shrunk:
                self._fail(f"more reserved than there is at party {party.party_id}: {engine}")

    def _check_devices(self, party: SimParty, seen: Seen) -> None:
        """No two workers have the same device at once."""
        given = Counter((one.engine, device) for one in seen.devices.values() for device in one.devices)
        self._world.acted["devices shared out"] += len(given)
        twice = [device for device, count in given.items() if count > 1]
        if twice:
            self._fail(f"two workers of party {party.party_id} have {twice}")

    def check_needs(self, party: SimParty, worker: FakeWorker, living: Iterable[FakeWorker], job: Job | None) -> None:
        """The tasks of a job that run at once on an engine need no more than it has reserved there. Workers of programs
        share the need of their task, rounded up, and some hold what they need themselves."""
        if job is None or not job.holds or worker.is_stopped:
            return
        theirs = [
            one.order for one in (worker, *(other for other in living if other is not worker))
            if (one.task.job_id, one.task.party) == (job.job_id, job.party) and one.order.program is None
        ]  # fmt: skip
        there = job.claim.by_engine()
        for engine in {one.worker.engine for one in theirs}:
            needs = [_need(one) for one in theirs if one.worker.engine == engine]
            needed = [sum(amounts) for amounts in zip(*needs, strict=True)]
            held = _amount(there.get(engine, Claim()))
            if any(need > amount for need, amount in zip(needed, held, strict=True)):
                self._fail(f"tasks of {job.key} need {needed} at once on {engine}, it has reserved {held} there")
        if len({_need(one) for one in theirs}) > 1:
            self._world.acted["unequal tasks at once"] += 1
        self._world.acted["tasks beside their jobs"] += worker.order.worker.engine != job.claim.engine

    def check_elastic(
        self, party: SimParty, seen: Seen, changes: Changes, refused: set[JobKey], has_released: bool
    ) -> None:
        """They begin while nobody waits for capacity, and a job that waits for no more than they hold has them go."""
        if not (changes.workers or refused):
            return
        written = [one for one in changes.workers.values() if one is not None and one.is_elastic]
        begun = [one for one in written if one.worker_id in seen.begun]
        self._world.acted["elastic workers begun"] += len(begun)
        self._world.acted["elastic workers lent"] += sum(
            one.reason is Reason.CORES_LENT and one.status is WorkerStatus.EXITED for one in written
        )
        if begun:
            self._check_nobody_waits(party, seen, refused)
        if has_released or any(one.status is WorkerStatus.EXITED for one in written):
            return        # what has come back since the refusal counts when the job asks again
        for key in refused:
            self._check_made_way(party, seen, seen.jobs[key], seen.elastic.values())

    def _check_nobody_waits(self, party: SimParty, seen: Seen, refused: set[JobKey]) -> None:
        with party.store.reading() as tx:
            newest = tx.steady() - 4 * self._world.rules.retry_wait
        for job in seen.jobs.values():
            waits = (
                job.status is JobStatus.WAITING and not job.holds and job.pending.since and job.pending.asked > newest
            )
            if waits and job.key not in refused:
                self._fail(
                    f"an elastic worker begins at party {party.party_id}, and {job.key} waits for capacity there"
                )

    def _check_made_way(self, party: SimParty, seen: Seen, job: Job, elastic: Iterable[Worker]) -> None:
        short = [name for name, asked in asked_of(job).items() if not fits(asked, seen.engines[name].free)]
        could, does = [], []
        for name in short:
            engine, held = seen.engines[name], [one for one in elastic if one.engine == name]
            seats = (one for one in seen.jobs.values() if one.job_id == job.job_id and not one.holds)
            needed = _amounts(asked_of(one).get(name, Claim()) for one in seats)
            could.append(_is_enough(engine, needed, [_amount(held_by(one)) for one in held]))
            does.append(_is_enough(engine, needed, [_amount(held_by(one)) for one in held if one.is_stopping]))
        if short and all(could) and not all(does):
            self._fail(f"{job.key} was refused for what elastic workers of party {party.party_id} hold, and they stay")

    def sends_capacity_notices(self, party: SimParty, notifier: str, hints: Sequence[Command]) -> None:
        """Only jobs of others that wait for capacity here are told of it, no more than fit, each once until it asks
        again.

        `teller`: the life of the process that tells; the next one does not know whom it told."""
        engines, promised = self.seen(party).engines, Counter[str]()
        for hint in hints:
            if hint.id:
                self._fail(f"that there is capacity for {hint.job_id} was stored in the outbox")
            for row in (one for one in self.seen(party).jobs.values() if one.job_id == hint.job_id):
                self._check_notices(notifier, row, hint)
                for name, asked in asked_of(row).items():
                    for what, amount in zip(("cores", "memory", "gpus"), _amount(asked), strict=True):
                        promised[f"{name} {what}"] += amount
        for name, engine in engines.items():
            free = {"cores": engine.remaining_cores, "memory": engine.remaining_memory, "gpus": engine.remaining_gpus}
            if any(promised[f"{name} {what}"] > max(0, free[what]) for what in free):
                self._fail(f"party {party.party_id} told of more capacity than it has: {promised}, {engine}")

    def _check_notices(self, notifier: str, row: Job, hint: Command) -> None:
        if row.holds or row.status is not JobStatus.WAITING or row.is_initiator or row.initiator != hint.to:
            self._fail(f"{row.key} was told of capacity: {row.status.value}, held {row.claim.cores}, told {hint.to}")
        self._checked[notifier, row.key, row.pending.asked] += 1
        # twice in a moment that the clock does not tell apart
        if self._checked[notifier, row.key, row.pending.asked] > 2:
            self._fail(f"{row.key} was told of capacity again and again, and has not asked since")


def asked_of(job: Job) -> dict[str, Claim]:
    """What a seat asks of each engine."""
    return job.asked.by_engine(LOCAL)


def _need(order: LaunchOrder) -> tuple[int, int, int]:
    return order.need.cores, order.need.memory_mb, order.need.gpus


def _amount(claim: Claim) -> tuple[int, int, int]:
    return claim.cores, claim.memory, claim.gpus


def _amounts(claims: Iterable[Claim]) -> tuple[int, int, int]:
    listed = [_amount(one) for one in claims]
    return sum(one[0] for one in listed), sum(one[1] for one in listed), sum(one[2] for one in listed)


def _is_enough(
    engine: EngineState, needed: tuple[int, int, int], more: Sequence[tuple[int, int, int]]
) -> bool:  # fmt: skip
    """Whether there is so much once all of this has come back."""
    left = (engine.remaining_cores, engine.remaining_memory, engine.remaining_gpus)
    back = [sum(one[number] for one in more) for number in range(3)]
    return all(not want or want <= rest + come for want, rest, come in zip(needed, left, back, strict=True))


def refused(seen: Seen, changes: Changes) -> set[JobKey]:
    """The seats that this party has just had no capacity for."""
    found = set()
    for key, job in changes.jobs.items():
        before = seen.jobs.get(key)
        is_asked = job is not None and before is not None and job.pending.asked != before.pending.asked
        if job is not None and is_asked and job.pending.since and job.status is JobStatus.WAITING and not job.holds:
            found.add(key)
    return found


def has_released(seen: Seen, changes: Changes) -> bool:
    """Whether some job has given back what it held."""
    held = {key: seen.jobs[key].claim.token for key in changes.jobs if key in seen.jobs and seen.jobs[key].holds}
    return any((job := changes.jobs[key]) is None or job.claim.token != token for key, token in held.items())
