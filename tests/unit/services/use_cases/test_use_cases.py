"""What the HTTP routes ask for: stop, commands and heartbeats of others, tables, priority, holds, approval."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.approval import Approval, ApprovalRule, Consent
from fate_flow.core.model.errors import (
    BadRequest,
    Conflict,
    JobNotFound,
    NotFound,
)
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import Answer, Command, Hold, JobKey, Seat
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus, SeatStatus, TaskStatus
from fate_flow.core.planning.actions import MoveJob
from fate_flow.core.planning.participant.reservation import why_not_ready
from fate_flow.core.planning.queue import why_a_copy_waits
from fate_flow.core.wire.v1.heartbeat import HeartbeatReply, WayBack
from fate_flow.records.operator_log.events import Event
from fate_flow.services.artifacts.tables import stored
from fate_flow.services.context.documents import digest_of
from fate_flow.store.values import TableMeta
from tests.kit.services.hand_server import HandServer
from tests.kit.services.hand_use_cases import Harness
from tests.kit.services.party_commands import DOCUMENT, HOLD, JOIN, RUN, a_host, command, create, task_command
from tests.kit.values import ELSE_ID, GUEST, HOST, INCARNATION, JOB_ID, NOW, OTHER, a_job, a_task

# ---------------------------------------------------------------------- stop and the queue


@pytest.mark.parametrize(
    ("status", "reason"),
    [("canceled", Reason.STOPPED_BY_USER), ("failed", Reason.TASK_FAILED), ("timeout", Reason.JOB_TIMEOUT)],
)
def test_a_stop_at_the_initiator_is_a_request_that_the_scheduler_carries_out(status: str, reason: Reason) -> None:
    harness = Harness().with_job()
    assert "success" in harness.use_cases.jobs.stop(JOB_ID, status)
    found = harness.server.job(GUEST)
    assert (found.reason, found.message) == (reason, "stopped by a user at party 9999")
    assert found.caused_by == "guest 9999", "a seat of the job, which other parties know"
    assert found.cancel_requested is (status == "canceled")
    assert harness.wakeups == [((JOB_ID,), False, False)]


def test_a_stop_elsewhere_is_asked_of_the_initiator() -> None:
    harness = Harness(HandServer("10000")).with_job(JobStatus.RUNNING, HOST)
    harness.use_cases.jobs.stop(JOB_ID)
    [asked] = harness.server.outbox()
    assert (asked.kind, asked.to, asked.argument) == (K.ASK_STOP, GUEST, "canceled")
    assert harness.wakeups == [((), True, False)]


def test_what_cannot_be_stopped() -> None:
    harness = Harness()
    with pytest.raises(JobNotFound):
        harness.use_cases.jobs.stop(JOB_ID)
    with pytest.raises(BadRequest, match="stop_status: 'success' is not one of canceled, failed, timeout"):
        harness.use_cases.jobs.stop(JOB_ID, "success")


def test_cleaning_the_queue_ends_every_waiting_job_of_this_initiator() -> None:
    harness = Harness().with_job()
    with harness.server.store.transaction() as tx:
        elsewhere = replace(a_job(JobStatus.WAITING, Party("host", "9999")), is_initiator=False)
        tx.add_job(replace(elsewhere, key=replace(elsewhere.key, job_id=ELSE_ID)), DOCUMENT)
    assert harness.use_cases.queue.clean_queue() == {JOB_ID: 0}
    assert harness.reason() is Reason.QUEUE_CLEANED


def test_cores_of_a_job_that_does_not_run_can_be_given_back_by_hand() -> None:
    harness = Harness(a_host(*HOLD))
    [(row, done)] = harness.use_cases.jobs.return_resources(JOB_ID)
    assert (row.party, done, harness.server.free_cores()) == (HOST, True, 8)
    assert harness.wakeups == [((), False, True)]
    assert [done for _, done in harness.use_cases.jobs.return_resources(JOB_ID)] == [False]
    with pytest.raises(Conflict, match=f"wait for that, or stop it .flow job stop -j {JOB_ID}"):
        Harness(a_host(*RUN)).use_cases.jobs.return_resources(JOB_ID)
    with pytest.raises(JobNotFound):
        Harness().use_cases.jobs.return_resources(JOB_ID)


def test_the_history_names_the_client_that_asked() -> None:
    """At a party that is not the initiator, too; without a client there is nothing to say."""
    initiator, host = Harness().with_job(), Harness(a_host(*HOLD))
    initiator.use_cases.queue.clean_queue("anna")
    host.use_cases.jobs.return_resources(JOB_ID, "bob")
    host.use_cases.jobs.stop(JOB_ID, by="bob")
    host.use_cases.jobs.stop(JOB_ID)
    named = []
    for harness in (initiator, host):
        with harness.server.store.reading() as tx:
            named += [(one.party, one.message) for one in tx.history(JOB_ID) if "requested" in one.message]
    assert named == [
        (GUEST, "cleaning of the queue requested by anna"), (HOST, "release of what it holds requested by bob"),
        (HOST, "stop as canceled requested by bob"),
    ]  # fmt: skip


# ---------------------------------------------------------------------- what other parties send


def test_commands_of_one_request_are_carried_out_in_their_order() -> None:
    harness = Harness(HandServer("10000"))
    commands = [*RUN, command(K.STATUS, argument="nonsense"), command(K.UPDATE)]
    answers = harness.use_cases.commands.carry_out(commands, "9999")
    assert [answer.retcode for answer in answers] == [0, 0, 0, 0, 0, 101, 0]
    assert harness.server.job().status is JobStatus.RUNNING
    assert harness.wakeups == [((JOB_ID,), False, False)], "for the status, which may have ended a row"


def test_commands_that_end_nothing_leave_the_scheduler_alone() -> None:
    """A transaction of the scheduler after each of them would delay the next command of the initiator."""
    harness = Harness(HandServer("10000"))
    for one in (*RUN, command(K.UPDATE), task_command(K.TASK_START)):
        [answer] = harness.use_cases.commands.carry_out([one], "9999")
        assert answer.is_ok, answer
    assert (harness.server.job().status, harness.wakeups) == (JobStatus.RUNNING, [])
    harness.use_cases.commands.carry_out([task_command(K.TASK_STOP)], "9999")
    assert [jobs for jobs, *_ in harness.wakeups] == [(JOB_ID,)]


def test_cores_that_another_party_gives_back_wake_the_own_queue() -> None:
    harness = Harness(a_host(*HOLD))
    harness.use_cases.commands.carry_out([command(K.RETURN, turn=1)], "9999")
    assert harness.wakeups == [((), False, True)]
    assert harness.informed_party == "9999", "its answer says how many are free"


def test_cores_that_a_stop_frees_are_announced_to_everybody() -> None:
    harness = Harness(a_host(*HOLD))
    [answer] = harness.use_cases.commands.carry_out([command(K.STOP, argument="canceled")], "9999")
    assert "remaining_cores" not in answer.data
    assert (harness.wakeups, harness.informed_party) == ([((JOB_ID,), True, True)], "")


def with_task() -> Harness:
    harness = Harness()
    with harness.server.store.transaction() as tx:
        own = a_job(JobStatus.RUNNING)
        tx.add_job(own, DOCUMENT)
        tx.add_tasks([a_task(), a_task(party=HOST)], own, DOCUMENT)
    return harness


def a_report(party: Party = HOST, status: str = "running", **body: Any) -> Command:
    known = {
        "job_id": JOB_ID, "component_name": "a", "task_version": 0, "role": party.role, "party_id": party.party_id,
        "party_status": status, "incarnation": INCARNATION, **body,
    }  # fmt: skip
    return Command(K.REPORT, JOB_ID, party, task="a", body=known)


@pytest.mark.parametrize(
    ("report", "caller", "retcode", "status"),
    [
        (a_report(), "10000", 0, TaskStatus.RUNNING),
        (a_report(), "10001", 108, TaskStatus.WAITING),
        (a_report(status="nonsense"), "10000", 101, TaskStatus.WAITING),
        (a_report(incarnation="ee" * 16), "10000", 0, TaskStatus.WAITING),
        (a_report(OTHER), "10001", 108, TaskStatus.WAITING),
    ],
)
def test_a_party_reports_for_itself_alone(report: Command, caller: str, retcode: int, status: TaskStatus) -> None:
    harness = with_task()
    [answer] = harness.use_cases.commands.carry_out([report], caller)
    assert answer.retcode == retcode
    assert harness.server.task("a", HOST).party_status is status


@pytest.mark.parametrize(
    ("argument", "caller", "answer", "reason"),
    [
        ("canceled", "10000", Answer(), Reason.STOPPED_BY_USER), ("failed", "10000", Answer(), Reason.TASK_FAILED),
        ("timeout", "10000", Answer(), Reason.JOB_TIMEOUT), ("canceled", "9999", Answer(), Reason.STOPPED_BY_USER),
        ("canceled", "10001", Answer(108, f"party 10001 has no seat in job {JOB_ID}"), None),
        ("success", "10000", Answer(101, "stop_status: 'success' is not one of canceled, failed, timeout"), None),
    ],
)  # fmt: skip
def test_only_a_party_of_the_job_may_ask_for_its_end(
    argument: str, caller: str, answer: Answer, reason: Reason | None
) -> None:
    harness = Harness().with_job(JobStatus.RUNNING)
    ask_stop = Command(K.ASK_STOP, JOB_ID, GUEST, argument=argument)
    assert harness.use_cases.commands.carry_out([ask_stop], caller) == [answer]
    assert harness.reason() is reason
    seats = {"9999": "guest 9999", "10000": "host 10000"}
    assert harness.server.job(GUEST).caused_by == (seats[caller] if reason else "")


def test_a_party_of_the_job_that_has_revoked_another_one_says_so() -> None:
    harness = Harness().with_job(JobStatus.RUNNING)
    body = {"reason": "party_revoked", "message": "party 10001 was revoked at party 10000: contract 7 has ended"}
    ask_stop = Command(K.ASK_STOP, JOB_ID, GUEST, argument="canceled", body=body)
    assert harness.use_cases.commands.carry_out([ask_stop], "10000") == [Answer()]
    found = harness.server.job(GUEST)
    assert (found.reason, found.caused_by) == (Reason.PARTY_REVOKED, "host 10000")
    assert found.message == f"asked by party 10000: {body['message']}"


def test_to_end_a_job_that_is_not_here_is_no_error() -> None:
    ask_stop = Command(K.ASK_STOP, JOB_ID, GUEST, argument="canceled")
    [answer] = Harness().use_cases.commands.carry_out([ask_stop], "10000")
    assert answer == Answer(0, f"can not found job {JOB_ID}", {"is_unknown": True})


@pytest.mark.parametrize(
    ("commands", "caller", "ended"),
    [
        (RUN, "9999", {}), (JOIN, "9999", {}),
        ((*RUN, command(K.STATUS, argument="failed", reason="task_failed")), "9999", {JOB_ID: "task_failed"}),
        ((), "9999", {JOB_ID: "it is not known here"}),
        (RUN, "10001", {JOB_ID: "it is not known here"}),        # of another initiator: none of its business
    ],
)  # fmt: skip
def test_a_heartbeat_is_counted_and_told_what_is_over(
    commands: tuple[Command, ...], caller: str, ended: dict[str, str]
) -> None:
    harness = Harness(a_host(*commands))
    assert harness.use_cases.commands.heartbeat(caller, [(JOB_ID, 0)]) == HeartbeatReply(ended)
    with harness.server.store.reading() as tx:
        assert tx.heartbeats() == {caller: 1}


def test_who_cannot_reach_an_initiator_says_so_in_the_answer_to_its_heartbeat_with_what_it_could_not_report() -> None:
    server, report = a_host(*RUN), {"job_id": JOB_ID, "party_status": "success"}
    with server.store.transaction() as tx:
        tx.note_trouble(PeerTrouble("9999", max(1, tx.steady()), "connection refused"))
        tx.put_command(Command(K.REPORT, JOB_ID, GUEST, body=report), NOW)
        tx.put_command(Command(K.ASK_STOP, JOB_ID, GUEST, argument="canceled"), NOW)
    use_cases = Harness(server).use_cases
    found = HeartbeatReply({}, WayBack(0, "connection refused"), (report,))
    assert use_cases.commands.heartbeat("9999", [(JOB_ID, 0)]) == found
    assert use_cases.commands.heartbeat("10001", []) == HeartbeatReply({})


# ---------------------------------------------------------------------- tables


def test_tables_are_dropped_and_closed_by_name() -> None:
    harness = Harness()
    table = TableMeta("n", "t", "standalone:///x/n/t", 3, {}, create_time=NOW)
    with harness.server.store.transaction() as tx:
        tx.save_table(table, NOW)
    harness.use_cases.tables.allow_table("n", "t", False)
    with harness.server.store.reading() as tx:
        assert tx.table("n", "t") == replace(table, is_disabled=True)
    harness.use_cases.tables.allow_table("n", "t", True)
    harness.use_cases.tables.drop_table("n", "t")
    assert harness.server.files.calls == [("remove_artifact", stored(table))]
    tables = harness.use_cases.tables
    for act in (lambda: tables.drop_table("n", "t"), lambda: tables.allow_table("n", "t", True)):
        with pytest.raises(NotFound, match="no find table: namespace 'n', table_name 't'"):
            act()


def test_a_command_that_was_created_for_somebody_else_is_not_carried_out() -> None:
    harness = Harness(HandServer("10000"))
    [answer] = harness.use_cases.commands.carry_out([create(OTHER)], "9999")
    assert answer.retcode == 101


# ---------------------------------------------------------------------- priority


def test_a_waiting_job_gets_another_priority_and_the_queue_is_looked_at() -> None:
    harness = Harness().with_job(enqueued=7, queue_key=7)
    harness.use_cases.jobs.set_priority(JOB_ID, 3)
    job = harness.server.job(GUEST)
    assert (job.priority, job.enqueued, job.queue_key) == (3, 7, 7 - 3 * 60_000)
    assert harness.wakeups == [((), False, True)]
    harness.use_cases.jobs.set_priority(JOB_ID, 0)
    assert harness.server.job(GUEST).queue_key == 7


def test_only_the_initiator_gives_a_priority_and_only_while_the_job_waits() -> None:
    with pytest.raises(JobNotFound, match="as its initiator"):
        Harness(HandServer("10000")).with_job(party=HOST).use_cases.jobs.set_priority(JOB_ID, 3)
    with pytest.raises(Conflict, match="is running: only a job that waits has a place in the queue"):
        Harness().with_job(JobStatus.RUNNING).use_cases.jobs.set_priority(JOB_ID, 3)


# ---------------------------------------------------------------------- holds


def test_a_waiting_job_is_held_and_released() -> None:
    harness = Harness().with_job()
    harness.use_cases.jobs.hold(JOB_ID, "until monday", "ann")
    assert harness.server.job(GUEST).hold == Hold("until monday", "ann", NOW, 0)
    assert harness.wakeups == [((JOB_ID,), False, True)]
    with harness.server.store.transaction() as tx:
        tx.take_scheduler_lease("", tx.scheduler()[1], "me")
        tx.renew_scheduler_lease("me", 700)
    harness.use_cases.jobs.hold(JOB_ID, "until tuesday", "ann")
    assert harness.server.job(GUEST).hold == Hold("until tuesday", "ann", NOW, 0), "held since the first time"
    harness.use_cases.jobs.release(JOB_ID, "bob")
    assert harness.server.job(GUEST).since == 700
    assert harness.server.job(GUEST).hold is None
    texts = [fields["text"] for fields in harness.server.record.seen(Event.JOB_NOTE)]
    described = ["on hold by ann: until monday", "on hold by ann: until tuesday", "released by bob"]
    assert texts == [f"job {JOB_ID}: {one}" for one in described]
    with harness.server.store.reading() as tx:
        moves = [(one.old, one.new, one.message) for one in tx.history(JOB_ID)]
    assert moves == [("waiting", "waiting", one) for one in described]


@pytest.mark.parametrize(
    ("status", "seat", "text"),
    [
        (JobStatus.RUNNING, SeatStatus.STARTED, "is running"),
        (JobStatus.SUCCESS, SeatStatus.LEFT, "is success"),
        (JobStatus.WAITING, SeatStatus.STARTING, "is being started"),
    ],
)
def test_only_what_waits_is_held(status: JobStatus, seat: SeatStatus, text: str) -> None:
    harness = Harness().with_job(JobStatus.WAITING)
    with harness.server.store.transaction() as tx:
        tx.add_seats([Seat(JOB_ID, HOST, seat)])
        if status is not JobStatus.WAITING:
            tx.move_job(tx.job_here(JOB_ID), MoveJob(status, Reason.DONE), NOW)
    with pytest.raises(Conflict, match=f"{text}: only a job that waits can be held"):
        harness.use_cases.jobs.hold(JOB_ID, "why", "ann")
    with pytest.raises(Conflict, match="not on hold"):
        harness.use_cases.jobs.release(JOB_ID, "ann")


def test_a_party_that_is_released_has_own_heads_asked_for_and_tells_each_initiator_that_waits() -> None:
    harness = Harness().with_job(blocked_on="9999", retry_at=77)
    with harness.server.store.transaction() as tx:
        tx.postpone(a_job(JobStatus.WAITING).key, "on hold", "9999", 2, 77)
        for number, initiator in enumerate(("10000", "10000", "10001")):
            theirs = a_job(JobStatus.WAITING, Party("host", "9999"), initiator=Party("guest", initiator), run=2)
            tx.add_job(replace(theirs, is_initiator=False, key=JobKey(f"2026{number}", theirs.party)), DOCUMENT)
    with pytest.raises(Conflict, match="party 9999 is not on hold"):
        harness.use_cases.queue.release_intake("ann")
    harness.use_cases.queue.hold_intake("maintenance", "ann")
    harness.use_cases.queue.release_intake("bob")
    assert harness.server.job(GUEST).retry_at == 0
    sent = [(one.kind, one.job_id, str(one.to), one.run) for one in harness.server.outbox()]
    assert sent == [(K.LOOK_AGAIN, "20260", "guest 10000", 2), (K.LOOK_AGAIN, "20262", "guest 10001", 2)]
    texts = [fields["text"] for fields in harness.server.record.seen(Event.DETECT_NOTE)]
    assert texts == [
        "party 9999 takes no new reservations: on hold by ann: maintenance",
        "party 9999 takes reservations: released by bob",
    ]


@pytest.mark.parametrize(("caller", "retcode", "retry_at"), [("10000", 0, 0), ("10001", 108, 77)])
def test_a_party_that_is_ready_again_is_asked_at_once(caller: str, retcode: int, retry_at: int) -> None:
    harness = Harness().with_job()
    with harness.server.store.transaction() as tx:
        tx.postpone(a_job(JobStatus.WAITING).key, "on hold", "10000", 2, 77)
    [answer] = harness.use_cases.commands.carry_out([Command(K.LOOK_AGAIN, JOB_ID, GUEST)], caller)
    assert answer.retcode == retcode
    assert harness.server.job(GUEST).retry_at == retry_at
    assert harness.wakeups == ([((), False, True)] if retry_at == 0 else [])


# ---------------------------------------------------------------------- approval


def host_harness(status: JobStatus = JobStatus.WAITING, **fields: Any) -> Harness:
    """Of host 10000, which is asked to approve a job of guest 9999."""
    harness = Harness(HandServer("10000"))
    return harness.with_job(status, HOST, **{"consent": Consent(Approval.PENDING), "run": 1, **fields})


def test_the_initiator_is_told_at_once_that_somebody_has_decided() -> None:
    harness = host_harness()
    harness.use_cases.approvals.approve(JOB_ID, "contract 7", "ann")
    assert harness.server.job(HOST).consent == Consent(Approval.APPROVED, "ann", "contract 7", NOW, digest_of(DOCUMENT))
    harness.use_cases.approvals.reject(JOB_ID, "no budget", "bob")
    assert harness.server.job(HOST).consent == Consent(Approval.REJECTED, "bob", "no budget", NOW, digest_of(DOCUMENT))
    sent = [(one.kind, one.job_id, one.to, one.run) for one in harness.server.outbox()]
    assert sent == [(K.LOOK_AGAIN, JOB_ID, GUEST, 1)] * 2
    texts = [fields["text"] for fields in harness.server.record.seen(Event.JOB_NOTE)]
    text = ["approved by ann: contract 7", "rejected by bob: no budget"]
    assert texts == [f"job {JOB_ID} was {one}" for one in text]
    with harness.server.store.reading() as tx:
        described = [(one.level, one.old, one.new, one.message, one.caused_by) for one in tx.history(JOB_ID)]
    assert described == [(HistoryLevel.JOB, "waiting", "waiting", one, "host 10000") for one in text]


def test_two_people_approve_where_two_have_to() -> None:
    harness = host_harness()
    harness.server.context = replace(harness.server.context, approval=ApprovalRule(required=True, people=2))
    harness = Harness(harness.server)
    approve = harness.use_cases.approvals.approve
    assert approve(JOB_ID, "contract 7", "anna").consent.is_first
    assert approve(JOB_ID, "really", "anna (bob)").consent.is_first, "the same person twice is one"
    first = harness.server.job(HOST)
    assert (first.consent.is_given, first.consent.by, harness.server.outbox()) == (False, "anna", [])
    assert why_not_ready(first, None).retmsg == f"only one of two people at host 10000 has approved job {JOB_ID} yet"
    assert "only anna at host 10000 has approved it" in why_a_copy_waits(GUEST, HOST, first.consent, None, 0)
    assert approve(JOB_ID, "", "bob").consent.is_given
    digest = digest_of(DOCUMENT)
    assert harness.server.job(HOST).consent == Consent(Approval.APPROVED, "anna and bob", "contract 7", NOW, digest)
    assert [one.kind for one in harness.server.outbox()] == [K.LOOK_AGAIN]
    with harness.server.store.reading() as tx:
        assert [one.message for one in tx.history(JOB_ID)] == [
            "approved, as the first of two people, by anna: contract 7", "approved by anna and bob: contract 7",
        ]  # fmt: skip


def test_two_people_approve_what_was_rejected_and_has_ended() -> None:
    harness = ended_harness(Approval.REJECTED, MoveJob(JobStatus.FAILED, Reason.PARTY_REFUSED, "no budget"))
    harness.server.context = replace(harness.server.context, approval=ApprovalRule(required=True, people=2))
    harness = Harness(harness.server)
    for by, is_given in (("anna", False), ("bob", True)):
        assert harness.use_cases.approvals.approve(JOB_ID, "", by).consent.is_given is is_given


@pytest.mark.parametrize(("status", "is_plain_v1"), [(JobStatus.READY, False), (JobStatus.WAITING, True)])
def test_who_does_not_wait_or_would_not_understand_it_is_not_told(status: JobStatus, is_plain_v1: bool) -> None:
    harness = host_harness(status, is_plain_v1=is_plain_v1)
    harness.use_cases.approvals.approve(JOB_ID, "", "ann")
    assert harness.server.outbox() == []


def test_what_nobody_has_to_approve_or_what_is_under_way_is_not_decided() -> None:
    with pytest.raises(JobNotFound, match="on party 10000"):
        Harness(HandServer("10000")).use_cases.approvals.approve(JOB_ID, "", "ann")
    with pytest.raises(Conflict, match="needs no approval here"):
        host_harness(consent=None).use_cases.approvals.reject(JOB_ID, "no", "ann")
    with pytest.raises(Conflict, match="is under way: flow job stop ends it"):
        host_harness(JobStatus.RUNNING).use_cases.approvals.reject(JOB_ID, "no", "ann")


def ended_harness(said: Approval, move: MoveJob) -> Harness:
    harness = host_harness(consent=Consent(said))
    with harness.server.store.transaction() as tx:
        assert tx.move_job(harness.server.job(HOST), move, NOW, "guest 9999")
    return harness


@pytest.mark.parametrize("said", [Approval.PENDING, Approval.APPROVED])
@pytest.mark.parametrize("is_rejected", [False, True])
def test_what_has_ended_is_not_approved_or_rejected_any_more(said: Approval, is_rejected: bool) -> None:
    harness = ended_harness(said, MoveJob(JobStatus.CANCELED, Reason.STOPPED_BY_USER, "enough"))
    before = harness.server.snapshot()
    decide = harness.use_cases.approvals.reject if is_rejected else harness.use_cases.approvals.approve
    with pytest.raises(Conflict, match=r"has ended as canceled \(stopped_by_user: enough\): it needs no approval"):
        decide(JOB_ID, "", "ann")
    assert harness.server.snapshot() == before


def test_what_was_rejected_and_has_ended_can_be_approved_for_a_rerun() -> None:
    harness = ended_harness(Approval.REJECTED, MoveJob(JobStatus.FAILED, Reason.PARTY_REFUSED, "no budget"))
    with pytest.raises(Conflict, match="has ended as failed"):
        harness.use_cases.approvals.reject(JOB_ID, "again", "ann")
    harness.use_cases.approvals.approve(JOB_ID, "a contract", "ann")
    assert harness.server.job(HOST).consent == Consent(Approval.APPROVED, "ann", "a contract", NOW, digest_of(DOCUMENT))
