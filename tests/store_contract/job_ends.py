"""How a job is stopped and ends, what is told of it, and how it is forgotten."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.model.history import HistoryEntry, HistoryLevel
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JOB_END, JOB_UNFINISHED, JobStatus
from fate_flow.core.planning.actions import MoveJob
from fate_flow.store.values import Submission
from tests.store_contract.cases import (
    ARBITER,
    DOCUMENT,
    GUEST,
    HOST,
    Cases,
    Each,
    a_job,
    a_seat,
    a_task,
    a_worker,
    an_engine,
    with_jobs,
    with_tasks,
)


class JobEndCases(Cases):
    def test_somebody_wants_the_end_of_what_ends_already(self, each: Each) -> None:
        with_jobs(each, a_job(status=JobStatus.RUNNING), a_job("j2", status=JobStatus.RUNNING))
        key = a_job().key
        assert each.forgo_return(key) is False
        ends = MoveJob(JobStatus.STOPPING, Reason.PARTY_UNREACHABLE, target=JobStatus.FAILED, stop_by=9)
        assert each.move_job(each.job(key), ends, 5)
        assert each.forgo_return(key)
        assert (each.job(key).cancel_requested, each.job_here("j2").cancel_requested) == (True, False)
        assert each.forgo_return(a_job("unknown").key) is False

    def test_which_jobs_of_another_party_run_here(self, each: Each) -> None:
        theirs, running = Party("guest", "10000"), JobStatus.RUNNING
        mine = a_job("j9", status=running)
        copies = [
            a_job(name, HOST, status=status, run=run, initiator=initiator)
            for name, status, run, initiator in (
                ("j1", running, 2, theirs), ("j0", running, 0, theirs), ("j2", JobStatus.WAITING, 0, theirs),
                ("j3", running, 0, GUEST),
            )
        ]  # fmt: skip
        plain = a_job("j4", HOST, is_plain_v1=True, initiator=theirs)
        with_jobs(each, mine, *copies, plain, a_job("j5", HOST, initiator=theirs), a_job("j6"))
        assert each.copies_that_wait("", 9) == ("j2", "j5")
        assert (each.copies_that_wait("", 1), each.copies_that_wait("j2", 9)) == (("j2",), ("j5",))
        assert each.copies_that_run("10000") == (("j0", 0), ("j1", 2))
        assert each.copies_that_run("9999") == (("j3", 0),)

    def test_no_job_begins_ended(self, each: Each) -> None:
        for status in JOB_END:
            with pytest.raises(StorageFailed):
                each.add_job(a_job(status=status), DOCUMENT)
        assert each.job_here("j1") is None

    def test_the_first_request_to_stop_stays(self, each: Each) -> None:
        with_jobs(each, a_job(status=JobStatus.RUNNING), a_job("j2", status=JobStatus.RUNNING))
        key = a_job().key
        assert each.request_stop(key, Reason.JOB_TIMEOUT, "too long", 3, False, "guest 9999")
        assert each.request_stop(key, Reason.STOPPED_BY_USER, "enough", 4, True, "host 10000") is False
        assert each.job(key) == a_job(
            status=JobStatus.RUNNING, reason=Reason.JOB_TIMEOUT, message="too long", caused_by="guest 9999"
        )
        assert each.job_here("j2").reason is None

    def test_a_users_request_is_marked_as_his(self, each: Each) -> None:
        with_jobs(each, a_job())
        assert each.request_stop(a_job().key, Reason.STOPPED_BY_USER, "", 4, True, "guest 9999")
        assert each.job_here("j1").cancel_requested

    def test_the_request_to_force_the_stop_is_passed_on_once(self, each: Each) -> None:
        with_jobs(each, a_job(status=JobStatus.RUNNING), a_job("j2", status=JobStatus.RUNNING))
        key = a_job().key
        assert each.force_stop_sent(key, 50) is False
        assert each.request_force_stop(key)
        assert each.job_here("j1").is_force_stop
        assert each.force_stop_sent(key, 50)
        assert each.force_stop_sent(key, 60) is False
        assert each.job(key) == a_job(status=JobStatus.RUNNING, stop_by=50)
        assert each.job_here("j2").is_force_stop is False

    def test_a_partial_success_names_who_is_missing_until_the_job_begins_again(self, each: Each) -> None:
        running = a_job(status=JobStatus.RUNNING)
        with_jobs(each, running)
        assert each.name_missing(running.key, ("host 10000", "host 10001"))
        assert each.job(running.key) == replace(running, missing=("host 10000", "host 10001"))
        assert each.name_missing(a_job("unknown").key, ("host 10000",)) is False
        assert each.move_job(running, MoveJob(JobStatus.SUCCESS, Reason.DONE), 5)
        assert each.job(running.key).missing == ("host 10000", "host 10001")
        assert each.begin_again(each.job(running.key), 1, 900, "")
        assert each.job(running.key).missing == ()

    def test_what_waits_for_a_rule_is_kept_until_the_job_ends(self, each: Each) -> None:
        running, key = a_job(status=JobStatus.RUNNING), a_job().key
        with_jobs(each, running)
        assert each.set_timers(key, {"worker_failed a 0": 17, "task_failed b 1": 23})
        assert each.restart_job(key)
        found = {"timers": {"worker_failed a 0": 17, "task_failed b 1": 23}, "is_restarting": True, "restarts": 1}
        assert each.job(key) == a_job(status=JobStatus.RUNNING, **found)
        assert each.restarted(key)
        assert each.restart_job(key)
        assert each.restarted(key)
        assert (each.job(key).is_restarting, each.job(key).restarts) == (False, 2)
        ends = MoveJob(JobStatus.STOPPING, Reason.TASK_FAILED, target=JobStatus.FAILED, stop_by=9)
        assert each.move_job(each.job(key), ends, 5)
        assert each.job(key).timers == {}
        assert each.set_timers(key, {"worker_failed a 0": 17})      # of a server that is older
        assert each.move_job(each.job(key), MoveJob(JobStatus.FAILED, Reason.TASK_FAILED), 5)
        assert each.job(key).timers == {}
        assert each.begin_again(each.job(key), 1, 900, "")
        assert each.job(key) == a_job(run=1, since=900, queued=900, rerun_signal=True)
        missing = a_job("unknown").key
        assert [each.set_timers(missing, {}), each.restart_job(missing), each.restarted(missing)] == [False] * 3

    def test_nobody_force_stops_what_has_ended(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.request_force_stop(a_job().key)
        each.move_job(a_job(), MoveJob(JobStatus.SUCCESS, Reason.DONE), 5)
        assert each.job_here("j1").is_force_stop is False
        assert each.request_force_stop(a_job().key) is False

    def test_a_history_is_kept_in_its_order_and_goes_with_its_job(self, each: Each) -> None:
        with_jobs(each, a_job(), a_job("j2"))
        began = HistoryEntry("j1", HistoryLevel.JOB, "", "waiting", 5, GUEST, caused_by="guest 9999")
        ended = HistoryEntry(
            "j1", HistoryLevel.WORKER, "running", "exited", 4, HOST, "a", 3, "worker_error", "why", "host 10000",
            "exit code 1"
        )
        other = HistoryEntry("j2", HistoryLevel.TASK, "waiting", "running", 6, None, "a")
        each.add_entries([began, other])
        each.add_entries([ended])
        assert each.history("j1") == (began, ended)
        each.add_entries([])
        each.add_entries([replace(other, job_id="j3", at=at) for at in range(150)])
        assert [entry.at for entry in each.history("j3")] == list(range(150))
        assert each.history("j2") == (other,)
        each.forget_job("j1")
        assert each.history("j1") == ()
        each.move_job(a_job("j2"), MoveJob(JobStatus.SUCCESS, Reason.DONE), 5)
        assert each.forget_ended("j2")
        assert each.history("j2") == ()

    def test_what_a_forgotten_seat_went_through_is_forgotten(self, each: Each) -> None:
        with_jobs(each, a_job(status=JobStatus.READY))
        each.add_entries(
            [
                HistoryEntry("j1", HistoryLevel.JOB, "", "ready", 5, GUEST),
                HistoryEntry("j1", HistoryLevel.JOB, "", "ready", 5, HOST),
            ]
        )
        each.add_entries([HistoryEntry("j1", HistoryLevel.TASK, "", "waiting", 5, task="a")])
        each.forget_seat(a_job().key)
        assert [entry.party for entry in each.history("j1")] == [HOST]

    def test_nobody_stops_what_has_ended(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.move_job(a_job(), MoveJob(JobStatus.SUCCESS, Reason.DONE), 5)
        ended = each.job_here("j1")
        assert each.request_stop(a_job().key, Reason.STOPPED_BY_USER, "", 6, True, "") is False
        assert each.job_here("j1") == ended

    def test_progress_goes_forward_only(self, each: Each) -> None:
        with_jobs(each, a_job())
        assert [each.set_progress(a_job().key, percent) for percent in (30, 30, 20, 31)] == [True, False, False, True]
        assert each.job_here("j1").progress == 31

    def test_a_party_that_ended_a_job_otherwise_is_named_once(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.move_job(a_job(), MoveJob(JobStatus.SUCCESS, Reason.DONE, unconfirmed=("host 10001",)), 5)
        assert [each.name_unconfirmed(a_job().key, HOST) for _ in range(2)] == [True, False]
        found = each.job_here("j1")
        assert (found.status, found.unconfirmed) == (JobStatus.SUCCESS, ("host 10000", "host 10001"))

    def test_a_forgotten_job_leaves_only_its_submission(self, each: Each) -> None:
        with_jobs(each, a_job(), a_job(party=ARBITER), a_job("j2"))
        each.add_seats([a_seat(), a_seat(party=GUEST), a_seat("j2")])
        with_tasks(each, a_task(), a_task(party=HOST), a_task(job_id="j2"))
        each.add_worker(a_worker())
        each.add_worker(a_worker("w2", a_task(job_id="j2")))
        each.begin_submission(Submission("r1", "j1", "d"), 1)
        each.forget_job("j1")
        assert (each.jobs_here("j1"), each.seats("j1"), each.tasks("j1"), each.workers_of("j1")) == ((), (), (), ())
        assert each.submission_of("j1") == Submission("r1", "j1", "d")
        assert each.jobs_here("j2") == (a_job("j2"),)
        assert (len(each.seats("j2")), len(each.tasks("j2")), len(each.workers_of("j2"))) == (1, 1, 1)
        assert each.add_job(a_job(), DOCUMENT), "the key is free again"

    def test_a_forgotten_seat_leaves_the_other_seats(self, each: Each) -> None:
        with_jobs(each, a_job(party=HOST), a_job(party=ARBITER))
        with_tasks(each, a_task(party=HOST), a_task(party=HOST, version=1), a_task(party=ARBITER))
        each.add_worker(a_worker("w1", a_task(party=HOST)))
        each.add_worker(a_worker("w2", a_task(party=ARBITER)))
        each.forget_seat(a_job(party=HOST).key)
        assert each.jobs_here("j1") == (a_job(party=ARBITER),)
        assert [task.key.party for task in each.tasks("j1")] == [ARBITER]
        assert [worker.worker_id for worker in each.workers_of("j1")] == ["w2"]

    def test_unfinished_jobs_are_those_somebody_works_on(self, each: Each) -> None:
        each.register_engine(an_engine(), {}, 1)
        for number, status in enumerate(sorted(JOB_UNFINISHED, key=lambda one: one.value)):
            with_jobs(each, a_job(status.value, status=status, create_time=100 - number))
        with_jobs(each, a_job("holds"), a_job("signalled", create_time=2), a_job("ended"), a_job("host", HOST))
        each.reserve(a_job("holds").key, "local", 1, 0, "t", 1, 2)
        each.begin_round(a_job("signalled").key, "me", 3)
        each.move_job(a_job("ended"), MoveJob(JobStatus.SUCCESS, Reason.DONE), 4)
        each.reserve(a_job("host", HOST).key, "local", 0, 0, "t", 1, 2)
        found = [job.job_id for job in each.unfinished_jobs()]
        assert found == ["stopping", "running", "ready", "signalled", "holds", "host"]

    def test_the_last_create_time(self, each: Each) -> None:
        assert each.last_create_time() == 0
        with_jobs(each, a_job("a", create_time=5), a_job("b", HOST, create_time=9), a_job("c", create_time=7))
        assert each.last_create_time() == 9
