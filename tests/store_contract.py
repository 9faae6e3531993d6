"""What every store promises, as tests: `StoreContract` for each kind of store, `StoreRaces` for those that several
connections write at once. A test file gives the fixture `store` and subclasses both under names that begin with Test.
"""

# ruff: noqa: PT012  # what has to fail is a transaction, and that is several statements

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from fate_flow.core.access.permission import Kind, Thing
from fate_flow.core.access.site import SiteKey
from fate_flow.core.model.approval import Approval, Consent
from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.model.history import HistoryEntry, HistoryLevel
from fate_flow.core.model.job import (
    Blocker,
    Claim,
    Command,
    CommandKind,
    EngineState,
    Hold,
    Job,
    JobKey,
    PendingRequest,
    Report,
    Seat,
    Task,
    TaskKey,
    Worker,
    WorkerEnd,
)
from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import (
    JOB_END,
    JOB_UNFINISHED,
    TASK_BROKEN,
    TASK_END,
    IllegalMove,
    JobStatus,
    SeatStatus,
    TaskStatus,
    WorkerStatus,
    may_move,
)
from fate_flow.core.planning.actions import MoveJob, MoveTask
from fate_flow.store.contract.changes import MOST_PENDING
from fate_flow.store.contract.transaction import Store
from fate_flow.store.values import READ, Connector, Document, Metric, OutputTable, Scope, Submission, TableMeta

GUEST = Party("guest", "9999")
HOST = Party("host", "10000")
ARBITER = Party("arbiter", "10000")
OTHER_HOST = Party("host", "10001")

DOCUMENT = Document(
    dsl={"components": {"reader_0": {"module": "Reader"}}},
    runtime_conf={"dsl_version": 2, "words": ["ä", None, 1.5, True]},
    on_party={"job_parameters": {"task_cores": 4}},
    name="a name",
    description="what it is for",
    tag="",
)


def a_job(job_id: str = "j1", party: Party = GUEST, **fields: Any) -> Job:
    return replace(
        Job(
            key=JobKey(job_id, party),
            initiator=GUEST,
            is_initiator=party == GUEST,
            status=JobStatus.WAITING,
            parties=(GUEST, HOST),
            asked=Claim(4, 128),
            timeout_seconds=3600,
            create_time=1_000,
        ),
        **fields,
    )


def a_seat(job_id: str = "j1", party: Party = HOST, **fields: Any) -> Seat:
    return replace(Seat(job_id, party, SeatStatus.JOINED), **fields)


def a_task(name: str = "reader_0", version: int = 0, party: Party = GUEST, job_id: str = "j1", **fields: Any) -> Task:
    return replace(
        Task(
            key=TaskKey(job_id, name, version, party),
            status=TaskStatus.WAITING,
            party_status=TaskStatus.WAITING,
            runs_here=party == GUEST,
            incarnation=f"inc-{version}",
            module="Reader",
            create_time=1_000,
        ),
        **fields,
    )


def left(each: Each) -> tuple[int, int]:
    engine = each.engine()
    return engine.remaining_cores, engine.remaining_memory


def a_worker(worker_id: str = "w1", task: Task | None = None, **fields: Any) -> Worker:
    key = (task or a_task()).key
    return replace(Worker(worker_id, key, WorkerStatus.CREATED, "/jobs/j1/w1", create_time=1_000), **fields)


DONE = WorkerEnd(Reason.DONE, "", "guest 9999")


def exited(worker: Worker, why: WorkerEnd = DONE) -> Worker:
    """As it ends at 6."""
    return replace(
        worker, status=WorkerStatus.EXITED, end_time=6, reason=why.reason, message=why.message, caused_by=why.caused_by,
        exit_status=why.exit_status,
    )  # fmt: skip


def over_all(why: dict[str, Any], end_time: int) -> dict[str, Any]:
    """What a move of a task over all its parties writes, as the fields of its rows."""
    return {**{f"federated_{key}": value for key, value in why.items()}, "federated_end_time": end_time}


def an_engine(cores: int = 8, memory: int = 1024, nodes: int = 1) -> EngineState:
    return EngineState("LOCAL", cores, memory, 0, 0, nodes)


class Each:
    """Makes every call in a transaction of its own: what comes back was committed."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            with self.store.transaction() as tx:
                return getattr(tx, method)(*args, **kwargs)

        return call


class Cases:
    """Tests of the store that the fixture `store` gives."""

    @pytest.fixture
    def each(self, store: Store) -> Each:
        return Each(store)


def with_jobs(each: Each, *jobs: Job) -> Each:
    for job in jobs:
        assert each.add_job(job, DOCUMENT)
    return each


def with_tasks(each: Each, *tasks: Task) -> Each:
    each.add_tasks(tasks, a_job(), DOCUMENT)
    return each


def in_use(each: Each, *keys: JobKey) -> tuple[int, int]:
    claims = [job.claim for job in map(each.job, keys) if job is not None and job.holds]
    return sum(claim.cores for claim in claims), sum(claim.memory for claim in claims)


class TransactionCases(Cases):
    def test_an_exception_takes_back_everything(self, store: Store, each: Each) -> None:
        with_jobs(each, a_job("old"))
        each.register_engine(an_engine(), {}, 1)
        with pytest.raises(ZeroDivisionError), store.transaction() as tx:
            tx.add_job(a_job("new"), DOCUMENT)
            tx.add_seats([a_seat("new")])
            tx.reserve(a_job("old").key, 4, 4, "t", 1, 2)
            tx.forget_job("old")
            tx.put_command(Command(CommandKind.CREATE, "new", HOST), 1)
            tx.record_heartbeat("10000")
            raise ZeroDivisionError
        assert each.job(a_job("old").key) == a_job("old")
        assert each.job(a_job("new").key) is None
        assert each.jobs_here("old") == (a_job("old"),)
        assert each.engine().remaining_cores == 8
        assert (each.seats("new"), each.commands_after(0), each.heartbeats()) == ((), (), {})

    def test_a_savepoint_takes_back_its_own_part(self, store: Store, each: Each) -> None:
        with store.transaction() as tx:
            tx.add_job(a_job("before"), DOCUMENT)
            with pytest.raises(ZeroDivisionError), tx.savepoint():
                tx.add_job(a_job("inside"), DOCUMENT)
                tx.set_progress(a_job("before").key, 50)
                raise ZeroDivisionError
            tx.add_job(a_job("after"), DOCUMENT)
        assert [each.job_here(name) is not None for name in ("before", "inside", "after")] == [True, False, True]
        assert each.job_here("before").progress == 0

    def test_savepoints_nest(self, store: Store, each: Each) -> None:
        with store.transaction() as tx, tx.savepoint():
            tx.record_heartbeat("outer")
            with pytest.raises(ZeroDivisionError), tx.savepoint():
                tx.record_heartbeat("inner")
                with tx.savepoint():
                    tx.record_heartbeat("innermost")
                raise ZeroDivisionError
            with tx.savepoint():
                tx.record_heartbeat("outer")
        assert each.heartbeats() == {"outer": 2}

    def test_what_a_savepoint_kept_goes_with_its_transaction(self, store: Store, each: Each) -> None:
        with pytest.raises(ZeroDivisionError), store.transaction() as tx:
            with tx.savepoint():
                tx.record_heartbeat("10000")
            raise ZeroDivisionError
        assert each.heartbeats() == {}

    def test_a_refused_write_is_storage_failed_and_leaves_nothing(self, store: Store, each: Each) -> None:
        each.add_worker(a_worker())
        with pytest.raises(StorageFailed), store.transaction() as tx:
            tx.record_heartbeat("10000")
            tx.add_worker(a_worker())
        assert each.heartbeats() == {}

    def test_a_refused_write_in_a_savepoint_costs_the_savepoint_only(self, store: Store, each: Each) -> None:
        each.add_worker(a_worker())
        with store.transaction() as tx:
            tx.record_heartbeat("10000")
            with pytest.raises(StorageFailed), tx.savepoint():
                tx.record_heartbeat("10001")
                tx.add_worker(a_worker())
            tx.record_heartbeat("10000")
        assert each.heartbeats() == {"10000": 2}


class ReadingCases(Cases):
    def test_what_was_committed_is_read(self, store: Store, each: Each) -> None:
        with_jobs(each, a_job())
        with store.reading() as tx:
            assert tx.job(a_job().key) == a_job()
            assert tx.jobs_here("j1") == (a_job(),)
        each.set_progress(a_job().key, 5)
        with store.reading() as tx:
            assert tx.job_here("j1").progress == 5

    def test_an_error_of_the_reader_comes_through(self, store: Store, each: Each) -> None:
        with pytest.raises(ZeroDivisionError), store.reading() as tx:
            tx.engine()
            raise ZeroDivisionError
        assert each.engine() is None

    def test_a_transaction_may_follow_and_be_taken_back(self, store: Store, each: Each) -> None:
        with store.reading() as tx:
            assert tx.heartbeats() == {}
        with pytest.raises(ZeroDivisionError), store.transaction() as tx:
            tx.record_heartbeat("10000")
            raise ZeroDivisionError
        with store.reading() as tx:
            assert tx.heartbeats() == {}


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
        assert each.reserve(a_job().key, 1, 0, "t", 1, 2)
        with pytest.raises(StorageFailed):
            each.move_job(a_job(), MoveJob(JobStatus.FAILED, Reason.STOPPED), 5)
        assert each.give_back(a_job().key, None, 6)
        assert each.move_job(a_job(), MoveJob(JobStatus.FAILED, Reason.STOPPED), 7)

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
        each.reserve(a_job("holds").key, 1, 0, "t", 1, 2)
        each.begin_round(a_job("signalled").key, "me", 3)
        each.move_job(a_job("ended"), MoveJob(JobStatus.SUCCESS, Reason.DONE), 4)
        each.reserve(a_job("host", HOST).key, 0, 0, "t", 1, 2)
        found = [job.job_id for job in each.unfinished_jobs()]
        assert found == ["stopping", "running", "ready", "signalled", "holds", "host"]

    def test_the_last_create_time(self, each: Each) -> None:
        assert each.last_create_time() == 0
        with_jobs(each, a_job("a", create_time=5), a_job("b", HOST, create_time=9), a_job("c", create_time=7))
        assert each.last_create_time() == 9


class RoundCases(Cases):
    def test_a_reservation_round_begins_once(self, each: Each) -> None:
        with_jobs(each, a_job())
        assert each.begin_round(a_job().key, "me", 5)
        assert each.begin_round(a_job().key, "me", 6) is False
        assert each.begin_round(a_job().key, "you", 6) is False
        assert each.job_here("j1") == a_job(ready_owner="me", round_number=1)

    def test_only_a_waiting_job_has_reservation_rounds(self, each: Each) -> None:
        for status in JOB_UNFINISHED - {JobStatus.WAITING}:
            with_jobs(each, a_job(status.value, status=status))
            assert each.begin_round(a_job(status.value).key, "me", 5) is False

    def test_a_reservation_round_forgets_what_the_last_one_was_refused(self, each: Each) -> None:
        with_jobs(each, a_job(), a_job("j2"))
        each.add_seats([a_seat(message="has no capacity", free_cores=2, asked_cores=4), a_seat("j2", message="kept")])
        each.begin_round(a_job().key, "me", 5)
        assert each.seats("j1") == (a_seat(asked_cores=4),)
        assert each.seats("j2") == (a_seat("j2", message="kept"),)

    def test_a_reservation_round_that_does_not_begin_forgets_nothing(self, each: Each) -> None:
        with_jobs(each, a_job(status=JobStatus.RUNNING))
        each.add_seats([a_seat(message="kept")])
        assert each.begin_round(a_job().key, "me", 5) is False
        assert each.seats("j1") == (a_seat(message="kept"),)

    def test_only_its_owner_ends_a_reservation_round(self, each: Each) -> None:
        with_jobs(each, a_job())
        key = a_job().key
        assert each.end_round(key, "me", "why", "10000", 4, 99, 1, Blocker.SIZE) is False
        each.begin_round(key, "me", 5)
        assert each.end_round(key, "you", "why", "10000", 4, 99, 1, None) is False
        assert each.end_round(key, "me", "why", "10000", 4, 99, 1, Blocker.SIZE)
        waits = a_job(
            round_number=1, wait_reason="why", blocked_on="10000", retry_at=99, conflicts=1, blocked_by=Blocker.SIZE
        )
        assert each.job(key) == waits
        assert each.end_round(key, "me", "", "", 0, 0, 0, None) is False
        assert each.begin_round(key, "you", 6)
        assert each.job(key).round_number == 2

    def test_a_job_in_its_reservation_round_is_not_postponed(self, each: Each) -> None:
        with_jobs(each, a_job(), a_job("run", status=JobStatus.RUNNING))
        key = a_job().key
        assert each.postpone(key, "why", "10000", 4, 99)
        assert each.job(key) == a_job(wait_reason="why", blocked_on="10000", retry_at=99)
        each.begin_round(key, "me", 5)
        assert each.postpone(key, "other", "10001", 1, 100) is False
        assert each.postpone(a_job("run").key, "other", "10001", 1, 100) is False
        assert each.job(key).blocked_on == "10000"

    def test_another_scheduler_takes_over(self, each: Each) -> None:
        with_jobs(each, *(a_job(name, create_time=time) for name, time in (("a", 3), ("b", 2), ("c", 1), ("d", 0))))
        for name, owner in (("a", "old"), ("b", "older"), ("c", "me")):
            each.begin_round(a_job(name).key, owner, 5)
        assert each.take_over("me") == ("b", "a")
        assert each.take_over("me") == ()
        assert [each.job_here(name).ready_owner for name in "abcd"] == ["me", "me", "me", ""]
        assert each.end_round(a_job("a").key, "old", "", "", 0, 0, 0, None) is False, "fenced"
        assert each.end_round(a_job("a").key, "me", "", "", 0, 0, 0, None)

    def test_jobs_in_their_reservation_round_wait(self, each: Each) -> None:
        with_jobs(each, a_job("a"), a_job("b", create_time=1), a_job("c"))
        for name in "ab":
            each.begin_round(a_job(name).key, "me", 5)
        assert [job.job_id for job in each.jobs_in_round()] == ["b", "a"]
        each.move_job(a_job("a"), MoveJob(JobStatus.RUNNING), 6)
        assert [job.job_id for job in each.jobs_in_round()] == ["b"]


class QueueCases(Cases):
    def queue(self, each: Each) -> None:
        """a b c d e by age, with a tie between c and d; b and d lack cores of 10000, e of 10001."""
        ages = {"e": 30, "d": 20, "c": 20, "b": 10, "a": 5}
        with_jobs(each, *(a_job(name, create_time=age) for name, age in ages.items()))
        with_jobs(each, a_job("hosted", HOST, create_time=1), a_job("running", status=JobStatus.RUNNING, create_time=1))
        for name, party_id, cores in (("b", "10000", 6), ("d", "10000", 2), ("e", "10001", 4)):
            each.postpone(a_job(name).key, "no capacity", party_id, cores, 77)

    def test_first_in_first_out(self, each: Each) -> None:
        self.queue(each)
        assert [job.job_id for job in each.waiting_jobs()] == ["a", "b", "c", "d", "e"]
        assert each.count_waiting() == 5
        assert [each.place_in_queue(each.job_here(name)) for name in "abcde"] == [1, 2, 3, 4, 5]

    def test_the_order_is_that_of_the_keys_and_then_of_age(self, each: Each) -> None:
        keys = {"a": (5, 9), "b": (-7, 3), "c": (5, 8), "d": (5, 8)}
        with_jobs(each, *(a_job(name, queue_key=key, create_time=at) for name, (key, at) in keys.items()))
        assert [job.job_id for job in each.waiting_jobs()] == ["b", "c", "d", "a"]
        assert [each.place_in_queue(each.job_here(name)) for name in "bcda"] == [1, 2, 3, 4]
        assert [job.order for job in each.unblocked_waiting(2)] == [(-7, 3, "b"), (5, 8, "c")]
        for name in "acd":
            each.begin_round(a_job(name).key, "me", 5)
            each.end_round(
                a_job(name).key, "me", "no capacity", "10000", 4, 0, 0, Blocker.SIZE if name == "c" else None
            )
        assert [job.job_id for job in each.queue_heads()] == ["d"]
        assert [job.job_id for job in each.blocked_waiting("10000", 9, 9)] == ["d", "a"]

    def test_a_waiting_job_takes_another_place(self, each: Each) -> None:
        with_jobs(each, a_job("a", priority=2, enqueued=50, queue_key=30), a_job("b", queue_key=20))
        with_jobs(each, a_job("run", status=JobStatus.RUNNING))
        assert each.set_priority(a_job("a").key, 4, 10)
        assert each.job_here("a") == a_job("a", priority=4, enqueued=50, queue_key=10)
        assert [job.job_id for job in each.unblocked_waiting(2)] == ["a", "b"]
        assert each.set_priority(a_job("run").key, 4, 10) is False
        assert each.set_priority(a_job("unknown").key, 4, 10) is False
        assert each.job_here("run").priority == 0

    def test_a_job_on_hold_has_no_reservation_round_and_is_no_head(self, each: Each) -> None:
        self.queue(each)
        hold = Hold("until monday", "ann", 5, 70)
        for name in "abe":
            assert each.hold_job(a_job(name).key, hold)
        assert each.job_here("a").hold == hold
        assert [job.job_id for job in each.unblocked_waiting(9)] == ["c"]
        assert [job.job_id for job in each.queue_heads()] == ["d"]
        assert [job.job_id for job in each.blocked_waiting("10000", 9, 9)] == ["d"]
        assert [each.place_in_queue(each.job_here(name)) for name in "ad"] == [1, 4], "it keeps its place"
        assert each.hold_job(a_job("running").key, hold) is False
        assert each.release_job(a_job("a").key, 90)
        freed = a_job("a", create_time=5, since=20, queued=20)
        assert each.job_here("a") == freed, "the time on hold counts for no limit"
        assert each.release_job(a_job("a").key, 90) is False
        assert [job.job_id for job in each.unblocked_waiting(9)] == ["a", "c"]

    def test_waiting_jobs_whose_time_is_over(self, each: Each) -> None:
        limits = {"a": 5, "b": 5, "c": 6, "d": 0, "e": 5, "f": 5}
        with_jobs(each, *(
            a_job(name, timeout_seconds=seconds, create_time=at, since=at)
            for at, (name, seconds) in enumerate(limits.items())
        ))  # fmt: skip
        assert each.hold_job(a_job("e").key, Hold("until monday", "ann", 5, 70))
        assert each.request_stop(a_job("f").key, Reason.STOPPED_BY_USER, "why", 3, True, "guest 9999")
        assert [job.job_id for job in each.overdue_waiting(5_001)] == ["a"]
        assert [job.job_id for job in each.overdue_waiting(5_002)] == ["a", "b"]
        assert [job.job_id for job in each.overdue_waiting(6_003)] == ["a", "b", "c"]
        each.move_job(each.job_here("a"), MoveJob(JobStatus.RUNNING), 6)
        assert [job.job_id for job in each.overdue_waiting(6_003)] == ["b", "c"]

    @pytest.mark.parametrize("end", [JobStatus.RUNNING, JobStatus.CANCELED])
    def test_what_begins_or_ends_is_not_held_any_more(self, each: Each, end: JobStatus) -> None:
        with_jobs(each, a_job())
        each.hold_job(a_job().key, Hold("why", "ann", 5, 70))
        each.move_job(a_job(), MoveJob(end, None if end is JobStatus.RUNNING else Reason.STOPPED_BY_USER), 6)
        assert each.job_here("j1").hold is None

    def test_a_held_job_that_asks_for_too_much_is_not_asked_for(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.begin_round(a_job().key, "me", 5)
        each.end_round(a_job().key, "me", "why", "10000", 4, 7, 0, Blocker.SIZE)
        each.hold_job(a_job().key, Hold("why", "ann"))
        assert each.waiting_unschedulable(9, 9) == ()

    def test_who_lacks_what_is_not_capacity_is_apart(self, each: Each) -> None:
        blocked_by = {
            "a": Blocker.SIZE,
            "b": Blocker.APPROVAL,
            "c": Blocker.CAPACITY,
            "d": Blocker.ANSWER,
            "e": Blocker.APPROVAL,
        }
        with_jobs(each, *(a_job(name) for name in blocked_by))
        for name, retry_at in zip("abcde", (7, 9, 1, 1, 8), strict=True):
            each.begin_round(a_job(name).key, "me", 5)
            each.end_round(a_job(name).key, "me", "why", "10000", 4, retry_at, 0, blocked_by[name])
        assert [job.job_id for job in each.waiting_unschedulable(9, 9)] == ["a", "e", "b"], "the longest due first"
        assert [job.job_id for job in each.waiting_unschedulable(8, 9)] == ["a", "e"]
        assert [job.job_id for job in each.queue_heads()] == ["c"]
        assert [job.job_id for job in each.blocked_waiting("10000", 9, 9)] == ["c", "d"]
        for name in "abc":
            each.hold_job(a_job(name).key, Hold("why", "ann"))
        assert [job.job_id for job in each.waiting_unschedulable(9, 9)] == ["e"]
        for name in "abc":
            each.release_job(a_job(name).key, 0)
        assert [job.job_id for job in each.waiting_unschedulable(9, 9)] == ["a", "e", "b"]
        assert [job.job_id for job in each.queue_heads()] == ["c"]
        each.begin_round(a_job("b").key, "me", 5)
        each.hold_job(a_job("b").key, Hold("why", "ann"))
        each.end_round(a_job("b").key, "me", "no capacity", "10000", 4, 0, 0, Blocker.CAPACITY)
        assert [job.job_id for job in each.blocked_waiting("10000", 9, 9)] == ["c", "d"], (
            "held in its reservation round"
        )
        each.release_job(a_job("b").key, 0)
        assert [job.job_id for job in each.blocked_waiting("10000", 9, 9)] == ["b", "c", "d"]

    def test_a_reservation_round_does_not_forget_whose_approval_is_awaited(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.add_seats([a_seat(status=SeatStatus.JOINING), a_seat(party=OTHER_HOST)])
        each.move_seat(a_seat(status=SeatStatus.JOINING), SeatStatus.JOINED, "", blocked_by=Blocker.APPROVAL)
        each.begin_round(a_job().key, "me", 5)
        assert [seat.blocked_by for seat in each.seats("j1")] == [Blocker.APPROVAL, None]
        each.move_seat(each.seats("j1")[0], SeatStatus.CHECKING, "")
        assert [seat.blocked_by for seat in each.seats("j1")] == [None, None]

    def test_a_party_decides_about_a_job_until_it_is_under_way(self, each: Each) -> None:
        pending = Consent(Approval.PENDING)
        names = {"a": JobStatus.READY, "b": JobStatus.WAITING, "c": JobStatus.RUNNING, "d": JobStatus.WAITING}
        each.register_engine(an_engine(), {}, 1)
        for at, (name, status) in enumerate(names.items()):
            with_jobs(each, a_job(name, HOST, status=status, create_time=9 - at, consent=pending))
        with_jobs(each, a_job("own"))
        each.reserve(a_job("d", HOST).key, 1, 0, "t", 1, 2)
        assert [job.job_id for job in each.unapproved_jobs(9)] == ["d", "c", "b", "a"]
        assert [job.job_id for job in each.unapproved_jobs(2)] == ["d", "c"]
        rejected, approved = Consent(Approval.REJECTED, "ann", "no", 5), Consent(Approval.APPROVED, "bob", "", 6)
        found = {name: each.decide_consent(a_job(name, HOST).key, rejected) for name in names}
        assert found == {"a": True, "b": True, "c": False, "d": False}
        assert each.decide_consent(a_job("own").key, approved) is False
        assert each.job(a_job("a", HOST).key).consent == rejected
        assert each.decide_consent(a_job("a", HOST).key, approved)
        assert each.job(a_job("a", HOST).key).consent == approved
        assert each.job(a_job("own").key).consent is None
        end = MoveJob(JobStatus.FAILED, Reason.PARTY_REFUSED)
        each.move_job(each.job(a_job("b", HOST).key), end, 6)
        assert each.decide_consent(a_job("b", HOST).key, approved), "for a rerun"
        given = [each.decide_consent(a_job(name, HOST).key, approved) for name in ("c", "c", "d", "d")]
        assert given == [True, False, True, False], "an older release has let them begin"

    def test_a_job_that_is_to_be_asked_again_is_due(self, each: Each) -> None:
        self.queue(each)
        assert each.ask_again("b")
        assert [(head.job_id, head.retry_at) for head in each.queue_heads()] == [("b", 0), ("e", 77)]
        each.begin_round(a_job("d").key, "me", 5)
        assert [each.ask_again(name) for name in ("d", "running", "hosted", "unknown")] == [False] * 4

    def test_a_job_at_rest_is_not_asked_again_before_its_time(self, each: Each) -> None:
        resting = a_job(status=JobStatus.RUNNING)
        with_jobs(each, resting)
        assert each.requeue_job(resting, "retry_backoff", 70_000)
        assert each.ask_again("j1") is False
        assert each.job_here("j1").retry_at == 70_000

    def test_one_job_of_each_other_initiator_that_waits(self, each: Each) -> None:
        theirs = [Party("guest", one) for one in ("10001", "10002", "10003")]
        rows = (("a", 0, HOST), ("b", 0, HOST), ("c", 1, HOST), ("c", 1, ARBITER), ("d", 2, HOST))
        for name, initiator, seat in rows:
            with_jobs(each, a_job(name, seat, initiator=theirs[initiator], is_initiator=False))
        with_jobs(each, a_job("own"))
        each.move_job(each.job(a_job("d", HOST).key), MoveJob(JobStatus.RUNNING), 6)
        found = sorted((job.job_id, str(job.party)) for job in each.others_waiting())
        assert found == [("a", "host 10000"), ("c", "arbiter 10000"), ("c", "host 10000")]

    def test_the_hold_of_a_party_is_kept_until_it_is_released(self, each: Each) -> None:
        assert each.intake_hold() is None
        assert each.release_intake() is False
        each.hold_intake(Hold("maintenance", "ann", 5, 7))
        each.hold_intake(Hold("longer", "bob", 6, 8))
        assert each.intake_hold() == Hold("longer", "bob", 6, 8)
        assert each.release_intake()
        assert each.intake_hold() is None

    def test_unblocked_ones(self, each: Each) -> None:
        self.queue(each)
        first, second = each.unblocked_waiting(10)
        assert (first.job_id, first.create_time, first.parties) == ("a", 5, ("9999", "10000"))
        assert (first.blocked_on, first.blocked_cores, first.retry_at, first.passes) == ("", 0, 0, 0)
        assert second.job_id == "c"
        assert each.unblocked_waiting(1) == (first,)
        each.begin_round(a_job("a").key, "me", 5)
        assert each.unblocked_waiting(10) == (second,)

    def test_a_party_with_two_seats_is_named_twice(self, each: Each) -> None:
        with_jobs(each, a_job(parties=(GUEST, HOST, ARBITER)))
        assert each.unblocked_waiting(1)[0].parties == ("9999", "10000", "10000")

    def test_heads_are_the_first_of_each_party(self, each: Each) -> None:
        self.queue(each)
        heads = each.queue_heads()
        assert [(one.blocked_on, one.job_id, one.blocked_cores, one.retry_at) for one in heads] == [
            ("10000", "b", 6, 77),
            ("10001", "e", 4, 77),
        ]
        each.begin_round(a_job("b").key, "me", 5)
        assert [head.job_id for head in each.queue_heads()] == ["b", "e"], "a head in its reservation round stays one"
        each.move_job(each.job_here("b"), MoveJob(JobStatus.RUNNING), 6)
        assert [head.job_id for head in each.queue_heads()] == ["d", "e"]

    def test_blocked_ones_that_a_party_has_capacity_for(self, each: Each) -> None:
        self.queue(each)
        assert [one.job_id for one in each.blocked_waiting("10000", 6, 10)] == ["b", "d"]
        assert [one.job_id for one in each.blocked_waiting("10000", 6, 1)] == ["b"]
        assert [one.job_id for one in each.blocked_waiting("10000", 5, 10)] == ["d"]
        assert each.blocked_waiting("10000", 1, 10) == ()
        assert each.blocked_waiting("10002", 9, 10) == ()
        each.begin_round(a_job("b").key, "me", 5)
        assert [one.job_id for one in each.blocked_waiting("10000", 6, 10)] == ["d"]

    def test_one_that_nobody_works_on(self, each: Each) -> None:
        self.queue(each)
        names = ("a", "b", "running", "hosted", "unknown")
        assert [each.waiting(name) for name in names[2:]] == [None, None, None]
        found = [each.waiting(name) for name in names[:2]]
        assert [(one.job_id, one.blocked_on, one.blocked_cores) for one in found] == [("a", "", 0), ("b", "10000", 6)]
        assert found[1] in each.queue_heads()
        each.begin_round(a_job("b").key, "me", 5)
        assert each.waiting("b") is None, "it is in its reservation round"
        each.move_job(each.job_here("a"), MoveJob(JobStatus.CANCELED, Reason.STOPPED), 6)
        each.begin_again(each.job_here("a"), 1, 7, "")
        assert each.waiting("a") is None, "not every party knows that it begins again"
        each.all_rejoined(a_job("a").key)
        assert each.waiting("a").job_id == "a"
        each.hold_job(a_job("a").key, Hold("not yet", "somebody"))
        assert each.waiting("a") is None, "somebody holds it"

    def test_a_pass_counts_for_a_waiting_job_of_this_initiator(self, each: Each) -> None:
        self.queue(each)
        for name in ("b", "b", "running", "hosted", "unknown"):
            each.count_pass(name)
        assert {head.job_id: head.passes for head in each.queue_heads()} == {"b": 2, "e": 0}
        assert [each.job_here(name).passes for name in ("b", "running")] == [2, 0]

    def test_a_job_that_asks_for_more_than_there_is_in_all_is_no_head(self, each: Each) -> None:
        self.queue(each)
        for name, blocked_by, retry_at in (
            ("b", Blocker.SIZE, 77),
            ("d", Blocker.CAPACITY, 77),
            ("e", Blocker.SIZE, 78),
        ):
            each.begin_round(a_job(name).key, "me", 5)
            blocked_on = each.job_here(name).blocked_on
            each.end_round(a_job(name).key, "me", "why", blocked_on, 4, retry_at, 0, blocked_by)
        assert [(head.job_id, head.blocked_by) for head in each.queue_heads()] == [("d", Blocker.CAPACITY)]
        assert [job.job_id for job in each.waiting_unschedulable(76, 9)] == []
        assert [job.job_id for job in each.waiting_unschedulable(77, 9)] == ["b"]
        assert [job.job_id for job in each.waiting_unschedulable(78, 9)] == ["b", "e"]
        assert {job.blocked_by for job in each.waiting_unschedulable(78, 9)} == {Blocker.SIZE}
        assert [job.job_id for job in each.waiting_unschedulable(78, 1)] == ["b"]
        each.postpone(a_job("b").key, "behind", "10001", 4, 76)
        assert each.job_here("b").blocked_by is Blocker.SIZE
        each.begin_round(a_job("b").key, "me", 5)
        assert [job.job_id for job in each.waiting_unschedulable(99, 9)] == ["e"], "it is being asked for"
        each.move_job(each.job_here("b"), MoveJob(JobStatus.RUNNING), 6)
        assert each.job_here("b").blocked_by is None

    def test_waiting_jobs_that_are_to_stop(self, each: Each) -> None:
        self.queue(each)
        for name in ("d", "a", "running"):
            each.request_stop(a_job(name).key, Reason.STOPPED_BY_USER, "", 5, True, "")
        assert each.cancelled_waiting() == ("a", "d")

    def test_an_empty_queue(self, each: Each) -> None:
        assert (each.waiting_jobs(), each.count_waiting(), each.cancelled_waiting()) == ((), 0, ())
        assert (each.unblocked_waiting(9), each.queue_heads(), each.blocked_waiting("1", 9, 9)) == ((), (), ())
        assert each.place_in_queue(a_job()) == 1
        assert each.waiting_unschedulable(9, 9) == ()
        each.count_pass("1")


class PendingCases(Cases):
    def test_a_request_begins_with_the_first_refusal_and_is_repeated(self, each: Each) -> None:
        with_jobs(each, a_job(party=HOST))
        key = a_job(party=HOST).key
        assert each.job(key).pending == PendingRequest()
        each.pending(key, 5)
        each.pending(key, 9)
        each.count_bypass(key)
        each.count_bypass(key)
        assert each.job(key).pending == PendingRequest(5, 9, 2)
        each.forget_pending(key)
        assert each.job(key) == a_job(party=HOST)
        each.pending(key, 9, -5)
        each.pending(key, 10)
        assert each.job(key).queue_key == -5, "what its initiator told stays"

    def test_the_first_is_the_one_that_was_refused_first_of_those_that_still_ask(self, each: Each) -> None:
        with_jobs(each, *(a_job(name, create_time=9 - number) for number, name in enumerate("abcd")))
        each.register_engine(an_engine(), {}, 1)
        assert each.first_pending(0) is None
        for name, at in (("b", 3), ("a", 4), ("c", 4), ("b", 5), ("c", 6)):
            each.pending(a_job(name).key, at)
        firsts = [each.first_pending(after) for after in range(7)]
        assert [job.job_id if job else "" for job in firsts] == ["b", "b", "b", "b", "b", "c", ""]
        each.reserve(a_job("b").key, 1, 0, "t", 1, 2)
        assert each.first_pending(0).job_id == "a", "what is held is not lacking"
        each.give_back(a_job("b").key, None, 3)
        assert each.first_pending(0) == each.job(a_job("b").key)
        each.move_job(each.job_here("b"), MoveJob(JobStatus.RUNNING), 6)
        assert each.first_pending(0).job_id == "a", "and what runs does not wait"

    def test_requests_stand_in_the_order_of_their_first_refusals(self, each: Each) -> None:
        with_jobs(each, *(a_job(name, create_time=9 - number) for number, name in enumerate("abcd")))
        with_jobs(each, a_job("b", party=HOST, is_initiator=False))
        each.register_engine(an_engine(), {}, 1)
        assert each.pending_requests(0) == ()
        for name, at in (("b", 3), ("a", 4), ("c", 4), ("b", 5), ("c", 6)):
            each.pending(a_job(name).key, at)
        each.pending(a_job("b", party=HOST).key, 3)
        found = [[(one.job_id, one.party.role) for one in each.pending_requests(after)] for after in range(7)]
        every = [("b", "guest"), ("b", "host"), ("a", "guest"), ("c", "guest")]
        assert found[:3] == [every] * 3
        assert found[3:] == [[every[0], *every[2:]], [every[0], every[3]], [every[3]], []]
        each.reserve(a_job("b").key, 1, 0, "t", 1, 2)
        assert [one.key for one in each.pending_requests(4)] == [a_job("c").key], "what is held is not lacking"
        assert each.pending_requests(4) == (each.job(a_job("c").key),)

    def test_of_very_many_requests_the_first_are_looked_at(self, each: Each) -> None:
        names = [f"j{number:03}" for number in range(MOST_PENDING + 1)]
        with_jobs(each, *(a_job(name, create_time=5) for name in names))
        for name in names:
            each.pending(a_job(name).key, 4)
        assert [one.job_id for one in each.pending_requests(0)] == names[:MOST_PENDING]

    def test_requests_of_no_job(self, each: Each) -> None:
        each.pending(a_job().key, 5)
        each.count_bypass(a_job().key)
        each.forget_pending(a_job().key)
        assert each.first_pending(0) is None


class ResourceCases(Cases):
    KEY = a_job().key

    def test_no_engine_no_reservation(self, each: Each) -> None:
        with_jobs(each, a_job())
        assert each.engine() is None
        assert each.reserve(self.KEY, 0, 0, "t", 1, 2) is False
        assert each.job(self.KEY) == a_job()

    def test_a_new_engine_is_all_free(self, each: Each) -> None:
        expected = EngineState("LOCAL", 8, 1024, 8, 1024, 2)
        assert each.register_engine(an_engine(nodes=2), {"address": "x"}, 1) == expected
        assert each.engine() == expected

    def test_a_reservation_takes_from_the_engine(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(), {}, 1)
        assert each.reserve(self.KEY, 5, 100, "t", 3, 2)
        assert each.job(self.KEY) == a_job(claim=Claim(5, 100, "t", 3))
        assert each.job(self.KEY).holds
        assert each.engine() == EngineState("LOCAL", 8, 1024, 3, 924)

    def test_a_job_reserves_once(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(), {}, 1)
        each.reserve(self.KEY, 2, 0, "t", 1, 2)
        assert each.reserve(self.KEY, 2, 0, "t", 1, 2) is False
        assert each.reserve(self.KEY, 1, 0, "u", 2, 3) is False
        assert each.engine().remaining_cores == 6
        assert each.job(self.KEY).claim == Claim(2, 0, "t", 1)

    @pytest.mark.parametrize(("cores", "memory"), [(9, 0), (0, 1025), (9, 1025), (9, 1), (1, 1025)])
    def test_both_rows_or_none(self, each: Each, cores: int, memory: int) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(), {}, 1)
        assert each.reserve(self.KEY, cores, memory, "t", 1, 2) is False
        assert each.job(self.KEY) == a_job()
        assert each.engine() == EngineState("LOCAL", 8, 1024, 8, 1024)

    def test_all_there_is_may_be_taken(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(), {}, 1)
        assert each.reserve(self.KEY, 8, 1024, "t", 1, 2)
        assert each.engine() == EngineState("LOCAL", 8, 1024, 0, 0)

    def test_a_claim_to_nothing_is_a_claim(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(), {}, 1)
        assert each.reserve(self.KEY, 0, 0, "t", 1, 2)
        assert each.job(self.KEY).holds
        assert each.give_back(self.KEY, None, 3)

    def test_nobody_unknown_reserves(self, each: Each) -> None:
        each.register_engine(an_engine(), {}, 1)
        assert each.reserve(self.KEY, 1, 0, "t", 1, 2) is False
        assert each.engine().remaining_cores == 8

    def test_no_claim_without_a_token(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(), {}, 1)
        with pytest.raises(StorageFailed):
            each.reserve(self.KEY, 1, 0, "", 1, 2)
        assert each.engine().remaining_cores == 8

    def test_an_ended_job_reserves_nothing(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(), {}, 1)
        each.move_job(a_job(), MoveJob(JobStatus.FAILED, Reason.STOPPED), 5)
        with pytest.raises(StorageFailed):
            each.reserve(self.KEY, 1, 0, "t", 1, 6)
        assert each.engine().remaining_cores == 8

    def test_everything_comes_back_exactly_once(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(), {}, 1)
        each.reserve(self.KEY, 5, 100, "t", 1, 2)
        assert [each.give_back(self.KEY, None, 3) for _ in range(3)] == [True, False, False]
        assert each.engine() == EngineState("LOCAL", 8, 1024, 8, 1024)
        assert not each.job(self.KEY).holds
        assert each.job(self.KEY).claim == Claim(5, 100, "", 1), "for people to see what it had"

    def test_the_next_claim_is_a_new_one(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(), {}, 1)
        each.reserve(self.KEY, 5, 100, "t", 1, 2)
        each.give_back(self.KEY, None, 3)
        assert each.reserve(self.KEY, 2, 10, "u", 2, 4)
        assert each.job(self.KEY).claim == Claim(2, 10, "u", 2)
        assert each.engine() == EngineState("LOCAL", 8, 1024, 6, 1014)

    def test_a_return_of_an_earlier_reservation_round_is_fenced(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(), {}, 1)
        each.reserve(self.KEY, 5, 0, "t", 3, 2)
        assert [each.give_back(self.KEY, round_number, 3) for round_number in (1, 2)] == [False, False]
        assert each.engine().remaining_cores == 3
        assert each.give_back(self.KEY, 3, 3)

    def test_a_renewed_claim_is_of_the_later_reservation_round(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(), {}, 1)
        each.reserve(self.KEY, 5, 0, "t", 3, 2)
        each.renew_claim(self.KEY, 5)
        each.renew_claim(self.KEY, 4)
        assert each.job(self.KEY).claim == Claim(5, 0, "t", 5, 1)
        each.renew_claim(self.KEY, 5)
        assert each.job(self.KEY).claim == Claim(5, 0, "t", 5, 2), "each time its lease begins anew"
        assert each.give_back(self.KEY, 4, 3) is False
        assert each.give_back(self.KEY, 6, 3)
        each.renew_claim(self.KEY, 9)
        assert each.job(self.KEY).claim.round_number == 5, "nothing is held, nothing is renewed"

    def test_what_is_in_use_stays_in_use_when_the_totals_change(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(), {}, 1)
        each.reserve(self.KEY, 5, 100, "t", 1, 2)
        assert each.register_engine(an_engine(16, 512, 3), {}, 3) == EngineState("LOCAL", 16, 512, 11, 412, 3)
        assert each.register_engine(an_engine(16, 512, 3), {}, 4) == EngineState("LOCAL", 16, 512, 11, 412, 3)
        each.give_back(self.KEY, None, 5)
        assert each.engine() == EngineState("LOCAL", 16, 512, 16, 512, 3)

    def test_an_engine_may_shrink_below_what_is_in_use(self, each: Each) -> None:
        with_jobs(each, a_job(), a_job("j2"))
        each.register_engine(an_engine(), {}, 1)
        each.reserve(self.KEY, 6, 1000, "t", 1, 2)
        assert each.register_engine(an_engine(4, 800), {}, 3) == EngineState("LOCAL", 4, 800, -2, -200)
        assert each.reserve(a_job("j2").key, 1, 0, "u", 1, 4) is False
        assert each.reserve(a_job("j2").key, 0, 0, "u", 1, 4), "nothing is always free"
        assert each.give_back(self.KEY, None, 5)
        assert each.engine() == EngineState("LOCAL", 4, 800, 4, 800)

    def test_who_asks_for_no_cores_does_not_wait_for_cores_that_are_lacking(self, each: Each) -> None:
        with_jobs(each, a_job(), a_job("j2"), a_job("j3"))
        each.register_engine(an_engine(), {}, 1)
        each.reserve(self.KEY, 6, 1000, "t", 1, 2)
        each.register_engine(an_engine(4, 2000), {}, 3)
        assert each.reserve(a_job("j2").key, 0, 1000, "u", 1, 4)
        assert each.reserve(a_job("j3").key, 0, 1, "v", 1, 4) is False
        each.register_engine(an_engine(8, 1500), {}, 5)
        assert each.engine() == EngineState("LOCAL", 8, 1500, 2, -500)
        assert each.reserve(a_job("j3").key, 2, 0, "v", 1, 6)

    def test_when_it_was_set_aside(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.register_engine(an_engine(), {}, 1)
        each.reserve(self.KEY, 6, 1000, "t", 1, 77)
        assert each.job(self.KEY).claim.taken_time == 77

    def test_seats_of_one_job_reserve_each_for_itself(self, each: Each) -> None:
        host, arbiter = a_job(party=HOST), a_job(party=ARBITER)
        with_jobs(each, host, arbiter)
        each.register_engine(an_engine(), {}, 1)
        assert each.reserve(host.key, 3, 0, "t", 1, 2)
        assert each.reserve(arbiter.key, 2, 0, "t", 1, 2)
        assert in_use(each, host.key, arbiter.key) == (5, 0)
        each.give_back(arbiter.key, None, 3)
        assert each.engine().remaining_cores == 5


class SeatCases(Cases):
    def test_seats_come_back_by_role_and_party(self, each: Each) -> None:
        seats = [
            a_seat(party=OTHER_HOST),
            a_seat(party=HOST, status=SeatStatus.JOINING, run=2, message="why", free_cores=3, asked_cores=4),
            a_seat(party=GUEST),
            a_seat(party=ARBITER, lease=60_000, renew_at=5),
        ]
        each.add_seats(seats)
        assert each.seats("j1") == (replace(seats[3], lease=0, renew_at=0), seats[2], seats[1], seats[0])
        assert each.seats("j2") == ()

    def test_no_seats_are_nothing_to_add(self, each: Each) -> None:
        each.add_seats([])

    def test_a_seat_is_taken_once(self, each: Each) -> None:
        each.add_seats([a_seat()])
        with pytest.raises(StorageFailed):
            each.add_seats([a_seat(party=OTHER_HOST), a_seat()])
        with pytest.raises(StorageFailed):
            each.add_seats([a_seat("j2"), a_seat("j2")])
        assert each.seats("j1") == (a_seat(),)
        assert each.seats("j2") == ()

    def test_every_legal_move_is_made(self, each: Each) -> None:
        for number, (old, new) in enumerate(product(SeatStatus, SeatStatus)):
            if may_move(old, new):
                seat = a_seat(f"j{number}", status=old, asked_cores=4)
                each.add_seats([seat])
                assert each.move_seat(seat, new, "why", 3), (old, new)
                assert each.seats(seat.job_id) == (replace(seat, status=new, message="why", free_cores=3),)

    def test_a_late_answer_moves_nothing(self, each: Each) -> None:
        each.add_seats([a_seat(run=1), a_seat(party=OTHER_HOST, run=1)])
        assert each.move_seat(a_seat(run=0), SeatStatus.CHECKING, "") is False
        assert each.move_seat(a_seat(run=1), SeatStatus.CHECKING, "")
        assert each.move_seat(a_seat(run=1), SeatStatus.CHECKING, "again") is False
        assert each.move_seat(a_seat("j2", run=1), SeatStatus.CHECKING, "") is False
        assert [seat.status for seat in each.seats("j1")] == [SeatStatus.CHECKING, SeatStatus.JOINED]

    def test_a_move_says_anew_what_is_free(self, each: Each) -> None:
        seat = a_seat(message="no capacity", free_cores=2)
        each.add_seats([seat])
        each.move_seat(seat, SeatStatus.CHECKING, "")
        assert each.seats("j1") == (a_seat(status=SeatStatus.CHECKING, message="", free_cores=-1),)

    def test_a_seat_rejoins_in_the_next_run_whatever_it_has_become(self, each: Each) -> None:
        leaving = a_seat(status=SeatStatus.LEAVING, message="why", free_cores=3, asked_cores=4, is_plain_v1=True)
        each.add_seats([leaving])
        each.lease_seat(leaving, 60_000, 77)
        each.move_seat(leaving, SeatStatus.LEFT, "")
        assert each.rejoin(leaving)
        assert each.seats("j1") == (a_seat(status=SeatStatus.JOINING, run=1, asked_cores=4, is_plain_v1=True),)
        assert each.rejoin(leaving) is False
        with pytest.raises(IllegalMove):
            each.rejoin(a_seat(status=SeatStatus.HELD, run=1))

    def test_what_a_seat_is_to_reserve_changes(self, each: Each) -> None:
        each.add_seats([a_seat(run=1, asked_cores=4), a_seat(party=OTHER_HOST, asked_cores=4)])
        assert each.ask_for(a_seat(run=1), 6)
        assert each.ask_for(a_seat(run=0), 7) is False
        assert [seat.asked_cores for seat in each.seats("j1")] == [6, 4]

    def test_a_lease_is_kept_with_its_seat(self, each: Each) -> None:
        each.add_seats([a_seat(run=1), a_seat(party=OTHER_HOST)])
        assert each.lease_seat(a_seat(run=1), 60_000, 77)
        assert each.lease_seat(a_seat(run=0), 5, 5) is False
        assert [(seat.lease, seat.renew_at) for seat in each.seats("j1")] == [(60_000, 77), (0, 0)]

    def test_a_party_that_speaks_plain_v1_is_remembered(self, each: Each) -> None:
        each.add_seats([a_seat(), a_seat(party=OTHER_HOST, is_plain_v1=True)])
        assert [seat.is_plain_v1 for seat in each.seats("j1")] == [False, True]
        assert each.mark_plain_v1(a_seat())
        for text in ("approved by ann: contract 7", ""):
            assert each.note_approval(a_seat(), text)
            assert each.seats("j1")[0].approval == text
        assert each.note_approval(a_seat(run=7), "words") is False
        assert [seat.is_plain_v1 for seat in each.seats("j1")] == [True, True]

    def test_a_party_counts_as_silent_from_the_first_time_until_it_answers(self, each: Each) -> None:
        started = a_seat(status=SeatStatus.STARTED)
        each.add_seats([started, a_seat("j2", status=SeatStatus.HELD)])
        assert each.silent_seats() == ()
        assert each.fall_silent(started, 70, "says nothing for 90 s")
        assert each.fall_silent(started, 80, "says nothing for 95 s") is False
        assert each.fall_silent(a_seat("j2"), 75, "says nothing")
        silent = a_seat(status=SeatStatus.STARTED, silent_since=70, message="says nothing for 90 s")
        assert each.silent_seats() == (silent,), "the other one holds, and runs nothing"
        assert each.answers_again(started)
        assert (each.silent_seats(), each.seats("j1")) == ((), (started,))
        assert each.fall_silent(a_seat(run=1), 90, "") is False

    def test_seats_whose_party_never_said_that_it_knows_the_end(self, each: Each) -> None:
        for status in SeatStatus:
            each.add_seats([a_seat(status.value, status=status)])
        assert [seat.job_id for seat in each.unconfirmed_seats()] == ["unconfirmed"]

    def test_plain_v1_parties_that_run_or_drain_something(self, each: Each) -> None:
        for status in SeatStatus:
            each.add_seats([a_seat(status.value, status=status, is_plain_v1=True), a_seat(status.value, OTHER_HOST)])
        live = {"held", "starting", "started", "stopping", "draining"}
        assert {seat.job_id for seat in each.plain_v1_seats()} == live
        assert {str(seat.party) for seat in each.plain_v1_seats()} == {"host 10000"}

    def test_who_says_who_it_is(self, each: Each) -> None:
        """It has accepted a job that is not over, and not as a plain v1 one."""
        seated = {"joined", "checking", "applying", "held", "starting", "started", "stopping", "draining"}
        for number, status in enumerate(SeatStatus):
            party = replace(HOST, party_id=str(20_000 + number))
            each.add_seats([a_seat(status.value, party, status=status)])
            assert each.says_who(party.party_id) is (status.value in seated), status
        each.add_seats([a_seat("plain", party=OTHER_HOST, status=SeatStatus.STARTED, is_plain_v1=True)])
        assert each.says_who("10001") is False
        assert each.says_who("77") is False

    def test_parties_with_something_of_ours(self, each: Each) -> None:
        live = {"held", "starting", "started", "stopping", "draining"}
        for status in SeatStatus:
            each.add_seats([a_seat(status.value, status=status)])
        assert {seat.status.value for seat in each.seats_at("10000")} == live
        each.add_seats([a_seat(party=OTHER_HOST), a_seat("x", GUEST, status=SeatStatus.STARTED)])
        each.add_seats([a_seat("y", status=SeatStatus.STARTED), a_seat("y", ARBITER, status=SeatStatus.STARTED)])
        assert each.parties_with_seats() == ("10000", "9999")
        assert each.seats_at("10001") == ()
        assert [str(seat.party) for seat in each.seats_at("10000") if seat.job_id == "y"] == [
            "arbiter 10000",
            "host 10000",
        ]


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
        stop = MoveTask("reader_0", 0, TaskStatus.WAITING, TaskStatus.STOPPING, policy="restart_task")
        assert each.move_task("j1", stop, 5)
        why = {"reason": Reason.WORKER_ERROR, "message": "no data", "caused_by": "host 10000", "exit_code": 3}
        assert each.move_task("j1", MoveTask("reader_0", 0, TaskStatus.STOPPING, TaskStatus.FAILED, **why), 6)
        for party in (GUEST, HOST):
            row = a_task(party=party, status=TaskStatus.FAILED, policy="restart_task", **over_all(why, 6))
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


class WorkerCases(Cases):
    def test_a_worker_comes_back_as_it_was_added(self, each: Each) -> None:
        each.add_worker(a_worker(pid=7, is_stopping=True, start_time=3))
        assert each.worker("w1") == a_worker()
        assert each.worker("w2") is None

    def test_a_worker_is_added_once(self, each: Each) -> None:
        each.add_worker(a_worker())
        with pytest.raises(StorageFailed):
            each.add_worker(a_worker(folder="/other"))
        assert each.worker("w1") == a_worker()

    def test_a_worker_runs_and_exits(self, each: Each) -> None:
        with_tasks(each, a_task())
        each.add_worker(a_worker())
        assert each.move_worker(a_worker(), WorkerStatus.RUNNING, 5, 4711, 99)
        running = a_worker(status=WorkerStatus.RUNNING, pid=4711, pid_started=99, start_time=5)
        assert each.worker("w1") == running
        assert each.move_worker(a_worker(), WorkerStatus.EXITED, 6, end=DONE) is False
        assert each.move_worker(running, WorkerStatus.EXITED, 6, end=DONE)
        assert each.worker("w1") == exited(running)

    def test_a_worker_that_never_ran_exits_without_a_pid(self, each: Each) -> None:
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

    def test_one_that_needs_nothing_finds_capacity_in_a_full_engine(self, each: Each) -> None:
        elastic = a_worker("e", is_elastic=True)
        assert each.add_elastic_worker(elastic) is False         # there is no engine
        each.register_engine(an_engine(cores=0, memory=0), {}, 1)
        assert each.add_elastic_worker(elastic)
        assert each.elastic_workers() == (elastic,)


class OutboxCases(Cases):
    COMMAND = Command(
        CommandKind.TASK_STOP, "j1", HOST, 2, "reader_0", 3, "canceled", {"incarnation": "abc", "deep": [{"x": None}]}
    )

    def test_a_command_comes_back_as_it_was_put(self, each: Each) -> None:
        number = each.put_command(replace(self.COMMAND, id=77, attempts=5), 1)
        assert each.commands_after(0) == (replace(self.COMMAND, id=number),)

    def test_every_kind_of_command_is_kept(self, each: Each) -> None:
        for kind in CommandKind:
            each.put_command(Command(kind, "j1", HOST), 1)
        assert [command.kind for command in each.commands_after(0)] == list(CommandKind)

    def test_commands_go_in_the_order_in_which_they_came(self, each: Each) -> None:
        numbers = [each.put_command(replace(self.COMMAND, job_id=name), 1) for name in ("j3", "j1", "j2")]
        assert numbers == sorted(set(numbers))
        assert [command.job_id for command in each.commands_after(0)] == ["j3", "j1", "j2"]
        assert [command.job_id for command in each.commands_after(numbers[0])] == ["j1", "j2"]
        assert each.commands_after(numbers[2]) == ()

    def test_a_command_is_taken_once(self, each: Each) -> None:
        first, second = (each.put_command(self.COMMAND, 1) for _ in range(2))
        assert [each.take_command(first) for _ in range(2)] == [True, False]
        assert each.take_command(second + 1) is False
        assert [command.id for command in each.commands_after(0)] == [second]

    def test_a_number_is_not_used_again(self, each: Each) -> None:
        first = each.put_command(self.COMMAND, 1)
        each.take_command(first)
        assert each.put_command(self.COMMAND, 1) > first

    def test_commands_that_are_older_than_some_steady_time(self, each: Each) -> None:
        first, second = (each.put_command(self.COMMAND, 1, since) for since in (5, 7))
        assert [(one.id, one.since) for one in each.commands_before(7)] == [(first, 5)]
        assert [one.id for one in each.commands_before(8)] == [first, second]

    def test_reports_that_wait_for_their_way_to_an_initiator(self, each: Each) -> None:
        kinds = (CommandKind.REPORT, CommandKind.ASK_STOP, CommandKind.REPORT, CommandKind.REPORT)
        numbers = [each.put_command(Command(kind, "j1", GUEST), 1) for kind in kinds]
        each.put_command(Command(CommandKind.REPORT, "j1", HOST), 1)
        assert [one.id for one in each.reports_to(GUEST.party_id, 9)] == [numbers[0], *numbers[2:]]
        assert [one.id for one in each.reports_to(GUEST.party_id, 2)] == numbers[2:]
        assert each.reports_to("10009", 9) == ()

    def test_a_body_that_is_no_json_is_refused(self, each: Each) -> None:
        with pytest.raises(TypeError):
            each.put_command(replace(self.COMMAND, body={"party": HOST}), 1)
        assert each.commands_after(0) == ()


class SchedulerCases(Cases):
    def test_signs_of_life_are_counted(self, each: Each) -> None:
        assert each.heartbeats() == {}
        for party_id in ("10000", "9999", "10000"):
            each.record_heartbeat(party_id)
        assert each.heartbeats() == {"10000": 2, "9999": 1}

    def test_what_is_wrong_with_the_way_to_a_party_is_kept_until_it_is_over(self, each: Each) -> None:
        silent = PeerTrouble("10000", 5, "connection refused")
        cut_off = PeerTrouble("10001", 0, "", 7, "x" * 400)
        for trouble in (silent, cut_off, PeerTrouble("10002")):
            each.note_trouble(trouble)
        assert each.peer_troubles() == {"10000": silent, "10001": cut_off}
        each.record_heartbeat("10000")
        assert each.heartbeats() == {"10000": 1}
        both = PeerTrouble("10000", 5, "no answer in time", 9, "refuses our signature")
        each.note_trouble(both)
        each.note_trouble(PeerTrouble("10001"))
        assert each.peer_troubles() == {"10000": both}
        each.forget_troubles()
        assert (each.peer_troubles(), each.heartbeats()) == ({}, {"10000": 1})

    def test_nobody_schedules_at_first(self, each: Each) -> None:
        assert each.scheduler() == ("", 0)
        assert each.renew_scheduler_lease("me", 1) is False
        assert each.take_scheduler_lease("", 0, "me")
        owner, counter = each.scheduler()
        assert (owner, counter > 0) == ("me", True)

    def test_every_look_of_the_owner_counts(self, each: Each) -> None:
        each.scheduler()
        each.take_scheduler_lease("", 0, "me")
        before = each.scheduler()[1]
        assert [each.renew_scheduler_lease(owner, 5) for owner in ("me", "you", "me")] == [True, False, True]
        assert each.scheduler() == ("me", before + 2)

    def test_steady_time_is_what_the_owner_wrote_down_and_goes_on_from_there(self, each: Each) -> None:
        assert each.steady() == 0
        each.scheduler()
        each.take_scheduler_lease("", 0, "me")
        assert each.renew_scheduler_lease("me", 70)
        assert each.renew_scheduler_lease("you", 99) is False
        assert each.steady() == 70
        each.take_scheduler_lease(*each.scheduler(), "you")
        assert each.steady() == 70

    def test_only_one_that_stands_still_is_replaced(self, each: Each) -> None:
        each.scheduler()
        each.take_scheduler_lease("", 0, "me")
        _, seen = each.scheduler()
        each.renew_scheduler_lease("me", 1)
        assert each.take_scheduler_lease("me", seen, "you") is False
        assert each.take_scheduler_lease("you", seen + 1, "you") is False
        assert each.take_scheduler_lease("me", seen + 1, "you")
        assert each.renew_scheduler_lease("me", 2) is False, "fenced"
        assert each.renew_scheduler_lease("you", 2)


class PermissionCases(Cases):
    def test_what_a_party_is_granted_stays_until_it_is_taken_back(self, each: Each) -> None:
        reader, table = Thing(Kind.COMPONENT, "Reader"), Thing(Kind.DATASET, "t", "demo")
        everything = Thing(Kind.DATASET, "*", "*")
        each.grant("9999", [reader, table])
        each.grant("9999", [reader, everything, Thing(Kind.DATASET, "Reader", "demo")])
        each.grant("10000", [reader])
        assert each.granted("9999") == {reader, table, everything, Thing(Kind.DATASET, "Reader", "demo")}
        each.revoke("9999", [reader, Thing(Kind.DATASET, "t", "other")])
        assert each.granted("9999") == {table, everything, Thing(Kind.DATASET, "Reader", "demo")}
        assert (each.granted("10000"), each.granted("10001")) == ({reader}, frozenset())

    def test_names_are_told_apart_as_they_are_written(self, each: Each) -> None:
        each.grant("9999", [Thing(Kind.DATASET, "t", "demo")])
        assert Thing(Kind.DATASET, "T", "demo") not in each.granted("9999")
        each.grant("9999", [Thing(Kind.DATASET, "T", "demo")])
        assert len(each.granted("9999")) == 2


class SiteKeyCases(Cases):
    def test_a_party_has_one_key_which_is_not_replaced_unseen(self, each: Each) -> None:
        old, new = SiteKey("10000", "a" * 64, "an old one"), SiteKey("10000", "b" * 64, "a new one")
        assert (each.site_key("10000"), each.replace_site_key(new, old.key_id, 1)) == (None, False)
        assert each.add_site_key(old, 1)
        assert each.add_site_key(new, 2) is False
        assert each.replace_site_key(new, "c" * 64, 2) is False
        assert each.site_key("10000") == old
        assert each.replace_site_key(new, old.key_id, 2)
        assert (each.site_key("10000"), each.site_key("1000")) == (new, None)

    def test_a_key_that_is_dropped_is_gone(self, each: Each) -> None:
        each.add_site_key(SiteKey("9999", "a" * 64, "x"), 1)
        each.add_site_key(SiteKey("10000", "b" * 64, "y"), 1)
        assert each.drop_site_key("10000")
        assert each.drop_site_key("10000") is False
        assert (each.site_key("10000"), each.site_key("9999").pem) == (None, "x")


class MessageCases(Cases):
    def test_text_for_people_are_added_once(self, each: Each) -> None:
        with_jobs(each, a_job())
        assert each.add_message(a_job().key, "released: why")
        assert each.add_message(a_job().key, "released: why") is False
        assert each.add_message(a_job().key, "and more")
        assert each.job(a_job().key).message == "released: why; and more"
        assert each.add_message(a_job("nobody").key, "x") is False


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


class RetentionCases(Cases):
    """What has ended and what is left of it."""

    @pytest.fixture
    def ended(self, each: Each) -> Each:
        """Jobs j1, j2 and j3, which ended at 100, 200 and 200."""
        for job_id, at in (("j1", 100), ("j2", 200), ("j3", 200)):
            with_jobs(each, a_job(job_id))
            each.move_job(a_job(job_id), MoveJob(JobStatus.FAILED, Reason.NO_CAPACITY, "late"), at)
        return each

    def test_ended_jobs_come_oldest_first_and_a_few_at_a_time(self, ended: Each) -> None:
        with_jobs(ended, a_job("j4"))
        assert ended.ended_jobs(201, (0, ""), 2) == ((100, "j1"), (200, "j2"))
        assert ended.ended_jobs(201, (200, "j2"), 2) == ((200, "j3"),)
        assert ended.ended_jobs(201, (200, "j3"), 2) == ()
        assert ended.ended_jobs(200, (0, ""), 9) == ((100, "j1"),)

    def test_jobs_past_their_ttl_come_in_order_and_a_few_at_a_time(self, each: Each) -> None:
        for job_id, ttl, at in (("j1", 60, 1_000), ("j2", 90, 1_000), ("j3", None, 1), ("j4", 60, 0), ("j5", 60, 900)):
            with_jobs(each, a_job(job_id, ttl_seconds=ttl))
            assert each.job(a_job(job_id).key).ttl_seconds == ttl
            if at:
                each.move_job(a_job(job_id), MoveJob(JobStatus.FAILED, Reason.NO_CAPACITY, "late"), at)
        assert each.jobs_past_ttl(61_000, 0, "", 9) == ("j5",)
        assert each.jobs_past_ttl(61_001, 0, "", 9) == ("j1", "j5")
        assert each.jobs_past_ttl(61_001, 0, "", 1) == ("j1",)
        assert each.jobs_past_ttl(91_001, 0, "j1", 9) == ("j2", "j5")
        assert each.jobs_past_ttl(91_001, 3_600, "", 9) == ()
        assert each.jobs_past_ttl(3_601_001, 3_600, "", 9) == ("j1", "j2", "j5")

    def test_the_ttl_is_that_of_the_newest_revision(self, each: Each) -> None:
        with_jobs(each, a_job(ttl_seconds=60))
        row = each.job(a_job().key)
        assert each.revise(row, replace(row, ttl_seconds=None, revision=1), DOCUMENT)
        assert each.job(row.key).ttl_seconds is None

    def test_when_the_newest_ended(self, ended: Each) -> None:
        assert [ended.end_of_newest(count) for count in (1, 2, 3, 4)] == [200, 200, 100, 0]

    def test_the_seats_of_jobs_that_are_not_over(self, ended: Each) -> None:
        with_jobs(ended, a_job("j4"), a_job("j5", HOST, status=JobStatus.READY))
        assert set(ended.open_seats()) == {a_job("j4").key, a_job("j5", HOST).key}

    def test_an_ended_job_goes_with_all_that_is_known_of_it(self, ended: Each) -> None:
        task = a_task(job_id="j1")
        ended.add_tasks([task], a_job("j1"), DOCUMENT)
        ended.add_seats([a_seat(job_id="j1")])
        ended.begin_submission(Submission("r1", "j1", "d"), 1)
        ended.save_outputs([OutputTable(task.key, "data", "output_j1", "t")], 1)
        ended.save_table(TableMeta("output_j1", "t", "uri", 3, {}, origin="output", job_id="j1"), 1)
        ended.save_metrics([Metric(task.key, "train", "loss", (), {})], 1)
        ended.save_summary(task.key, {"rows": 3}, 1)
        assert ended.forget_ended("j1")
        assert (ended.jobs_here("j1"), ended.tasks("j1"), ended.seats("j1")) == ((), (), ())
        assert (ended.submission_of("j1"), ended.summary("j1", "reader_0", GUEST)) == (None, None)
        assert (ended.outputs("j1", "reader_0", GUEST), ended.metrics("j1", "reader_0", GUEST)) == ((), ())
        assert ended.table("output_j1", "t") is not None, "somebody may read it"
        assert ended.jobs_here("j2")

    def test_a_job_is_open_while_a_row_is(self, ended: Each) -> None:
        with_jobs(ended, a_job("j1", HOST))
        assert ended.is_open("j1")
        assert ended.forget_ended("j1") is False
        assert len(ended.jobs_here("j1")) == 2

    def test_a_job_is_open_while_a_worker_goes_on(self, ended: Each) -> None:
        worker = a_worker("w1", a_task(job_id="j1"))
        ended.add_worker(worker)
        assert ended.forget_ended("j1") is False
        ended.move_worker(worker, WorkerStatus.EXITED, 5, end=DONE)
        assert ended.forget_ended("j1")

    def test_a_job_is_open_while_a_command_about_it_waits(self, ended: Each) -> None:
        number = ended.put_command(Command(CommandKind.STATUS, "j1", HOST, argument="failed"), 1)
        assert ended.forget_ended("j1") is False
        ended.take_command(number)
        assert ended.forget_ended("j1")

    def test_nothing_of_an_unknown_job_is_open(self, each: Each) -> None:
        assert each.is_open("nobody") is False

    def test_tables_that_tasks_made_come_oldest_first(self, each: Each) -> None:
        for name, at, origin in (("b", 10, "output"), ("a", 10, "output"), ("c", 20, "output"), ("d", 5, "upload")):
            each.save_table(TableMeta("n", name, "uri", 1, {}, origin=origin), at)
        assert [one.name for one in each.output_tables(21, (0, "", ""), 2)] == ["a", "b"]
        assert [one.name for one in each.output_tables(21, (10, "n", "b"), 2)] == ["c"]
        assert [one.name for one in each.output_tables(20, (0, "", ""), 9)] == ["a", "b"]


class LeftCases(Cases):
    """What the tasks of jobs left here."""

    OURS = (a_task("a"), a_task("a", 1), a_task("b", party=HOST), a_task("b", job_id="j2"))

    def filled(self, each: Each) -> None:
        with_tasks(each, *self.OURS)
        for task in self.OURS:
            key = task.key
            each.save_outputs([OutputTable(key, "data", "n", f"{key.job_id}_{key.name}_{key.version}")], 5)
            each.save_metrics([Metric(key, "train", "loss", ((1, 2),), {})], 5)
            each.save_summary(key, {"rows": 3}, 5)

    def test_all_versions_of_all_tasks_are_found(self, each: Each) -> None:
        self.filled(each)
        found = each.results_of("j1")
        assert [(one.task.name, one.task.version, one.name) for one in found] == [
            ("a", 0, "j1_a_0"), ("a", 1, "j1_a_1"), ("b", 0, "j1_b_0")]
        assert each.results_of("j9") == ()

    @pytest.mark.parametrize(
        ("scope", "left"),
        [
            (Scope("j1"), []), (Scope("j1", GUEST), ["b"]), (Scope("j1", HOST, "b"), ["a", "a"]),
            (Scope("j1", task="a"), ["b"]), (Scope("j1", HOST, "a"), ["a", "a", "b"]), (Scope("j9"), ["a", "a", "b"]),
        ],
    )  # fmt: skip
    def test_what_is_in_the_scope_goes(self, each: Each, scope: Scope, left: list[str]) -> None:
        self.filled(each)
        gone = 3 - len(left)
        assert (each.drop_results(scope), each.drop_metrics(scope)) == (2 * gone, gone)
        assert [one.task.name for one in each.results_of("j1")] == left
        assert bool(each.metrics("j1", "a", GUEST)) is bool(each.summary("j1", "a", GUEST)) is ("a" in left)
        assert (len(each.results_of("j2")), len(each.metrics("j2", "b", GUEST))) == (1, 1)

    def test_the_jobs_that_handed_a_table_on(self, each: Each) -> None:
        self.filled(each)
        keys = [task.key for task in self.OURS]
        each.save_outputs([OutputTable(key, "raw", "it", "numbers") for key in keys], 6)
        assert each.jobs_with("it", "numbers", 9) == ("j2", "j1")
        assert each.jobs_with("it", "numbers", 1) == ("j2",)
        assert each.jobs_with("it", "j1_a_0", 9) == ()

    def test_what_was_read_is_told_of_the_table_and_not_as_made(self, each: Each) -> None:
        with_tasks(each, *self.OURS)
        reads, writes = self.OURS[2].key, self.OURS[3].key
        each.save_outputs([OutputTable(reads, READ, "it", "numbers"), OutputTable(writes, READ, "it", "numbers")], 6)
        each.save_outputs([OutputTable(writes, "data", "it", "made")], 6)
        assert each.jobs_with("it", "numbers", 9) == ("j2", "j1")
        assert [one.data_name for one in each.results_of("j2")] == [READ, "data"]
        assert each.outputs("j1", "b", reads.party) == ()
        assert [one.data_name for one in each.outputs("j2", "b", writes.party)] == ["data"]

    def test_tables_that_are_disabled(self, each: Each) -> None:
        for name, is_disabled in (("b", True), ("a", True), ("c", False)):
            each.save_table(TableMeta("n", name, "uri", 1, {}, is_disabled=is_disabled), 5)
        assert [one.name for one in each.disabled_tables(9)] == ["a", "b"]
        assert [one.name for one in each.disabled_tables(1)] == ["a"]

    def test_notes_are_those_of_one_row(self, each: Each) -> None:
        with_jobs(each, a_job(), a_job("j2"))
        assert each.describe(a_job().key, "seen")
        assert (each.document("j1").description, each.document("j2").description) == ("seen", DOCUMENT.description)
        assert each.describe(a_job("j9").key, "x") is False

    def test_jobs_by_the_range_of_their_ids(self, each: Each) -> None:
        with_jobs(each, a_job("20260101120000"), a_job("20260101130000"), a_job("20260102120000"))
        assert each.job_ids("20260101", "20260101:", 9) == ("20260101120000", "20260101130000")
        assert each.job_ids("20260101", "20260101:", 1) == ("20260101120000",)
        assert each.job_ids("20260103", "20260103:", 9) == ()


class SubmissionCases(Cases):
    def test_a_request_id_counts_once(self, each: Each) -> None:
        first = Submission("r1", "j1", "digest")
        assert each.begin_submission(first, 5) is None
        assert each.begin_submission(Submission("r1", "j2", "other"), 6) == first
        assert each.submission_of("j1") == first
        assert each.submission_of("j2") is None

    def test_the_first_decision_stays(self, each: Each) -> None:
        each.begin_submission(Submission("r1", "j1", "d", 9, "not stored"), 5)
        each.begin_submission(Submission("r2", "j2", "d"), 5)
        each.decide_submission("j1", 103, "host 10000 refused")
        each.decide_submission("j1", 0, "success")
        each.decide_submission("nobody", 0, "success")
        decided = Submission("r1", "j1", "d", 103, "host 10000 refused")
        assert each.submission_of("j1") == decided
        assert each.submission_of("j2") == Submission("r2", "j2", "d")

    def test_a_request_id_is_free_again_after_a_refusal(self, each: Each) -> None:
        each.begin_submission(Submission("r1", "j1", "d"), 5)
        each.decide_submission("j1", 103, "host 10000 refused")
        corrected = Submission("r1", "j2", "other")
        assert each.begin_submission(corrected, 6) is None
        assert (each.submission_of("j1"), each.submission_of("j2")) == (None, corrected)
        each.decide_submission("j2", 0, "success")
        accepted = Submission("r1", "j2", "other", 0, "success")
        assert each.begin_submission(Submission("r1", "j3", "d"), 7) == accepted

    def test_only_what_was_accepted_is_not_forgotten(self, each: Each) -> None:
        for name in ("1", "2", "3", "4"):
            each.begin_submission(Submission(f"r{name}", f"j{name}", "d"), 5)
        each.decide_submission("j1", 0, "success")
        each.decide_submission("j2", 103, "refused")
        each.decide_submission("j3", 103, "refused")
        for job_id in ("j1", "j2", "nobody"):
            each.forget_submission(job_id)
        gone = [job_id for job_id in ("j1", "j2", "j3", "j4") if each.submission_of(job_id) is None]
        assert gone == ["j2"]
        each.forget_refused_submissions()
        gone = [job_id for job_id in ("j1", "j2", "j3", "j4") if each.submission_of(job_id) is None]
        assert gone == ["j2", "j3"]
        each.forget_submission("j4")
        assert each.submission_of("j4") is None, "nobody waits for it any more"


class ResultCases(Cases):
    TABLE = TableMeta(
        "experiment", "breast", "file:///t/1", 569, {"header": ["x0"], "sid": "id"}, 4, "upload", "j1", ";", False,
        is_disabled=True, extend_sid=True, replaced=3,
    )

    def test_a_table_comes_back_as_it_was_saved(self, each: Each) -> None:
        each.save_table(self.TABLE, 7)
        assert each.table("experiment", "breast") == replace(self.TABLE, create_time=7)
        assert each.table("experiment", "other") is None

    def test_a_connector_is_there_under_its_name_until_another_takes_its_place(self, each: Each) -> None:
        each.save_connector(Connector("exports", "PATH", {"path": "/data/\u00e4"}), 7)
        each.save_connector(Connector("Exports", "FILE", {"path": "/a"}), 7)
        assert each.connector("exports") == Connector("exports", "PATH", {"path": "/data/\u00e4"})
        each.save_connector(Connector("exports", "LOCALFS", {"path": "/data"}), 8)
        assert each.connector("exports") == Connector("exports", "LOCALFS", {"path": "/data"})
        assert each.connector("Exports") == Connector("Exports", "FILE", {"path": "/a"})
        assert each.connector("others") is None

    def test_a_table_is_replaced(self, each: Each) -> None:
        each.save_table(self.TABLE, 7)
        each.save_table(replace(self.TABLE, count=1, schema={}), 8)
        assert each.table("experiment", "breast") == replace(self.TABLE, count=1, schema={}, create_time=8)

    def test_a_table_is_dropped_once(self, each: Each) -> None:
        each.save_table(self.TABLE, 7)
        each.save_table(replace(self.TABLE, name="other"), 7)
        assert [each.drop_table("experiment", "breast") for _ in range(2)] == [True, False]
        assert each.table("experiment", "breast") is None
        assert each.table("experiment", "other") is not None

    def test_what_a_table_may_leave_out(self, each: Each) -> None:
        each.save_table(replace(self.TABLE, partitions=0, id_delimiter=""), 7)
        found = each.table("experiment", "breast")
        assert (found.partitions, found.id_delimiter) == (1, ",")

    def test_outputs_of_the_newest_version_that_has_any(self, each: Each) -> None:
        old = [OutputTable(a_task(version=0).key, name, "ns", f"old_{name}") for name in ("b", "a")]
        new = OutputTable(a_task(version=2).key, "a", "ns", "new", written_by="j0")
        each.save_outputs(old, 1)
        assert each.outputs("j1", "reader_0", GUEST) == (old[1], old[0])
        each.save_outputs([new, OutputTable(a_task(party=HOST, version=3).key, "a", "ns", "theirs")], 2)
        assert each.outputs("j1", "reader_0", GUEST) == (new,)
        assert each.outputs("j1", "other", GUEST) == ()

    def test_an_output_saved_again_is_the_later_one(self, each: Each) -> None:
        output = OutputTable(a_task().key, "data", "ns", "first")
        each.save_outputs([output], 1)
        each.save_outputs([replace(output, name="second")], 2)
        assert each.outputs("j1", "reader_0", GUEST) == (replace(output, name="second"),)

    def test_metrics_in_the_order_in_which_they_came(self, each: Each) -> None:
        metrics = [
            Metric(a_task().key, "train", name, ((0, 0.5), ("auc", [1, 2])), {"unit": "", "name": name})
            for name in ("loss", "auc", "loss")
        ]
        each.save_metrics(metrics, 1)
        assert each.metrics("j1", "reader_0", GUEST) == tuple(metrics)
        newer = replace(metrics[0], task=a_task(version=1).key, data=(), meta={})
        each.save_metrics([newer], 2)
        assert each.metrics("j1", "reader_0", GUEST) == (newer,)
        assert each.metrics("j1", "reader_0", HOST) == ()

    def test_the_newest_summary(self, each: Each) -> None:
        assert each.summary("j1", "reader_0", GUEST) is None
        for version, value in ((1, "one"), (0, "nought"), (1, "one again")):
            each.save_summary(a_task(version=version).key, {"value": value, "deep": [1, {}]}, 1)
        assert each.summary("j1", "reader_0", GUEST) == {"value": "one again", "deep": [1, {}]}
        assert each.summary("j1", "other", GUEST) is None


class StoreContract(
    TransactionCases,
    ReadingCases,
    JobCases,
    RoundCases,
    QueueCases,
    PendingCases,
    ResourceCases,
    SeatCases,
    TaskCases,
    WorkerCases,
    OutboxCases,
    SchedulerCases,
    PermissionCases,
    SiteKeyCases,
    LeftCases,
    MessageCases,
    FailedWorkerCases,
    RetentionCases,
    SubmissionCases,
    ResultCases,
):
    """All of it."""


def at_once(store: Any, *calls: Callable[[Any], Any]) -> list[Any]:
    """What each call answers, each in a thread, on a connection and in a transaction of its own.

    A transaction that the database gives up (a deadlock, say) is decided anew, as the coordinator does it."""
    answers: list[Any] = [None] * len(calls)
    start = threading.Barrier(len(calls))

    def run(place: int, call: Callable[[Any], Any]) -> None:
        start.wait()
        for attempt in range(10):
            try:
                with store.transaction() as tx:
                    answers[place] = call(tx)
                break
            except StorageFailed as failed:
                answers[place] = failed if attempt == 9 else None
        store.close()

    threads = [threading.Thread(target=run, args=one) for one in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


class StoreRaces(Cases):
    """Several connections at once: of those that want the same, one gets it."""

    ROUNDS = 5
    THREADS = 6

    def test_a_reader_waits_for_nobody(self, store: Any, each: Each) -> None:
        each.record_heartbeat("10000")
        seen: list[Any] = []

        def read() -> None:
            with store.reading() as tx:
                seen.append(tx.heartbeats())
            store.close()

        with store.transaction() as tx:
            tx.record_heartbeat("10000")
            thread = threading.Thread(target=read)
            thread.start()
            thread.join(90)
            assert seen == [{"10000": 1}], "what is committed, while somebody writes"
        read()
        assert seen[1] == {"10000": 2}

    def once(self, store: Any, call: Callable[[Any, int, int], Any]) -> None:
        for number in range(self.ROUNDS):
            calls = [lambda tx, n=number, who=who: call(tx, n, who) for who in range(self.THREADS)]
            answers = at_once(store, *calls)
            assert sorted(answers, key=bool) == [False] * (self.THREADS - 1) + [True], answers

    def test_the_last_core_goes_to_one(self, store: Any, each: Each) -> None:
        each.register_engine(an_engine(cores=self.ROUNDS), {}, 1)
        places = list(product(range(self.ROUNDS), range(self.THREADS)))
        jobs = {(number, who): a_job(f"j{number}_{who}") for number, who in places}
        with_jobs(each, *jobs.values())
        for number in range(self.ROUNDS):
            each.register_engine(an_engine(cores=number + 1), {}, 1)
            keys = [jobs[number, who].key for who in range(self.THREADS)]
            answers = at_once(store, *(lambda tx, key=key: tx.reserve(key, 1, 0, "t", 1, 2) for key in keys))
            assert sorted(answers) == [False] * (self.THREADS - 1) + [True]
            assert in_use(each, *keys) == (1, 0)
            assert each.engine().remaining_cores == 0

    def test_a_job_reserves_once(self, store: Any, each: Each) -> None:
        each.register_engine(an_engine(cores=100), {}, 1)
        with_jobs(each, *(a_job(f"j{number}") for number in range(self.ROUNDS)))
        self.once(store, lambda tx, number, who: tx.reserve(a_job(f"j{number}").key, 2, 0, f"t{who}", 1, 2))
        assert each.engine().remaining_cores == 100 - 2 * self.ROUNDS

    def test_everything_comes_back_once(self, store: Any, each: Each) -> None:
        each.register_engine(an_engine(cores=100), {}, 1)
        for number in range(self.ROUNDS):
            with_jobs(each, a_job(f"j{number}"))
            assert each.reserve(a_job(f"j{number}").key, 2, 0, "t", 1, 2)
        self.once(store, lambda tx, number, who: tx.give_back(a_job(f"j{number}").key, None, 3))
        assert each.engine().remaining_cores == 100

    def test_a_reservation_round_begins_once(self, store: Any, each: Each) -> None:
        with_jobs(each, *(a_job(f"j{number}") for number in range(self.ROUNDS)))
        self.once(store, lambda tx, number, who: tx.begin_round(a_job(f"j{number}").key, f"s{who}", 5))
        assert {job.round_number for job in each.waiting_jobs()} == {1}

    def test_a_job_moves_once(self, store: Any, each: Each) -> None:
        with_jobs(each, *(a_job(f"j{number}") for number in range(self.ROUNDS)))
        self.once(store, lambda tx, number, who: tx.move_job(a_job(f"j{number}"), MoveJob(JobStatus.RUNNING), who))

    def test_a_job_is_added_once(self, store: Any, each: Each) -> None:
        self.once(store, lambda tx, number, who: tx.add_job(a_job(f"j{number}", run=who), DOCUMENT))

    def test_tasks_are_added_once(self, store: Any, each: Each) -> None:
        def add(tx: Any) -> None:
            tx.add_tasks([a_task("a"), a_task("b")], a_job(), DOCUMENT)

        assert at_once(store, *[add] * self.THREADS) == [None] * self.THREADS
        assert each.tasks("j1") == (a_task("a"), a_task("b"))

    def test_a_share_has_one_worker(self, store: Any, each: Each) -> None:
        with_tasks(each, *(a_task(f"t_{number}") for number in range(self.ROUNDS)))
        self.once(store, lambda tx, number, who: tx.set_worker(a_task(f"t_{number}").key, f"w{who}"))

    def test_a_request_id_counts_once(self, store: Any, each: Each) -> None:
        def begin(tx: Any, number: int, who: int) -> bool:
            known = tx.begin_submission(Submission(f"r{number}", f"j{who}", "d"), 5)
            assert known is None or known.request_id == f"r{number}"
            return known is None

        self.once(store, begin)

    def test_a_scheduler_is_replaced_once(self, store: Any, each: Each) -> None:
        each.scheduler()
        for _ in range(self.ROUNDS):
            owner, counter = each.scheduler()
            calls = [
                lambda tx, o=owner, c=counter, who=who: tx.take_scheduler_lease(o, c, f"s{who}")
                for who in range(self.THREADS)
            ]
            assert sorted(at_once(store, *calls)) == [False] * (self.THREADS - 1) + [True]

    def test_a_command_is_taken_once(self, store: Any, each: Each) -> None:
        numbers = [each.put_command(Command(CommandKind.CREATE, "j1", HOST), 1) for _ in range(self.ROUNDS)]
        self.once(store, lambda tx, number, who: tx.take_command(numbers[number]))

    def test_no_sign_of_life_is_lost(self, store: Any, each: Each) -> None:
        each.record_heartbeat("10000")
        for _ in range(self.ROUNDS):
            at_once(store, *[lambda tx: tx.record_heartbeat("10000")] * self.THREADS)
        assert each.heartbeats() == {"10000": 1 + self.ROUNDS * self.THREADS}

    def test_the_first_sign_of_life_may_come_twice(self, store: Any, each: Each) -> None:
        at_once(store, *[lambda tx: tx.record_heartbeat("10000")] * self.THREADS)
        assert 1 <= each.heartbeats()["10000"] <= self.THREADS

    def test_servers_that_start_together_register_one_engine(self, store: Any, each: Each) -> None:
        at_once(store, *[lambda tx: tx.register_engine(an_engine(8), {}, 1)] * self.THREADS)
        assert each.engine() == EngineState("LOCAL", 8, 1024, 8, 1024)
        for cores in (16, 4, 32):
            at_once(store, *[lambda tx, cores=cores: tx.register_engine(an_engine(cores), {}, 1)] * self.THREADS)
            assert each.engine() == EngineState("LOCAL", cores, 1024, cores, 1024)

    def test_the_books_balance_under_everything_at_once(self, store: Any, each: Each) -> None:
        jobs = [a_job(f"j{number}") for number in range(self.THREADS)]
        with_jobs(each, *jobs)
        each.register_engine(an_engine(10, 1000), {}, 1)

        def churn(who: int) -> Callable[[Any], None]:
            def call(tx: Any) -> None:
                key = jobs[who].key
                tx.reserve(key, 1 + who % 3, 10 * who, f"t{who}", 1, 2)
                if who % 2:
                    tx.register_engine(an_engine(8 + who, 1000 + who), {}, 3)
                tx.give_back(key, None, 4)
                tx.reserve(key, 1 + who % 2, who, f"u{who}", 2, 5)

            return call

        for _ in range(self.ROUNDS):
            answers = at_once(store, *(churn(who) for who in range(self.THREADS)))
            assert not [answer for answer in answers if isinstance(answer, Exception)]
            engine = each.engine()
            cores, memory = in_use(each, *(job.key for job in jobs))
            assert (cores + engine.remaining_cores, memory + engine.remaining_memory) == (engine.cores, engine.memory)
