"""The row of a job: how it is added, found and moved, and what its end needs."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.model.job import Blocker, Claim
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JOB_END, JOB_UNFINISHED, JobStatus, may_move
from fate_flow.core.planning.actions import MoveJob
from fate_flow.store.values import Document
from tests.store_contract.cases import (
    ARBITER,
    DOCUMENT,
    GUEST,
    HOST,
    OTHER_HOST,
    Cases,
    Each,
    a_job,
    an_engine,
    with_jobs,
)


class JobCases(Cases):
    def test_a_job_comes_back_as_it_was_added(self, each: Each) -> None:
        job = a_job(
            "202611210211000000000", HOST, run=3, is_plain_v1=True, asked=Claim(7, 9), status=JobStatus.READY,
            parties=(GUEST, HOST, OTHER_HOST, ARBITER), timeout_seconds=1 << 33, create_time=1_763_691_000_123,
        )  # fmt: skip
        with_jobs(each, job)
        assert each.job(job.key) == job

    def test_parties_come_back_role_by_role(self, each: Each) -> None:
        with_jobs(each, a_job(parties=(HOST, GUEST, OTHER_HOST)))
        assert each.job_here("j1").parties == (HOST, OTHER_HOST, GUEST)

    def test_a_new_job_has_no_history(self, each: Each) -> None:
        used = a_job(
            progress=50, claim=Claim(1, 1, "t", 2), round_number=5, reason=Reason.STOPPED, ready_owner="me", passes=2
        )
        with_jobs(each, used)
        assert each.job(used.key) == a_job()

    def test_adding_it_again_changes_nothing(self, each: Each) -> None:
        with_jobs(each, a_job())
        assert each.add_job(a_job(timeout_seconds=1, status=JobStatus.READY), Document({}, {}, {})) is False
        assert each.job(a_job().key) == a_job()
        assert each.document("j1") == DOCUMENT

    def test_what_is_not_there(self, each: Each) -> None:
        key = a_job("nobody").key
        assert (each.job(key), each.job_here("nobody"), each.jobs_here("nobody")) == (None, None, ())
        assert each.document("nobody") is None
        assert each.move_job(a_job("nobody"), MoveJob(JobStatus.RUNNING), 1) is False
        assert each.request_stop(key, Reason.STOPPED, "", 1, False, "") is False
        assert each.set_progress(key, 1) is False
        assert each.give_back(key, None, 1) is False
        each.forget_job("nobody")
        each.forget_seat(key)

    def test_a_party_may_hold_several_seats(self, each: Each) -> None:
        host, arbiter = a_job(party=HOST), a_job(party=ARBITER)
        with_jobs(each, host, arbiter)
        assert each.jobs_here("j1") == (arbiter, host)
        assert each.job_here("j1") is None, "neither is the initiator's"

    def test_the_initiators_seat_is_found_among_its_others(self, each: Each) -> None:
        with_jobs(each, a_job(party=ARBITER), a_job(), a_job("j2"))
        assert each.job_here("j1") == a_job()

    def test_a_document_comes_back_as_json(self, each: Each) -> None:
        with_jobs(each, a_job())
        assert each.document("j1") == DOCUMENT

    def test_the_initiators_document_goes_before_those_of_its_other_seats(self, each: Each) -> None:
        each.add_job(a_job(party=ARBITER), replace(DOCUMENT, name="arbiter"))
        assert each.document("j1").name == "arbiter"
        each.add_job(a_job(), replace(DOCUMENT, name="initiator"))
        assert each.document("j1").name == "initiator"

    def test_a_seat_has_the_document_of_its_own(self, each: Each) -> None:
        each.add_job(a_job(), replace(DOCUMENT, on_party={"role": "guest"}))
        each.add_job(a_job(party=ARBITER), replace(DOCUMENT, on_party={"role": "arbiter"}))
        assert each.document("j1", ARBITER).on_party == {"role": "arbiter"}
        assert each.document("j1", GUEST).on_party == {"role": "guest"}
        assert each.document("j1", HOST) is None

    def test_every_legal_move_of_an_unfinished_job_is_made(self, each: Each) -> None:
        for number, (old, new) in enumerate(product(JOB_UNFINISHED, JobStatus)):
            if may_move(old, new):
                job = a_job(f"j{number}", status=old)
                with_jobs(each, job)
                assert each.move_job(job, MoveJob(new, Reason.STOPPED), 5), (old, new)
                assert each.job(job.key).status is new

    def test_a_move_that_comes_too_late_changes_nothing(self, each: Each) -> None:
        with_jobs(each, a_job())
        assert each.move_job(a_job(), MoveJob(JobStatus.RUNNING), 5)
        moved = each.job_here("j1")
        assert each.move_job(a_job(), MoveJob(JobStatus.FAILED, Reason.STOPPED, "late"), 9, "host 10000") is False
        assert each.job_here("j1") == moved

    def test_a_move_of_another_run_changes_nothing(self, each: Each) -> None:
        with_jobs(each, a_job(run=1))
        assert each.move_job(a_job(run=0), MoveJob(JobStatus.RUNNING), 5) is False
        assert each.job_here("j1") == a_job(run=1)

    def test_only_the_seat_itself_is_moved(self, each: Each) -> None:
        with_jobs(each, a_job(), a_job(party=ARBITER), a_job("j2"))
        each.move_job(a_job(), MoveJob(JobStatus.RUNNING), 5)
        assert each.job(a_job(party=ARBITER).key).status is JobStatus.WAITING
        assert each.job_here("j2").status is JobStatus.WAITING

    def test_running_stamps_the_start_and_forgets_the_wait(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.begin_round(a_job().key, "me", 5)
        each.end_round(a_job().key, "me", "host 10000 has no capacity", "10000", 4, 77, 3, Blocker.CAPACITY)
        each.move_job(a_job(), MoveJob(JobStatus.RUNNING), 5_000)
        assert each.job_here("j1") == a_job(status=JobStatus.RUNNING, start_time=5_000, retry_at=77, round_number=1)

    def test_stopping_says_why_whereto_and_until_when(self, each: Each) -> None:
        with_jobs(each, a_job())
        move = MoveJob(
            JobStatus.STOPPING, Reason.TASK_FAILED, "a broke", target=JobStatus.FAILED, stop_by=99, exit_code=3
        )
        assert each.move_job(a_job(), move, 5, "host 10000")
        assert each.job_here("j1") == a_job(
            status=JobStatus.STOPPING, target=JobStatus.FAILED, reason=Reason.TASK_FAILED, message="a broke",
            stop_by=99, caused_by="host 10000", exit_code=3,
        )  # fmt: skip

    def test_the_end_is_stamped_and_keeps_the_target(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.postpone(a_job().key, "host 10000 has no capacity", "10000", 4, 77)
        stop = MoveJob(JobStatus.STOPPING, Reason.TASK_FAILED, "a broke", target=JobStatus.FAILED, stop_by=99)
        each.move_job(a_job(), stop, 5)
        move = MoveJob(JobStatus.FAILED, Reason.JOB_TIMEOUT, "late", unconfirmed=("host 10000", "host 10001"))
        assert each.move_job(each.job_here("j1"), move, 7_000)
        assert each.job_here("j1") == a_job(
            status=JobStatus.FAILED, target=JobStatus.FAILED, reason=Reason.JOB_TIMEOUT, message="late",
            end_time=7_000, unconfirmed=("host 10000", "host 10001"), retry_at=77,
        )  # fmt: skip
        assert each.document("j1").tag == "job_end"

    def test_a_reason_that_a_move_does_not_name_stays(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.request_stop(a_job().key, Reason.STOPPED_BY_USER, "enough", 3, True, "guest 9999")
        each.move_job(a_job(), MoveJob(JobStatus.CANCELED), 5)
        job = each.job_here("j1")
        assert (job.reason, job.message, job.caused_by) == (Reason.STOPPED_BY_USER, "enough", "guest 9999")

    def test_success_is_all_of_the_way(self, each: Each) -> None:
        running = a_job(status=JobStatus.RUNNING)
        with_jobs(each, running)
        each.set_progress(running.key, 60)
        each.move_job(running, MoveJob(JobStatus.SUCCESS, Reason.DONE), 5)
        assert each.job_here("j1").progress == 100

    def test_a_submit_that_fails_is_marked_and_to_be_forgotten(self, each: Each) -> None:
        ready, elsewhere = a_job("r", status=JobStatus.READY), a_job("e", HOST, status=JobStatus.READY)
        canceled, later = a_job("c", status=JobStatus.READY), a_job("l")
        with_jobs(each, ready, elsewhere, canceled, later)
        for job in (ready, elsewhere, later):
            each.move_job(job, MoveJob(JobStatus.FAILED, Reason.PARTY_REFUSED), 5)
        each.move_job(canceled, MoveJob(JobStatus.CANCELED, Reason.STOPPED_BY_USER), 5)
        assert [each.document(name).tag for name in "recl"] == ["submit_failed"] * 3 + ["job_end"]
        assert each.jobs_to_forget() == ("r",)

    @pytest.mark.parametrize("status", sorted(JOB_END, key=lambda one: one.value))
    def test_no_end_without_a_reason(self, each: Each, status: JobStatus) -> None:
        job = a_job(status=JobStatus.RUNNING)
        with_jobs(each, job)
        with pytest.raises(StorageFailed):
            each.move_job(job, MoveJob(status), 5)
        assert each.job_here("j1") == job

    def test_no_end_while_something_is_held(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(), {}, 1)
        assert each.reserve(a_job().key, "local", 1, 0, "t", 1, 2)
        with pytest.raises(StorageFailed):
            each.move_job(a_job(), MoveJob(JobStatus.FAILED, Reason.STOPPED), 5)
        assert each.give_back(a_job().key, None, 6)
        assert each.move_job(a_job(), MoveJob(JobStatus.FAILED, Reason.STOPPED), 7)
