"""A job that begins again, takes other parameters, or waits once more."""

from __future__ import annotations

from dataclasses import replace

from fate_flow.core.model.approval import Approval, Consent
from fate_flow.core.model.document import Disclosure, JobDocument
from fate_flow.core.model.job import Claim, JobKey
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus
from fate_flow.core.planning.actions import MoveJob
from tests.store_contract.cases import (
    DOCUMENT,
    GUEST,
    HOST,
    IN_ANOTHER_FORMAT,
    OTHER_HOST,
    WITH_DISCLOSURE,
    Cases,
    Each,
    a_job,
    with_jobs,
)


class JobChangeCases(Cases):
    def test_an_ended_job_begins_again_as_if_new_in_its_next_run(self, each: Each) -> None:
        running = a_job(status=JobStatus.RUNNING, run=1)
        with_jobs(each, running)
        each.request_stop(running.key, Reason.STOPPED_BY_USER, "enough", 3, True, "guest 9999")
        each.set_progress(running.key, 60)
        end = MoveJob(JobStatus.CANCELED, Reason.STOPPED_BY_USER, "late", unconfirmed=("host 10000",))
        assert each.move_job(running, end, 7_000)
        ended = each.job_here("j1")
        assert each.begin_again(ended, 2, 900, "host 10000 does not know yet")
        again = a_job(run=2, since=900, queued=900, wait_reason="host 10000 does not know yet", rerun_signal=True)
        assert each.job_here("j1") == again
        assert each.begin_again(ended, 2, 901, "") is False
        assert each.job_here("j1") == again
        assert each.move_job(again, MoveJob(JobStatus.CANCELED, Reason.STOPPED_BY_USER), 8_000)
        assert each.job_here("j1").rerun_signal is False

    def test_a_job_that_has_moved_on_does_not_begin_again(self, each: Each) -> None:
        with_jobs(each, a_job())
        assert each.begin_again(a_job(status=JobStatus.FAILED), 1, 0, "") is False
        each.move_job(a_job(), MoveJob(JobStatus.FAILED, Reason.STOPPED), 5)
        assert each.begin_again(a_job(status=JobStatus.CANCELED), 1, 0, "") is False
        assert each.begin_again(a_job(status=JobStatus.FAILED, run=1), 2, 0, "") is False
        assert each.job_here("j1").status is JobStatus.FAILED

    def test_a_job_takes_other_parameters_as_long_as_nobody_has_moved_it(self, each: Each) -> None:
        here, elsewhere = a_job(), a_job("j2", HOST)
        with_jobs(each, here, elsewhere)
        new = replace(here, asked=Claim(6, 30), timeout_seconds=77, revision=1, changed=("a",), progress=50)
        conf = {"job_parameters": {"common": {"task_cores": 3}}}
        other = replace(DOCUMENT, dsl={}, runtime_conf=conf, on_party={"x": 1}, tag="no")
        for seen in (replace(here, run=1), replace(here, status=JobStatus.RUNNING), replace(here, revision=1)):
            assert each.revise(seen, new, other) is False
        assert each.revise(here, new, other)
        assert each.job(here.key) == replace(new, progress=here.progress)
        assert each.document("j1") == replace(DOCUMENT, runtime_conf=conf, on_party={"x": 1})
        assert (each.job_here("j1").revision, each.document("j2")) == (1, DOCUMENT)
        assert each.revise(here, new, other) is False
        each.move_job(new, MoveJob(JobStatus.FAILED, Reason.STOPPED), 5)
        each.begin_again(each.job(here.key), 1, 0, "")
        assert (each.job(here.key).revision, each.job(here.key).changed) == (1, ())

    def test_a_document_of_another_format_is_kept_until_a_revision_replaces_it(self, each: Each) -> None:
        here = a_job()
        assert each.add_job(here, IN_ANOTHER_FORMAT)
        assert each.document("j1") == IN_ANOTHER_FORMAT
        moved = replace(IN_ANOTHER_FORMAT, own=JobDocument("native", {"tasks": []}))
        assert each.revise(here, replace(here, revision=1), moved)
        assert each.document("j1") == moved
        assert each.revise(replace(here, revision=1), replace(here, revision=2), DOCUMENT)
        assert each.document("j1") == DOCUMENT

    def test_a_disclosure_is_kept_with_a_document_of_any_format(self, each: Each) -> None:
        here, both = a_job(), replace(IN_ANOTHER_FORMAT, disclosure=WITH_DISCLOSURE.disclosure)
        assert each.add_job(here, WITH_DISCLOSURE)
        assert each.document("j1") == WITH_DISCLOSURE
        for revision, document in enumerate((both, WITH_DISCLOSURE, replace(DOCUMENT, disclosure=Disclosure()))):
            assert each.revise(replace(here, revision=revision), replace(here, revision=revision + 1), document)
            assert each.document("j1") == document

    def test_whether_a_document_is_compared_is_kept(self, each: Each) -> None:
        older = replace(DOCUMENT, is_compared=False)
        assert each.add_job(a_job(), older)
        assert each.document("j1") == older
        for revision, document in enumerate((WITH_DISCLOSURE, replace(IN_ANOTHER_FORMAT, is_compared=False))):
            assert each.revise(a_job(revision=revision), a_job(revision=revision + 1), document)
            assert each.document("j1") == document

    def test_a_revision_may_ask_for_an_approval_and_takes_none_back(self, each: Each) -> None:
        asked, decided = a_job(), a_job("j2", consent=Consent(Approval.PENDING))
        with_jobs(each, asked, decided)
        given = Consent(Approval.APPROVED, "ada", "contract 7", 5, "d" * 64)
        assert each.decide_consent(decided.key, given)
        for row in (asked, replace(decided, consent=given)):
            assert each.revise(row, replace(row, revision=1, consent=Consent(Approval.PENDING)), DOCUMENT)
        assert [each.job(one.key).consent for one in (asked, decided)] == [Consent(Approval.PENDING), given]

    def test_no_number_chooses_among_the_documents_of_several_seats(self, each: Each) -> None:
        seats = [a_job(party=party, initiator=OTHER_HOST) for party in (GUEST, HOST)]
        with_jobs(each, *(replace(seat, is_initiator=False) for seat in seats))
        seen = each.job(JobKey("j1", HOST))
        new = replace(DOCUMENT, runtime_conf={"x": 2})
        assert each.revise(seen, replace(seen, revision=3), new)
        assert (each.document("j1"), each.document("j1", HOST)) == (DOCUMENT, new)

    def test_a_job_is_made_with_the_revision_that_it_has_elsewhere(self, each: Each) -> None:
        with_jobs(each, a_job(revision=4))
        assert each.job_here("j1").revision == 4

    def test_a_rerun_has_no_reservation_round_before_all_parties_know(self, each: Each) -> None:
        elsewhere = a_job("j2", HOST)
        with_jobs(each, a_job(), elsewhere)
        for job in (a_job(), elsewhere):
            each.move_job(job, MoveJob(JobStatus.FAILED, Reason.STOPPED), 5)
            assert each.begin_again(each.job(job.key), 1, 0, "they do not know yet")
        assert each.job(elsewhere.key).rerun_signal is False
        assert [job.job_id for job in each.unfinished_jobs()] == ["j1"]
        assert each.unblocked_waiting(9) == ()
        assert each.ended_jobs(9_000, (0, ""), 9) == ()
        assert each.all_rejoined(a_job().key)
        assert each.all_rejoined(a_job().key) is False
        assert (each.job_here("j1").wait_reason, each.unfinished_jobs()) == ("", ())
        assert [job.job_id for job in each.unblocked_waiting(9)] == ["j1"]

    def test_a_row_that_still_ends_remembers_that_it_is_to_wait_again_until_it_has_ended(self, each: Each) -> None:
        row = a_job("j2", HOST, status=JobStatus.RUNNING)
        with_jobs(each, row)
        assert each.rerun_after_end(each.job(row.key)) is False
        stopping = MoveJob(JobStatus.STOPPING, Reason.STOPPED, target=JobStatus.CANCELED, stop_by=1)
        each.move_job(each.job(row.key), stopping, 5)
        assert each.rerun_after_end(each.job(row.key))
        assert each.rerun_after_end(replace(each.job(row.key), run=1)) is False
        assert each.job(row.key).rerun_signal
        each.move_job(each.job(row.key), MoveJob(JobStatus.CANCELED, Reason.STOPPED), 6)
        assert each.job(row.key).rerun_signal is False
        assert each.rerun_after_end(each.job(row.key)) is False

    def test_a_running_job_rests_until_it_is_due(self, each: Each) -> None:
        here = a_job(status=JobStatus.RUNNING, since=50, timeout_seconds=60)
        elsewhere = a_job("j2", HOST, status=JobStatus.RUNNING)
        with_jobs(each, here, elsewhere)
        assert each.requeue_job(here, "retry_backoff: a begins again in 60 s", 70_000)
        assert each.requeue_job(elsewhere, "", 0)
        assert each.requeue_job(here, "again", 1) is False
        row = each.job_here("j1")
        assert (row.status, row.run, row.wait_reason) == (JobStatus.WAITING, 0, "retry_backoff: a begins again in 60 s")
        assert (row.retry_at, row.since, row.queued, row.rerun_signal) == (70_000, 50, 70_000, True)
        assert each.job(elsewhere.key).rerun_signal is False
        assert [job.job_id for job in each.unfinished_jobs()] == ["j1"]
        assert each.unblocked_waiting(9) == ()
        assert each.all_rejoined(here.key)
        assert [job.job_id for job in each.unblocked_waiting(9)] == ["j1"]
        assert each.overdue_waiting(60_050) == ()
        assert [job.job_id for job in each.overdue_waiting(60_051)] == ["j1"], "in all, however long it rested"

    def test_a_job_that_lost_a_party_waits_and_its_time_goes_on(self, each: Each) -> None:
        running = a_job(status=JobStatus.RUNNING, since=50)
        with_jobs(each, running)
        for losses in (1, 2):
            assert each.move_job(each.job_here("j1"), MoveJob(JobStatus.FAILED, Reason.PARTY_UNREACHABLE), 5)
            assert each.begin_again(each.job_here("j1"), losses, 900, "waits", is_loss=True)
            row = each.job_here("j1")
            assert (row.run, row.since, row.queued, row.lost_since, row.losses) == (losses, 50, 900, 900, losses)
            assert each.all_rejoined(row.key, 1_200)
            row = each.job_here("j1")
            assert (row.queued, row.lost_since, row.losses, row.wait_reason) == (1_200, 0, losses, "")
        assert each.move_job(each.job_here("j1"), MoveJob(JobStatus.FAILED, Reason.PARTY_UNREACHABLE), 5)
        assert each.begin_again(each.job_here("j1"), 3, 2_000, "a user's rerun")
        row = each.job_here("j1")
        assert (row.since, row.lost_since, row.losses) == (2_000, 0, 0)
