"""A party that has capacity again tells the initiators of those that it had none for, and they ask at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.errors import NOT_EFFECTIVE, UNREACHABLE
from fate_flow.core.model.job import Answer, Claim, Command, Hold, Job, JobKey
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus
from fate_flow.core.quotas.quota import PartyQuota, Quotas
from fate_flow.core.record.commitment import number_of
from fate_flow.core.record.entry import read_entry
from fate_flow.peers.send_queue import MAY_FAIL
from fate_flow.services.context.pending import CapacityNotice
from fate_flow.services.context.ports import Rules
from fate_flow.services.scheduling.events import Answered, QueueChanged
from fate_flow.services.use_cases.use_cases import UseCases
from tests.kit.job_documents import job
from tests.kit.services.hand_scheduler import Process, chosen, job_of, submit
from tests.kit.services.hand_server import HandServer
from tests.kit.services.party_commands import DOCUMENT
from tests.kit.values import GUEST, JOB_ID, NOW

OWN = Party("host", "10000")
A, B, C = Party("guest", "9999"), Party("guest", "10001"), Party("guest", "10002")
RULES = Rules(queue_passes=2)
PAUSE = RULES.retry_wait / 1000
FULL = Answer(103, "failed", {"why": "has 0 of 4 cores free, 2 asked", "free_cores": 0})


# ---------------------------------------------------------------------- the party that has capacity


def the_host(cores: int = 4, memory: int = 0, rules: Rules = RULES) -> Process:
    """Party 10000; a second has passed since its scheduler began."""
    process = chosen(HandServer("10000", cores=cores, memory=memory, rules=rules))
    process.seconds += 1
    return process


def refused(process: Process, name: str, initiator: Party, at: int, **fields: Any) -> JobKey:
    """A seat here that there was no capacity for, at this steady time; of two cores unless it is said otherwise."""
    key = JobKey(name, fields.pop("party", OWN))
    known = {"asked": Claim(2, 0), "parties": (initiator, OWN), "create_time": NOW, **fields}
    with process.server.store.transaction() as tx:
        tx.add_job(Job(key, initiator, False, JobStatus.WAITING, **known), DOCUMENT)
        tx.pending(key, at)
    return key


def asks(process: Process, key: JobKey, at: int) -> None:
    """And was refused again."""
    with process.server.store.transaction() as tx:
        tx.pending(key, at)


def notice(process: Process, informed_party: str = "") -> list[tuple[str, str, int]]:
    """Who is told now that cores came free: job, initiator, cores."""
    process.scheduler.step([QueueChanged(informed_party)])
    return events(process)


def events(process: Process) -> list[tuple[str, str, int]]:
    sent = [one for one in process.transport.take() if one.kind is K.CAPACITY]
    return [(one.job_id, one.to.party_id, one.body["free_cores"]) for one in sent]


def says(process: Process, job_id: str, answer: Answer) -> list[tuple[str, str, int]]:
    """Party 9999 answers what it was told of this job; who is told then."""
    process.scheduler.step([Answered(Command(K.CAPACITY, job_id, A), answer)])
    return events(process)


def test_as_many_are_told_as_there_is_capacity_for_in_the_order_in_which_they_were_refused() -> None:
    process = the_host()
    refused(process, "third", C, 3)
    refused(process, "second", B, 2)
    refused(process, "first", A, 1)
    assert notice(process) == [("first", "9999", 4), ("second", "10001", 2)]


def test_a_notice_and_its_answer_are_recorded_with_the_number_that_the_other_party_has() -> None:
    process = the_host()
    object.__setattr__(process.server.context, "keeps_record", True)
    refused(process, "first", A, 1)
    process.scheduler.step([QueueChanged("")])
    [sent] = [one for one in process.transport.take() if one.kind is K.CAPACITY]
    process.scheduler.step([Answered(sent, Answer(is_recorded=True))])
    with process.server.store.reading() as tx:
        found = [read_entry(one.content) for one in tx.unsealed_entries(100) if one.log == "with/9999"]
    assert [(one["kind"], one["number"]) for one in found] == [
        (kind, number_of(bytes.fromhex(sent.salt))) for kind in ("sent", "answered")
    ]
    assert (found[0]["command"], found[1]["acknowledged"]) == (K.CAPACITY.value, True)


def test_smaller_ones_are_told_of_what_the_first_cannot_use() -> None:
    process = the_host()
    refused(process, "first", A, 1, asked=Claim(5, 0))
    refused(process, "second", B, 2, asked=Claim(3, 0))
    refused(process, "third", C, 3)
    assert notice(process) == [("second", "10001", 4)], "the first asks for more than there is in all and keeps nothing"


def test_nobody_is_told_while_nothing_is_free() -> None:
    process = the_host(cores=2)
    refused(process, "first", A, 1)
    with process.server.store.transaction() as tx:
        key = JobKey("other", OWN)
        tx.add_job(Job(key, A, False, JobStatus.WAITING, asked=Claim(2, 0), create_time=NOW), DOCUMENT)
        assert tx.reserve(key, "local", 2, 0, "t", 1, NOW)
    assert notice(process) == []
    with process.server.store.transaction() as tx:
        tx.give_back(key, None, NOW)
    process.scheduler.poll()
    assert events(process) == [("first", "9999", 2)], "whatever it was that freed them and told nobody"


def test_memory_is_capacity_too() -> None:
    process = the_host(memory=1_000)
    refused(process, "first", A, 1, asked=Claim(1, 800))
    refused(process, "second", B, 2, asked=Claim(1, 800))
    refused(process, "third", C, 3, asked=Claim(1, 200))
    assert [name for name, *_ in notice(process)] == ["first", "third"]


def test_a_job_with_two_seats_is_told_once_and_needs_capacity_for_both() -> None:
    process = the_host(cores=4)
    for role in ("host", "arbiter"):
        refused(process, "first", A, 1, party=Party(role, "10000"))
    refused(process, "second", B, 2)
    assert notice(process) == [("first", "9999", 4)]


def test_nobody_is_told_of_cores_that_its_party_may_not_hold() -> None:
    process = the_host(cores=8)
    object.__setattr__(process.server.context, "quotas", Quotas("10000", PartyQuota(cores_share=0.5)))
    for number, (name, initiator, cores) in enumerate([("a", A, 5), ("b", A, 3), ("c", A, 2), ("d", B, 2)]):
        refused(process, name, initiator, number + 1, asked=Claim(cores, 0))
    assert notice(process) == [("b", "9999", 4), ("d", "10001", 4)], "a is beyond the share, and c is beside b"


def test_each_is_told_once_until_it_has_asked_again() -> None:
    process = the_host(cores=2)
    key = refused(process, "first", A, 1)
    assert notice(process) == [("first", "9999", 2)]
    assert notice(process) == []
    process.scheduler.poll()
    assert events(process) == []
    process.seconds += 1
    asks(process, key, 1_500)
    assert notice(process) == [("first", "9999", 2)]


def test_what_one_was_told_of_is_kept_for_it_for_one_pause() -> None:
    process = the_host(cores=2)
    refused(process, "first", A, 1)
    assert notice(process) == [("first", "9999", 2)]
    refused(process, "second", B, 2)
    assert notice(process) == []
    assert says(process, "first", Answer()) == []
    process.seconds += PAUSE
    assert notice(process) == [("second", "10001", 2)]


@pytest.mark.parametrize("answer", [Answer(NOT_EFFECTIVE, "it does not wait"), Answer(100, "no such command")])
def test_when_one_does_not_come_the_next_is_told_at_once(answer: Answer) -> None:
    process = the_host(cores=2)
    key = refused(process, "first", A, 1)
    refused(process, "second", A, 2)
    refused(process, "third", B, 3)
    assert notice(process) == [("first", "9999", 2)]
    assert says(process, "first", answer) == [("second", "9999", 2)]
    process.seconds += 1
    asks(process, key, 1_900)
    assert notice(process) == [("first", "9999", 2)], "it wants capacity after all, and is the first"


def test_an_initiator_that_does_not_answer_is_told_nothing_more_for_one_pause() -> None:
    process = the_host(cores=2)
    for number, initiator in enumerate((A, A, B), 1):
        refused(process, f"job {number}", initiator, number)
    assert notice(process) == [("job 1", "9999", 2)]
    assert says(process, "job 1", Answer(UNREACHABLE, "no answer in time")) == [("job 3", "10001", 2)]
    process.seconds += PAUSE
    assert notice(process) == [("job 2", "9999", 2)]


def test_the_initiator_that_gave_the_cores_back_was_told_in_the_answer() -> None:
    process = the_host()
    refused(process, "first", A, 1)
    refused(process, "second", B, 2)
    refused(process, "third", C, 3)
    assert notice(process, "9999") == [("second", "10001", 2)], "and is left what its own job asks for"


def test_when_two_gave_something_back_neither_knows_of_the_other() -> None:
    process = the_host()
    refused(process, "first", A, 1)
    process.scheduler.step([QueueChanged("9999"), QueueChanged("10001")])
    assert events(process) == [("first", "9999", 4)]


def test_own_jobs_and_those_of_plain_v1_initiators_are_not_told() -> None:
    process = the_host()
    refused(process, "own", OWN, 1)
    refused(process, "local", Party("local", "0"), 2)
    refused(process, "plain", A, 3, is_plain_v1=True)
    refused(process, "ours", B, 4)
    assert notice(process) == [("ours", "10001", 4)]


def test_capacity_that_is_kept_for_the_head_is_not_told_to_others() -> None:
    process = the_host()
    head = refused(process, "head", A, 1, asked=Claim(4, 0))
    refused(process, "second", B, 2, asked=Claim(1, 0))
    refused(process, "third", C, 3, asked=Claim(1, 0))
    with process.server.store.transaction() as tx:
        key = JobKey("other", OWN)
        tx.add_job(Job(key, A, False, JobStatus.WAITING, asked=Claim(1, 0), create_time=NOW), DOCUMENT)
        assert tx.reserve(key, "local", 1, 0, "t", 1, NOW)
        tx.count_bypass(head)
    assert notice(process) == [("second", "10001", 3)], "one more may pass"
    with process.server.store.transaction() as tx:
        tx.count_bypass(head)
    process.seconds += PAUSE
    assert notice(process) == []
    with process.server.store.transaction() as tx:
        tx.give_back(key, None, NOW)
    assert notice(process) == [("head", "9999", 4)]


def test_capacity_that_is_kept_for_the_head_is_told_to_one_that_its_own_initiator_puts_before_it() -> None:
    process = the_host()
    head = refused(process, "head", A, 1, asked=Claim(4, 0), queue_key=10)
    refused(process, "before it", A, 2, asked=Claim(1, 0), queue_key=9)
    refused(process, "of another", B, 3, asked=Claim(1, 0), queue_key=9)
    with process.server.store.transaction() as tx:
        key = JobKey("other", OWN)
        tx.add_job(Job(key, A, False, JobStatus.WAITING, asked=Claim(1, 0), create_time=NOW), DOCUMENT)
        assert tx.reserve(key, "local", 1, 0, "t", 1, NOW)
        for _ in range(RULES.queue_passes):
            tx.count_bypass(head)
    assert notice(process) == [("before it", "9999", 3)]


def test_a_party_that_is_on_hold_tells_nobody() -> None:
    process = the_host()
    refused(process, "first", A, 1)
    with process.server.store.transaction() as tx:
        tx.hold_intake(Hold("cleaning", "an operator"))
    assert notice(process) == []
    with process.server.store.transaction() as tx:
        tx.release_intake()
    assert notice(process) == [("first", "9999", 4)]


def test_who_has_not_asked_for_long_is_not_told() -> None:
    process = the_host()
    refused(process, "gone", A, 1)
    process.seconds += 8 + 4 * PAUSE
    assert notice(process) == []


def test_it_is_said_once_and_stored_nowhere() -> None:
    process = the_host()
    refused(process, "first", A, 1)
    process.scheduler.poll()
    [hint] = process.transport.posted
    assert (hint.id, hint.run, process.server.outbox()) == (0, 0, [])
    assert K.CAPACITY in MAY_FAIL, "a sender does not try it again"


def test_the_next_process_that_schedules_tells_again() -> None:
    process = the_host()
    refused(process, "first", A, 1)
    assert notice(process) != []
    again = chosen(process.server, owner="home-2")
    again.scheduler.poll()
    assert events(again) == [("first", "9999", 4)]


# ---------------------------------------------------------------------- the initiator: what it answers


class Asked:
    """The use cases of party 9999, and what its scheduler hears of it."""

    def __init__(self, server: HandServer) -> None:
        self.heartbeats: list[CapacityNotice] = []
        self.use_cases = UseCases(server.context, lambda *notice: self.heartbeats.extend(notice[-1]), 2, 30.0)

    def says(self, caller: str = "10000", run: int = 0, job_id: str = JOB_ID, **body: Any) -> int:
        known = {"role": "host", "party_id": "10000", "free_cores": 4, **body}
        [answer] = self.use_cases.commands.carry_out([Command(K.CAPACITY, job_id, GUEST, run, body=known)], caller)
        return answer.retcode


def blocked() -> Process:
    """A job of guest 9999 and host 10000 that waits for capacity at the host."""
    process = chosen(HandServer("9999", cores=20))
    submit(process)
    process.scheduler.step([QueueChanged()])
    process.answer(K.CHECK)
    process.answer(K.APPLY, FULL)
    assert (job_of(process).blocked_on, process.sent()) == ("10000", [])
    return process


def test_a_job_that_waits_for_this_party_takes_the_message() -> None:
    process = blocked()
    asked = Asked(process.server)
    assert asked.says() == 0
    assert asked.heartbeats == [CapacityNotice(JOB_ID, "10000", 4)]


@pytest.mark.parametrize(
    ("changes", "retcode"),
    [
        ({"caller": "10001"}, 108),
        ({"caller": "10001", "party_id": "10001"}, 108),
        ({"run": 1}, NOT_EFFECTIVE),
        ({"job_id": "20260101120000999999"}, NOT_EFFECTIVE),
        ({"free_cores": None}, 101),
        ({"free_cores": -1}, 101),
        ({"free_cores": True}, 101),
        ({"free_cores": "4"}, 101),
    ],
)
def test_events_that_are_not_for_this_job_or_of_another_party_change_nothing(
    changes: dict[str, Any], retcode: int
) -> None:
    process = blocked()
    before, asked = process.server.snapshot(), Asked(process.server)
    assert asked.says(**changes) == retcode
    assert (asked.heartbeats, process.server.snapshot()) == ([], before)


@pytest.mark.parametrize("status", [JobStatus.READY, JobStatus.RUNNING, JobStatus.STOPPING])
def test_a_job_that_does_not_wait_has_no_use_for_capacity(status: JobStatus) -> None:
    process = blocked()
    row = process.server.store._rows.jobs.rows[JobKey(JOB_ID, GUEST)]
    with process.server.store.transaction():
        process.server.store._rows.jobs.put(row.job.key, replace(row, job=replace(row.job, status=status)))
    assert Asked(process.server).says() == NOT_EFFECTIVE


def test_a_job_that_is_on_hold_has_no_use_for_capacity() -> None:
    process = blocked()
    with process.server.store.transaction() as tx:
        assert tx.hold_job(JobKey(JOB_ID, GUEST), Hold("not yet", "somebody"))
    assert Asked(process.server).says() == NOT_EFFECTIVE


def test_a_job_that_is_to_end_has_no_use_for_capacity() -> None:
    process = blocked()
    Asked(process.server).use_cases.jobs.stop(JOB_ID)
    assert Asked(process.server).says() == NOT_EFFECTIVE


# ---------------------------------------------------------------------- the initiator: what follows


def round_number_of(process: Process) -> int:
    return job_of(process).round_number


def test_the_job_has_its_reservation_round_at_once() -> None:
    process = blocked()
    round_number = round_number_of(process)
    process.scheduler.poll()
    assert round_number_of(process) == round_number, "its time has not come"
    process.scheduler.step([CapacityNotice(JOB_ID, "10000", 4)])
    assert round_number_of(process) == round_number + 1
    assert "dependence/check" in process.sent()


@pytest.mark.parametrize(
    "notice", [CapacityNotice(JOB_ID, "10001", 4), CapacityNotice("20260101120000999999", "10000", 4)]
)
def test_a_wakeup_that_is_late_wakes_nobody(notice: CapacityNotice) -> None:
    process = blocked()
    round_number = round_number_of(process)
    process.scheduler.step([notice])
    assert round_number_of(process) == round_number


def in_round(after_check: bool = True) -> Process:
    """The job is in its reservation round, and the host is asked to reserve."""
    process = blocked()
    process.scheduler.step([CapacityNotice(JOB_ID, "10000", 4)])
    if after_check:
        process.answer(K.CHECK)
    return process


@pytest.mark.parametrize("after_check", [True, False])
def test_events_that_overtake_the_refusal_are_not_lost(after_check: bool) -> None:
    process = in_round(after_check)
    round_number = round_number_of(process)
    assert Asked(process.server).says() == 0
    process.scheduler.step([CapacityNotice(JOB_ID, "10000", 4)])
    assert round_number_of(process) == round_number
    if not after_check:
        process.answer(K.CHECK)
    process.answer(K.APPLY, FULL)
    assert round_number_of(process) == round_number + 1, "asked again at once"
    process.answer(K.CHECK)
    process.answer(K.APPLY, FULL)
    assert round_number_of(process) == round_number + 1, "and once"


def test_a_job_that_another_party_refuses_in_its_reservation_round_has_no_use_for_capacity() -> None:
    process = chosen(HandServer("9999", cores=20))
    submit(process, document=job({"guest": ["9999"], "host": ["10000", "10001"]}, cores=2), accept=False)
    for kind, what in ((K.CREATE, Answer(data={"extensions": {}})), (K.STATUS, None)):
        process.answer(kind, what)
        process.answer(kind, what)
    process.scheduler.step([QueueChanged()])
    process.answer(K.CHECK)
    process.answer(K.APPLY, FULL)
    assert job_of(process).ready_owner, "the other one has not answered yet"
    asked = Asked(process.server)
    assert asked.says(caller="10001", party_id="10001") == NOT_EFFECTIVE
    assert asked.says() == 0
