"""Workers, and how many of a task have failed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.model.job import WorkerEnd, WorkerPlace
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import IllegalMove, JobStatus, TaskStatus, WorkerStatus
from fate_flow.core.planning.actions import MoveJob
from tests.store_contract.cases import (
    DOCUMENT,
    DONE,
    HOST,
    Cases,
    Each,
    a_job,
    a_task,
    a_worker,
    an_engine,
    exited,
    left,
    with_jobs,
    with_tasks,
)


class WorkerCases(Cases):
    def test_a_worker_comes_back_as_it_was_added(self, each: Each) -> None:
        each.add_worker(a_worker(place=WorkerPlace(7), is_stopping=True, start_time=3))
        assert each.worker("w1") == a_worker()
        assert each.worker("w2") is None

    def test_a_worker_is_added_once(self, each: Each) -> None:
        each.add_worker(a_worker())
        with pytest.raises(StorageFailed):
            each.add_worker(a_worker(handle="/other"))
        assert each.worker("w1") == a_worker()

    def test_a_worker_runs_and_exits(self, each: Each) -> None:
        with_tasks(each, a_task())
        each.add_worker(a_worker())
        assert each.move_worker(a_worker(), WorkerStatus.RUNNING, 5, WorkerPlace(4711))
        running = a_worker(status=WorkerStatus.RUNNING, place=WorkerPlace(4711), start_time=5)
        assert each.worker("w1") == running
        assert each.move_worker(a_worker(), WorkerStatus.EXITED, 6, end=DONE) is False
        assert each.move_worker(running, WorkerStatus.EXITED, 6, end=DONE)
        assert each.worker("w1") == exited(running)

    def test_a_handle_is_any_text_and_comes_back_unchanged(self, each: Each) -> None:
        for name, handle in (("w1", "slurm://cluster/4711_3?array=1#ä "), ("w2", "x" * 5_000), ("w3", "")):
            each.add_worker(a_worker(name, handle=handle))
            assert each.worker(name).handle == handle

    def test_an_engine_may_not_know_the_process_of_a_worker(self, each: Each) -> None:
        with_tasks(each, a_task())
        each.add_worker(a_worker())
        assert each.move_worker(a_worker(), WorkerStatus.RUNNING, 5, WorkerPlace(0))
        assert each.worker("w1") == a_worker(status=WorkerStatus.RUNNING, place=WorkerPlace(0), start_time=5)

    def test_a_worker_that_never_ran_exits_without_a_place(self, each: Each) -> None:
        each.add_worker(a_worker())
        assert each.move_worker(a_worker(), WorkerStatus.EXITED, 6, end=DONE)
        assert each.worker("w1") == exited(a_worker())
        assert each.move_worker(a_worker("nobody"), WorkerStatus.EXITED, 6, end=DONE) is False

    def test_unfinished_ones_by_age(self, each: Each) -> None:
        for name, age in (("w3", 1), ("w1", 2), ("w2", 2), ("gone", 0)):
            each.add_worker(a_worker(name, create_time=age))
        each.move_worker(a_worker("gone"), WorkerStatus.EXITED, 5, end=DONE)
        each.move_worker(a_worker("w1"), WorkerStatus.RUNNING, 5)
        assert [worker.worker_id for worker in each.unfinished_workers()] == ["w3", "w1", "w2"]

    def test_those_of_a_job(self, each: Each) -> None:
        each.add_worker(a_worker("w2"))
        each.add_worker(a_worker("w1", a_task(party=HOST)))
        each.add_worker(a_worker("other", a_task(job_id="j2")))
        assert [worker.worker_id for worker in each.workers_of("j1")] == ["w1", "w2"]

    def test_those_of_one_version_of_a_share(self, each: Each) -> None:
        each.add_worker(a_worker("w2", slot=1, rank=None, attempt=3, create_time=2_000))
        each.add_worker(a_worker("w1", rank=4))
        each.add_worker(a_worker("later", a_task(version=1)))
        each.add_worker(a_worker("elsewhere", a_task(party=HOST)))
        each.add_worker(a_worker("other", a_task("b")))
        found = each.workers_of_task(a_task().key)
        assert [(one.worker_id, one.slot, one.rank, one.attempt) for one in found] == [
            ("w1", 0, 4, 0), ("w2", 1, None, 3),
        ]  # fmt: skip
        assert [[one.worker_id for one in each.workers_of_task(a_task().key, slot)] for slot in (0, 1, 2)] == [
            ["w1"], ["w2"], [],
        ]  # fmt: skip

    def test_one_that_ended_says_how(self, each: Each) -> None:
        each.add_worker(a_worker())
        why = WorkerEnd(Reason.WORKER_ERROR, "no data", "host 10000", "exit code 3")
        assert each.move_worker(a_worker(), WorkerStatus.EXITED, 6, end=why)
        assert each.worker("w1") == exited(a_worker(), why)

    def test_none_ends_without_a_reason_and_a_cause(self, each: Each) -> None:
        each.add_worker(a_worker())
        with pytest.raises(IllegalMove):
            each.move_worker(a_worker(), WorkerStatus.EXITED, 6)
        with pytest.raises(StorageFailed):
            each.move_worker(a_worker(), WorkerStatus.EXITED, 6, end=WorkerEnd(Reason.DONE, "", ""))

    def test_why_one_is_to_stop_is_said_once_and_not_of_one_that_has_exited(self, each: Each) -> None:
        for name in ("w1", "w2", "other"):
            each.add_worker(a_worker(name))
        lent = WorkerEnd(Reason.CORES_LENT, "its 2 cores are needed", "host 10000")
        for why in (lent, WorkerEnd(Reason.STOPPED, "", "guest 9999")):
            each.mark_stopping("w1", why)
        why = {"reason": lent.reason, "message": lent.message, "caused_by": lent.caused_by}
        assert each.worker("w1") == a_worker(is_stopping=True, **why)
        each.move_worker(a_worker("w2"), WorkerStatus.EXITED, 6, end=DONE)
        for name in ("w2", "nobody"):
            each.mark_stopping(name, lent)
        assert each.worker("w2") == exited(a_worker("w2"))
        assert each.worker("other") == a_worker("other")

    def test_an_elastic_worker_holds_cores_of_its_own_until_it_has_exited(self, each: Each) -> None:
        each.register_engine(an_engine(cores=4, memory=10), {}, 1)
        elastic = a_worker("e", slot=2, rank=None, is_elastic=True, cores=3, memory=10)
        assert each.add_elastic_worker(elastic)
        assert each.add_elastic_worker(replace(elastic, worker_id="e2", cores=1, memory=1)) is False
        each.add_worker(a_worker("fixed"))
        assert (each.worker("e"), each.worker("e2"), each.elastic_workers()) == (elastic, None, (elastic,))
        assert left(each) == (1, 0)
        running = replace(elastic, status=WorkerStatus.RUNNING, start_time=5)
        assert each.move_worker(elastic, WorkerStatus.RUNNING, 5)
        assert left(each) == (1, 0)
        assert each.move_worker(running, WorkerStatus.EXITED, 6, end=DONE)
        assert each.move_worker(running, WorkerStatus.EXITED, 6, end=DONE) is False
        assert (left(each), each.elastic_workers()) == ((4, 10), ())

    def test_an_elastic_worker_holds_cores_of_its_own_engine(self, each: Each) -> None:
        for name in ("local", "slurm"):
            each.register_engine(an_engine(4, 10, name=name), {}, 1)
        elastic = a_worker("e", engine="slurm", is_elastic=True, cores=3, memory=10)
        assert each.add_elastic_worker(elastic)
        assert (each.worker("e"), left(each), left(each, "slurm")) == (elastic, (4, 10), (1, 0))
        assert each.add_elastic_worker(replace(elastic, worker_id="e2", cores=2, memory=0)) is False
        assert each.add_elastic_worker(replace(elastic, worker_id="e3", engine="nobody", cores=0, memory=0)) is False
        assert each.move_worker(elastic, WorkerStatus.EXITED, 6, end=DONE)
        assert (left(each), left(each, "slurm")) == ((4, 10), (4, 10))

    def test_one_that_needs_nothing_finds_capacity_in_a_full_engine(self, each: Each) -> None:
        elastic = a_worker("e", is_elastic=True)
        assert each.add_elastic_worker(elastic) is False         # there is no engine
        each.register_engine(an_engine(cores=0, memory=0), {}, 1)
        assert each.add_elastic_worker(elastic)
        assert each.elastic_workers() == (elastic,)


class WaitingShareCases(Cases):
    """What a share waits for that has not begun."""

    def test_the_text_may_change_and_the_beginning_stays(self, each: Each) -> None:
        with_jobs(each, a_job())
        key = a_task().key
        each.add_tasks([a_task()], a_job(), DOCUMENT)
        assert each.note_waiting(key, "waits: Priority", 5)
        assert not each.note_waiting(key, "waits: Priority", 6)
        assert each.note_waiting(key, "waits: Resources", 7)
        found = each.task(key)
        assert (found.waits, found.waits_since) == ("waits: Resources", 5)
        assert each.note_waiting(key, "waits for the others", 8, counts_anew=True)
        assert not each.note_waiting(key, "waits for the others", 9, counts_anew=True)
        assert each.task(key).waits_since == 8

    def test_a_share_that_has_begun_waits_for_nothing(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.add_tasks([a_task()], a_job(), DOCUMENT)
        assert each.move_party_task(a_task(), TaskStatus.RUNNING, 5)
        assert not each.note_waiting(a_task().key, "waits", 6)
        assert not each.note_waiting(a_task(name="nobody").key, "waits", 6)


class FailedWorkerCases(Cases):
    """The workers that failed, where a job bounds them."""

    def test_the_highest_count_of_each_share_is_added_up_over_all_versions(self, each: Each) -> None:
        with_jobs(each, a_job(), a_job("j2"))
        tasks = [a_task(), a_task(version=1), a_task(party=HOST), a_task(job_id="j2")]
        each.add_tasks(tasks, a_job(), DOCUMENT)
        assert each.failed_workers("j1") == 0
        for task, count in zip(tasks, (2, 1, 5, 100), strict=True):
            each.count_failed_workers(task.key, count)
            each.count_failed_workers(task.key, count - 1)
        each.count_failed_workers(a_task(name="nobody").key, 7)
        assert (each.failed_workers("j1"), each.failed_workers("j2")) == (8, 100)

    def test_they_are_counted_anew_in_each_run(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.add_tasks([a_task()], a_job(), DOCUMENT)
        each.count_failed_workers(a_task().key, 2)
        each.move_job(a_job(), MoveJob(JobStatus.FAILED, Reason.NO_CAPACITY, "late"), 5)
        ended = each.job(a_job().key)
        assert not each.begin_again(replace(ended, run=7), 8, 1, "")
        assert each.failed_workers("j1") == 2
        assert each.begin_again(ended, 1, 1, "")
        assert each.failed_workers("j1") == 0
        each.count_failed_workers(a_task().key, 1)
        assert each.failed_workers("j1") == 1
