"""A submit and its waiting: refusals, deadlines, requests that come again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from fate_flow.components.providers.command import COMMAND_PROVIDER
from fate_flow.core.model.errors import (
    BadDocument,
    Busy,
    CommitUnknown,
    Conflict,
    FlowError,
    OperationFailed,
    PeerUnreachable,
    StorageUnavailable,
)
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus
from fate_flow.core.wire.v1.retcodes import retcode_of
from fate_flow.store.values import Submission
from tests.kit.job_documents import LOCAL, job
from tests.kit.modules import Module
from tests.kit.services.hand_server import HandServer
from tests.kit.services.hand_use_cases import Harness
from tests.kit.services.party_commands import DOCUMENT, create
from tests.kit.values import ELSE_ID, GUEST, JOB_ID, NOW


def test_a_job_of_this_party_alone_is_accepted_at_once() -> None:
    harness = Harness()
    assert harness.submit(JOB_ID, LOCAL) == JOB_ID
    assert harness.server.job(GUEST).status is JobStatus.WAITING
    assert harness.wakeups == [((JOB_ID,), False, True)]
    assert [event.name for event, _ in harness.server.record.events].count("SUBMITTED") == 1


def test_a_submit_waits_until_every_party_has_accepted() -> None:
    harness = Harness()
    harness.meanwhile = lambda: len(harness.slept) == 3 and harness.decide(0, "success")
    assert harness.submit(JOB_ID, DOCUMENT) == JOB_ID
    assert len(harness.slept) == 3
    assert harness.wakeups == [((JOB_ID,), True, False)]


class Reader:
    """A program policy that has to read programs; keeps whether that was inside of a transaction."""

    reads_programs = True

    def __init__(self, server: HandServer) -> None:
        self.seen: list[bool] = []
        self._is_inside, begin = False, server.store.transaction

        @contextmanager
        def transaction() -> Iterator[Any]:
            with begin() as tx:
                self._is_inside = True
                try:
                    yield tx
                finally:
                    self._is_inside = False

        server.store.transaction = transaction
        object.__setattr__(server.context, "program_policy", self)
        object.__setattr__(server.context, "modules", {"Command": Module(COMMAND_PROVIDER)})

    def objection(self, *_: object) -> str:
        self.seen.append(self._is_inside)
        return ""


def test_programs_are_read_before_the_transaction_in_which_a_job_is_taken() -> None:
    """One that is large keeps nobody waiting who wants to write."""
    harness = Harness()
    program_policy, program = Reader(harness.server), {"a": {"command": ["x"]}}
    harness.submit(JOB_ID, job({"guest": ["9999"]}, {"a": []}, commands=program))
    harness.examine(job({"guest": ["9999"]}, {"a": []}, commands=program))
    assert program_policy.seen == [False, True] * 2

    harness = Harness(HandServer("10000"))
    program_policy = Reader(harness.server)
    document = job({"guest": ["9999"], "host": ["10000"]}, {"a": []}, commands=program)
    broken = replace(create(document=document), body={"dsl": {}, "runtime_conf": {"role": 1}})
    commands = [broken, replace(broken, body={}), create(document=document)]
    answers = harness.use_cases.commands.carry_out(commands, "9999")
    assert [answer.retcode for answer in answers] == [101, 101, 0]
    assert program_policy.seen == [False, True]


def test_a_refusal_is_the_answer() -> None:
    harness = Harness()
    harness.meanwhile = lambda: harness.decide(103, "host 10000: no capacity")
    with pytest.raises(OperationFailed, match="host 10000: no capacity") as refused:
        harness.submit(JOB_ID, DOCUMENT)
    assert (retcode_of(refused.value), refused.value.data) == (103, None)
    assert harness.submission() is None


def test_after_a_refusal_the_request_id_may_come_again_with_corrected_content() -> None:
    harness = Harness()
    harness.meanwhile = lambda: harness.decide(103, "host 10000: no capacity")
    with pytest.raises(OperationFailed):
        harness.submit(JOB_ID, DOCUMENT, "r1")
    assert harness.submit(ELSE_ID, LOCAL, "r1") == ELSE_ID


def test_who_repeats_a_submit_that_is_refused_meanwhile_is_told_that_it_was() -> None:
    harness = Harness()
    repeated = Harness(harness.server)
    repeated.meanwhile = lambda: harness.forget_submission()
    refusals: list[OperationFailed] = []

    def repeat() -> None:
        with pytest.raises(OperationFailed, match=f"job {JOB_ID} was refused") as refused:
            repeated.submit(ELSE_ID, DOCUMENT, "r1")
        refusals.append(refused.value)

    harness.meanwhile = repeat
    with pytest.raises(OperationFailed):
        harness.submit(JOB_ID, DOCUMENT, "r1")
    assert (retcode_of(refusals[0]), refusals[0].data) == (103, None)


def test_at_the_deadline_the_submit_is_given_up() -> None:
    harness = Harness()
    text = "not every party answered within 30 s: nothing came from host 10000"
    with pytest.raises(PeerUnreachable, match=f"{text}: job {JOB_ID}"):
        harness.submit(JOB_ID, DOCUMENT)
    found = harness.server.job(GUEST)
    assert (found.reason, found.message) == (Reason.PARTY_REFUSED, text)
    assert harness.submission() is None
    assert 30 <= sum(harness.slept) <= 30.2
    assert max(harness.slept) <= 0.1             # looked at often
    assert harness.wakeups[-1][0] == (JOB_ID,)   # the scheduler is to end it


def _decided_just_in_time(harness: Harness, retcode: int, message: str) -> None:
    """After the last look and before the submit is given up."""
    looks_through = harness.use_cases.submits._give_up

    def give_up(job_id: str) -> Submission | None:
        harness.decide(retcode, message)
        return looks_through(job_id)

    object.__setattr__(harness.use_cases.submits, "_give_up", give_up)


def test_what_is_accepted_at_the_deadline_is_accepted() -> None:
    """It was told to be refused, ended as failed at every party, and its request id answered success."""
    harness = Harness()
    _decided_just_in_time(harness, 0, "success")
    assert harness.submit(JOB_ID, DOCUMENT, "r1") == JOB_ID
    assert harness.reason() is None
    submission = harness.submission()
    assert submission is not None
    assert (submission.request_id, submission.retcode) == ("r1", 0)


def test_what_is_refused_at_the_deadline_has_its_refusal_as_the_answer() -> None:
    harness = Harness()
    _decided_just_in_time(harness, 103, "host 10000: no capacity")
    with pytest.raises(OperationFailed, match="host 10000: no capacity"):
        harness.submit(JOB_ID, DOCUMENT)
    assert harness.submission() is None


def test_what_was_decided_and_forgotten_at_the_deadline_cannot_be_given_up() -> None:
    harness = Harness()

    def forget() -> None:
        with harness.server.store.transaction() as tx:
            tx.forget_job(JOB_ID)

    harness.meanwhile = forget
    with pytest.raises(PeerUnreachable):
        harness.submit(JOB_ID, DOCUMENT)
    assert harness.submission() is None


def test_a_submit_that_was_committed_after_all_is_neither_taken_twice_nor_refused() -> None:
    harness = Harness()
    harness.meanwhile = lambda: harness.decide(0, "success")
    take, losses = harness.server.store.transaction, [CommitUnknown()]

    @contextmanager
    def lost_once() -> Iterator[Any]:
        with take() as tx:
            yield tx
        if losses:
            raise losses.pop()

    object.__setattr__(harness.server.store, "transaction", lost_once)
    assert harness.submit(JOB_ID, DOCUMENT) == JOB_ID
    assert losses == []
    assert [one.kind for one in harness.server.outbox()] == [K.CREATE, K.CHECK, K.APPLY]


def test_a_submit_that_was_stored_waits_for_a_database_that_has_gone_since() -> None:
    harness = Harness()
    observe, outages = harness.server.store.reading, [StorageUnavailable()] * 40

    @contextmanager
    def gone_for_a_while() -> Iterator[Any]:
        if outages:
            raise outages.pop()
        with observe() as tx:
            yield tx

    object.__setattr__(harness.server.store, "reading", gone_for_a_while)
    harness.meanwhile = lambda: harness.decide(0, "success")
    assert harness.submit(JOB_ID, DOCUMENT) == JOB_ID
    assert outages == []


def test_what_cannot_be_done_twice_is_not_begun_anew() -> None:
    harness = Harness().with_job()
    take = harness.server.store.transaction

    @contextmanager
    def lost() -> Iterator[Any]:
        with take() as tx:
            yield tx
        raise CommitUnknown

    object.__setattr__(harness.server.store, "transaction", lost)
    with pytest.raises(CommitUnknown, match="not known"):
        harness.use_cases.jobs.return_resources(JOB_ID)


def test_a_request_id_that_comes_again_gives_the_same_job_and_leaves_it_alone() -> None:
    harness = Harness()
    assert harness.submit(JOB_ID, LOCAL, "r1") == JOB_ID
    before = harness.server.snapshot()
    assert harness.submit(ELSE_ID, LOCAL, "r1") == JOB_ID
    assert harness.server.snapshot() == before
    assert harness.server.job_or_none(GUEST, ELSE_ID) is None
    with pytest.raises(Conflict, match="request id r1 was used for other content"):
        harness.submit(ELSE_ID, job({"guest": ["9999"]}, cores=2), "r1")


def test_a_job_in_the_middle_of_a_reservation_round_is_not_driven_by_a_repeated_submit() -> None:
    harness = Harness()
    harness.submit(JOB_ID, LOCAL, "r1")
    with harness.server.store.transaction() as tx:
        assert tx.begin_round(harness.server.job(GUEST).key, "the scheduler", NOW)
    before = harness.server.snapshot()
    assert harness.submit(ELSE_ID, LOCAL, "r1") == JOB_ID
    assert harness.server.snapshot() == before


def test_without_request_ids_every_submit_is_a_job_of_its_own() -> None:
    harness = Harness()
    assert harness.submit(JOB_ID, LOCAL) != harness.submit(ELSE_ID, LOCAL)


def test_only_so_many_submits_may_wait_for_others() -> None:
    harness = Harness(slots=1)

    def submit_another() -> None:
        with pytest.raises(Busy, match="too many submits"):
            harness.submit(ELSE_ID, LOCAL)
        harness.decide(0, "success")

    harness.meanwhile = submit_another
    assert harness.submit(JOB_ID, DOCUMENT) == JOB_ID
    assert harness.submit(ELSE_ID, LOCAL) == ELSE_ID   # the slot is free again


def test_a_refused_submit_gives_its_slot_back() -> None:
    harness = Harness(slots=1)
    for _ in range(3):
        with pytest.raises(BadDocument, match="party 555 has no route"):
            harness.submit(JOB_ID, job({"guest": ["9999"], "host": ["555"]}))


def test_the_checks_of_a_submit_without_one() -> None:
    harness = Harness(HandServer("9999", cores=4))
    harness.examine(DOCUMENT)
    with pytest.raises(FlowError, match="asks for 5 cores"):
        harness.examine(job({"guest": ["9999"], "host": ["10000"]}, cores=5))
    with pytest.raises(BadDocument, match="party 555 has no route"):
        harness.examine(job({"guest": ["9999"], "host": ["555"]}))
    assert harness.server.outbox() == []
    assert harness.wakeups == []
