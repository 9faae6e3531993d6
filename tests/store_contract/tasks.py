"""Tasks over all their parties, and the share of each party in them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.model.job import Report
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import TASK_BROKEN, TASK_END, TaskStatus, may_move
from fate_flow.core.planning.actions import MoveTask
from tests.store_contract.cases import DOCUMENT, GUEST, HOST, Cases, Each, a_job, a_task, over_all, with_tasks


class TaskCases(Cases):
    def test_a_task_comes_back_as_it_was_added(self, each: Each) -> None:
        task = a_task(party=HOST, version=2, auto_retries=3, retry_at=9, module="HeteroLR", incarnation="abc")
        with_tasks(each, task)
        assert each.task(task.key) == task
        assert each.task(a_task(party=HOST, version=1).key) is None

    def test_a_new_task_has_no_history(self, each: Each) -> None:
        with_tasks(each, a_task(worker_id="w", reason=Reason.STOPPED, message="old", start_time=3, end_time=4))
        assert each.task(a_task().key) == a_task()

    def test_rows_that_exist_stay_as_they_are(self, each: Each) -> None:
        with_tasks(each, a_task())
        with_tasks(each, a_task(incarnation="other", status=TaskStatus.RUNNING), a_task(party=HOST))
        assert each.task(a_task().key) == a_task()
        assert each.task(a_task(party=HOST).key) == a_task(party=HOST)

    def test_no_task_begins_ended(self, each: Each) -> None:
        for status in TASK_END:
            with pytest.raises(StorageFailed):
                with_tasks(each, a_task(party_status=status))
        assert each.tasks("j1") == ()

    def test_the_newest_version_of_each_task_at_all_parties(self, each: Each) -> None:
        rows = [a_task("a", version, party) for version in (0, 1) for party in (HOST, GUEST)]
        old, new = rows[:2], rows[2:]
        other = [a_task("b", 0, HOST), a_task("c", 3, HOST, create_time=1), a_task("a", 9, GUEST, "j2")]
        with_tasks(each, *new, *other, *old)
        assert each.tasks("j1") == (other[1], new[1], new[0], other[0])

    def test_tasks_that_are_stopping_everywhere(self, each: Each) -> None:
        with_tasks(each, a_task(), a_task(party=HOST), a_task("other"), a_task("older", create_time=1))
        assert each.stopping_tasks() == ()
        for name in ("reader_0", "older"):
            each.move_task("j1", MoveTask(name, 0, TaskStatus.WAITING, TaskStatus.STOPPING, Reason.STOPPED, ""), 5)
        found = [(task.key.name, str(task.key.party)) for task in each.stopping_tasks()]
        assert found == [("older", "guest 9999"), ("reader_0", "guest 9999"), ("reader_0", "host 10000")]
        each.move_task("j1", MoveTask("older", 0, TaskStatus.STOPPING, TaskStatus.FAILED, Reason.STOPPED, ""), 6)
        assert len(each.stopping_tasks()) == 2

    def test_jobs_with_tasks_that_do_not_simply_go_on(self, each: Each) -> None:
        stopping, broken, later, at_work, ended = ids = ("j1", "j2", "j3", "j4", "j5")
        for job_id in ids:
            each.add_job(a_job(job_id), DOCUMENT)
            with_tasks(each, a_task(job_id=job_id))
            move = MoveTask("reader_0", 0, TaskStatus.WAITING, TaskStatus.RUNNING)
            assert job_id == later or each.move_task(job_id, move, 5)
        assert each.jobs_with_moving_tasks(ids) == frozenset()
        each.move_task(stopping, MoveTask("reader_0", 0, TaskStatus.RUNNING, TaskStatus.STOPPING), 6)
        each.move_party_task(a_task(job_id=broken), TaskStatus.FAILED, 6, Reason.WORKER_ERROR)
        with_tasks(each, a_task(job_id=later, version=1))
        each.move_party_task(a_task(job_id=at_work), TaskStatus.RUNNING, 6)
        each.move_party_task(a_task(job_id=ended), TaskStatus.FAILED, 6, Reason.WORKER_ERROR)
        each.move_task(ended, MoveTask("reader_0", 0, TaskStatus.RUNNING, TaskStatus.FAILED, Reason.WORKER_ERROR), 6)
        assert each.jobs_with_moving_tasks(ids) == {stopping, broken, later}
        assert each.jobs_with_moving_tasks([broken, "unknown"]) == {broken}
        assert each.jobs_with_moving_tasks([]) == frozenset()

    def test_what_a_policy_has_decided_about_a_version_stays(self, each: Each) -> None:
        with_tasks(each, a_task(), a_task(party=HOST))
        again = {"policy": "restart_task", "begins_again": True}
        stop = MoveTask("reader_0", 0, TaskStatus.WAITING, TaskStatus.STOPPING, **again)
        assert each.move_task("j1", stop, 5)
        why = {"reason": Reason.WORKER_ERROR, "message": "no data", "caused_by": "host 10000", "exit_code": 3}
        assert each.move_task("j1", MoveTask("reader_0", 0, TaskStatus.STOPPING, TaskStatus.FAILED, **why), 6)
        for party in (GUEST, HOST):
            row = a_task(party=party, status=TaskStatus.FAILED, **again, **over_all(why, 6))
            assert each.task(row.key) == row

    def test_a_task_ends_over_all_its_parties_for_a_reason(self, each: Each) -> None:
        with_tasks(each, a_task())
        text = {"message": "restart_task after start_timeout", "caused_by": "host 10000"}
        stop = MoveTask("reader_0", 0, TaskStatus.WAITING, TaskStatus.STOPPING, **text)
        assert each.move_task("j1", stop, 5)
        assert each.task(a_task().key) == a_task(status=TaskStatus.STOPPING, **over_all(text, 0))
        for end in TASK_END - {TaskStatus.PASS}:
            with pytest.raises(StorageFailed):
                each.move_task("j1", MoveTask("reader_0", 0, TaskStatus.STOPPING, end), 6)

    def test_the_federated_status_moves_in_all_rows_of_its_version(self, each: Each) -> None:
        with_tasks(each, *(a_task(party=party, version=version) for party in (GUEST, HOST) for version in (0, 1)))
        with_tasks(each, a_task("other", 1))
        move = MoveTask("reader_0", 1, TaskStatus.WAITING, TaskStatus.RUNNING)
        assert each.move_task("j1", move, 5)
        assert each.move_task("j1", move, 5) is False
        assert each.move_task("j2", move, 5) is False
        for party in (GUEST, HOST):
            row = a_task(party=party, version=1, status=TaskStatus.RUNNING)
            assert each.task(row.key) == row
            assert each.task(a_task(party=party).key) == a_task(party=party)
        assert each.task(a_task("other", 1).key) == a_task("other", 1)

    def test_every_legal_move_of_an_unfinished_share_is_made(self, each: Each) -> None:
        for number, (old, new) in enumerate(product(set(TaskStatus) - TASK_END, TaskStatus)):
            if may_move(old, new):
                task = a_task(f"t_{number}", party_status=old)
                with_tasks(each, task)
                assert each.move_party_task(task, new, 5, Reason.STOPPED), (old, new)
                assert each.task(task.key).party_status is new

    def test_a_share_runs_stops_and_ends(self, each: Each) -> None:
        with_tasks(each, a_task(), a_task(party=HOST))
        assert each.move_party_task(a_task(), TaskStatus.RUNNING, 5)
        running = a_task(party_status=TaskStatus.RUNNING, start_time=5)
        assert each.task(running.key) == running
        assert each.move_party_task(
            running, TaskStatus.STOPPING, 6, Reason.STOPPED, "why", TaskStatus.CANCELED, caused_by="host 10001"
        )
        stopping = replace(
            running, party_status=TaskStatus.STOPPING, reason=Reason.STOPPED, message="why", target=TaskStatus.CANCELED,
            caused_by="host 10001",
        )  # fmt: skip
        assert each.task(running.key) == stopping
        assert each.move_party_task(stopping, TaskStatus.CANCELED, 9)
        assert each.task(running.key) == replace(stopping, party_status=TaskStatus.CANCELED, end_time=9)
        assert each.task(a_task(party=HOST).key) == a_task(party=HOST)

    def test_a_share_is_moved_once(self, each: Each) -> None:
        with_tasks(each, a_task())
        assert each.move_party_task(a_task(), TaskStatus.FAILED, 5, Reason.LAUNCH_FAILED, "first")
        assert each.move_party_task(a_task(), TaskStatus.RUNNING, 6) is False
        assert each.move_party_task(a_task("nobody"), TaskStatus.RUNNING, 6) is False
        assert each.task(a_task().key).message == "first"

    def test_a_stale_incarnation_writes_nothing(self, each: Each) -> None:
        with_tasks(each, a_task())
        stale = a_task(incarnation="older")
        assert each.move_party_task(stale, TaskStatus.RUNNING, 5) is False
        assert each.take_report(stale, Report(stale.key, "older", TaskStatus.RUNNING)) is False
        assert each.take_report(a_task(), Report(a_task().key, "older", TaskStatus.RUNNING)) is False
        assert each.take_report(a_task(), Report(a_task(version=1).key, "inc-0", TaskStatus.RUNNING)) is False
        assert each.task(a_task().key) == a_task()

    def test_a_report_is_taken_in_its_own_words_and_times(self, each: Each) -> None:
        task = a_task(party=HOST)
        with_tasks(each, task)
        assert each.take_report(task, Report(task.key, "inc-0", TaskStatus.RUNNING, start_time=50))
        running = replace(task, party_status=TaskStatus.RUNNING, start_time=50)
        assert each.task(task.key) == running
        report = Report(task.key, "inc-0", TaskStatus.FAILED, Reason.WORKER_ERROR, "no such table", 40, 90, 3)
        assert each.take_report(running, report)
        failed = replace(
            running, party_status=TaskStatus.FAILED, reason=Reason.WORKER_ERROR, message="no such table",
            start_time=40, end_time=90, exit_code=3,
        )  # fmt: skip
        assert each.task(task.key) == failed

    def test_a_report_of_an_end_without_a_time_ends_when_it_began(self, each: Each) -> None:
        task = a_task(party=HOST)
        with_tasks(each, task)
        assert each.take_report(task, Report(task.key, "inc-0", TaskStatus.SUCCESS, Reason.DONE, "", 50))
        ended = each.task(task.key)
        assert (ended.start_time, ended.end_time) == (50, 50)

    def test_a_plain_v1_party_names_no_incarnation(self, each: Each) -> None:
        task = a_task(party=HOST)
        with_tasks(each, task)
        assert each.take_report(task, Report(task.key, "", TaskStatus.RUNNING, start_time=50))

    def test_a_report_that_says_nothing_new_is_not_taken(self, each: Each) -> None:
        task = a_task(party=HOST, party_status=TaskStatus.RUNNING)
        with_tasks(each, task)
        for status in (TaskStatus.WAITING, TaskStatus.RUNNING):
            assert each.take_report(task, Report(task.key, "inc-0", status, start_time=9)) is False
        assert each.task(task.key) == task

    def test_what_has_ended_stays_as_it_ended(self, each: Each) -> None:
        for status in TASK_BROKEN:
            task = a_task(status.value, party=HOST)
            with_tasks(each, task)
            each.move_party_task(task, status, 5, Reason.STOPPED)
            ended = each.task(task.key)
            for new in TaskStatus:
                assert each.take_report(ended, Report(task.key, "inc-0", new, end_time=9)) is False
            assert each.task(task.key) == ended

    def test_a_share_that_is_stopped_to_begin_again_is_noted_once(self, each: Each) -> None:
        with_tasks(each, a_task(), a_task(version=1))
        assert each.note_restart(a_task().key)
        assert each.note_restart(a_task().key) is False
        assert each.note_restart(a_task("nobody").key) is False
        assert [each.task(a_task(version=version).key).policy for version in (0, 1)] == ["restart_task", ""]

    def test_a_share_has_one_worker(self, each: Each) -> None:
        with_tasks(each, a_task(), a_task(version=1))
        assert each.set_worker(a_task().key, "w1", ("host 10001",))
        assert each.set_worker(a_task().key, "w2") is False
        assert each.task(a_task().key).without == ("host 10001",)
        assert each.set_worker(a_task("nobody").key, "w2") is False
        assert [each.task(a_task(version=version).key).worker_id for version in (0, 1)] == ["w1", ""]
