"""When a job that another party has refused asks again, although nobody has said that there is capacity."""

from __future__ import annotations

from fate_flow.core.model.job import Answer, TaskKey, Worker
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.status import JobStatus, WorkerStatus
from fate_flow.core.planning.queue import Place, Waiting
from fate_flow.services.scheduling.events import QueueChanged
from fate_flow.services.scheduling.queue_rounds import _OwnCapacity
from tests.kit.job_documents import job
from tests.kit.services.hand_scheduler import RULES, Process, chosen, holding, job_of, release, submit
from tests.kit.services.hand_server import HandServer
from tests.kit.values import GUEST, JOB_ID

PAUSE = RULES.retry_wait / 1000
FULL = Answer(103, "failed", {"why": "has 0 of 4 cores free, 2 asked", "free_cores": 0})
OTHER_JOB = "2027010112000000000001"


def refused(names: tuple[str, ...] = (JOB_ID,)) -> Process:
    """Each job was refused by a host of its own, and another job holds all cores of this party since."""
    process = chosen(HandServer("9999", cores=4, rules=RULES))
    for number, name in enumerate(names):
        submit(process, name, job({"guest": ["9999"], "host": [f"1000{number}"]}, cores=2))
        process.scheduler.step([QueueChanged()])
        process.answer(K.CHECK, job_id=name)
        process.answer(K.APPLY, FULL, name)
        assert job_of(process, name).blocked_on == f"1000{number}"
    holding(process, 4)
    process.transport.take()
    return process


def looks(process: Process, pauses: float) -> list[str]:
    """Time passes, and what is due is looked at; return what was sent."""
    process.seconds += pauses * PAUSE
    process.scheduler.fire_alarms()
    process.scheduler.poll()
    return [one.kind.value for one in process.transport.take()]


def test_it_asks_when_there_is_capacity_at_home_also_long_after_its_time() -> None:
    process = refused()
    assert looks(process, 2) == []
    release(process)
    assert looks(process, 0) == ["dependence/check", "resource/apply"]


def test_there_is_capacity_for_as_many_as_the_free_cores_can_hold_in_order() -> None:
    process = refused((JOB_ID, OTHER_JOB))
    release(process)
    holding(process, 2, "20250101120002")
    process.seconds += 2 * PAUSE
    process.scheduler.poll()
    assert {one.job_id for one in process.transport.take()} == {JOB_ID}


def test_a_job_that_does_not_say_on_which_engine_it_runs_takes_from_the_one_with_the_most_free_cores() -> None:
    """As one that was created when this party had one engine."""
    server = HandServer("9999", engines={"local": 4, "other": 2}, rules=RULES)
    with server.unit() as unit:
        capacity = _OwnCapacity(unit, lambda job_id: {Place("9999"): int(job_id)})
        assert [capacity.takes(Waiting(cores, 0, ())) for cores in ("3", "3", "2", "2", "1")] == [
            True, False, True, False, True,
        ]  # fmt: skip


def test_what_elastic_workers_would_give_up_is_capacity() -> None:
    process = refused()
    with process.server.store.transaction() as tx:
        task = TaskKey(JOB_ID, "a", 0, GUEST)
        tx.add_worker(Worker("w", task, WorkerStatus.RUNNING, "local", "", is_elastic=True, cores=2))
    before = job_of(process).round_number
    looks(process, 2)
    assert job_of(process).round_number == before + 1


def test_without_capacity_one_of_them_asks_all_the_same_after_a_long_time_and_then_the_next() -> None:
    process = refused((JOB_ID, OTHER_JOB))
    rounds = [job_of(process, name).round_number for name in (JOB_ID, OTHER_JOB)]
    for pauses, more in ((6.5, [1, 0]), (4, [1, 0]), (1.5, [1, 1])):
        looks(process, pauses)
        now = [job_of(process, name).round_number for name in (JOB_ID, OTHER_JOB)]
        assert [one - before for one, before in zip(now, rounds, strict=True)] == more
    assert job_of(process).status is JobStatus.WAITING
