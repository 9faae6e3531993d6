"""What a party reserves for jobs of others, and whom it lets go first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.job import (
    Answer,
    Claim,
    EngineState,
    JobKey,
    PendingRequest,
)
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus
from fate_flow.services.context.ports import Rules
from fate_flow.services.workers.elastic import PENDING_LASTS
from tests.kit.services.hand_server import HandServer
from tests.kit.services.party_commands import (
    DOCUMENT,
    HOLD,
    JOIN,
    a_host,
    command,
    create,
)
from tests.kit.values import HOST, JOB_ID, NOW, a_job

# ---------------------------------------------------------------------- reserving


def test_reserving_takes_the_cores_once_and_says_what_is_left() -> None:
    host = a_host(*JOIN)
    answer = host.handle(command(K.APPLY, turn=1))
    assert answer.data == {
        "cores": 2, "memory": 0, "remaining_cores": 6, "lease_seconds": 60.0,
    }  # fmt: skip
    assert host.handle(command(K.APPLY, turn=2)).data == answer.data
    assert host.free_cores() == 6
    assert host.job().claim.round_number == 2


def test_a_refusal_says_what_is_free() -> None:
    host = a_host(*JOIN, cores=2)
    with host.store.transaction() as tx:
        tx.add_job(replace(a_job(JobStatus.WAITING, HOST), key=JobKey("20260101120000", HOST)), DOCUMENT)
        assert tx.reserve(JobKey("20260101120000", HOST), "local", 1, 0, "token", 1, NOW)
    answer = host.handle(command(K.APPLY, turn=1))
    assert answer.retcode == 103
    assert answer.data == {"why": "has 1 of 2 cores free, 2 asked", "free_cores": 1}
    assert not host.job().holds


@pytest.mark.parametrize(
    ("initiator", "why"),
    [("9999", "has too little memory free, 9 MB asked"), ("10000", "has 3 of 8 MB of memory free, 9 asked")],
)
def test_how_much_memory_is_free_is_for_the_people_of_the_party(initiator: str, why: str) -> None:
    host = a_host()
    key, busy = JobKey(JOB_ID, HOST), JobKey("20260101120000", HOST)
    waiting = a_job(JobStatus.WAITING, HOST)
    asking = replace(waiting, initiator=Party("guest", initiator), asked=Claim(1, 9))
    with host.store.transaction() as tx:
        tx.register_engine(EngineState("local", 8, 8, 8, 8), {}, NOW)
        tx.add_job(replace(waiting, key=busy), DOCUMENT)
        assert tx.reserve(busy, "local", 1, 5, "token", 1, NOW)
        tx.add_job(replace(asking, key=key), DOCUMENT)
    answer = host.handle(command(K.APPLY, turn=1), initiator)
    assert answer.data == {"why": f"{why}: the job asks for more than it has in all", "free_cores": 7, "never": True}


# ---------------------------------------------------------------------- whom the party lets go first

BIG, SMALL = "2026010112000000000000001", "2026010112000000000000002"
ENOUGH = Rules(queue_passes=2, retry_wait=2_000)


class Contended:
    """Host 10000 with 4 cores: a job holds one, and BIG, that needs all, was refused once."""

    def __init__(self, cores: int = 4) -> None:
        self.host = HandServer("10000", cores=cores, rules=ENOUGH)
        self.host.steady = 100_000
        self._join(JOB_ID, 1)
        assert self.apply(JOB_ID).is_ok
        self._join(BIG, 4)
        self._join(SMALL, 1)
        self.refused = self.apply(BIG)

    def _join(self, job_id: str, cores: int) -> None:
        with self.host.store.transaction() as tx:
            here = a_job(JobStatus.WAITING, HOST, asked=Claim(cores, 0))
            tx.add_job(replace(here, key=JobKey(job_id, HOST)), DOCUMENT)

    def apply(self, job_id: str) -> Answer:
        return self.host.handle(replace(command(K.APPLY, turn=1), job_id=job_id))

    def give_back(self, job_id: str, **body: Any) -> None:
        assert self.host.handle(replace(command(K.RETURN, turn=1, **body), job_id=job_id)).is_ok

    def come_and_go(self, times: int) -> list[bool]:
        """SMALL asks so often, and gives back what it gets."""
        found = []
        for _ in range(times):
            found.append(self.apply(SMALL).is_ok)
            self.give_back(SMALL)
        return found

    def pending(self, job_id: str = BIG) -> PendingRequest:
        return self.host.job(HOST, job_id).pending


def test_a_job_that_was_passed_often_enough_goes_first() -> None:
    party = Contended()
    assert party.refused.data["why"] == "has 3 of 4 cores free, 4 asked"
    assert party.come_and_go(3) == [True, True, False]
    assert party.pending() == PendingRequest(100_000, 100_000, 2)
    answer = party.apply(SMALL)
    assert (answer.retcode, answer.data) == (
        103, {"why": "keeps its capacity for an older job, which has been passed there 2 times", "free_cores": 0},
    )  # fmt: skip
    party.give_back(JOB_ID)
    assert party.apply(SMALL).retcode == 103
    assert party.apply(BIG).is_ok
    assert party.host.free_cores() == 0


def test_a_job_that_leaves_enough_for_the_one_that_waits_passes_it_freely() -> None:
    party = Contended(cores=8)
    assert party.refused.is_ok
    with party.host.store.transaction() as tx:
        tx.give_back(JobKey(BIG, HOST), None, NOW)
        tx.pending(JobKey(BIG, HOST), 100_000)
    assert party.come_and_go(5) == [True] * 5
    assert party.pending().passes == 0


def test_an_apply_that_comes_again_passes_nobody() -> None:
    party = Contended()
    for _ in range(5):
        assert party.apply(SMALL).is_ok
    assert party.pending().passes == 1


def test_who_asks_no_more_is_not_waited_for() -> None:
    party = Contended()
    party.come_and_go(3)
    party.host.steady = 100_000 + PENDING_LASTS + 4 * ENOUGH.retry_wait - 1
    assert not party.apply(SMALL).is_ok
    party.host.steady += 1
    assert party.apply(SMALL).is_ok
    party.give_back(SMALL)
    assert party.apply(BIG).retcode == 103
    assert not party.apply(SMALL).is_ok, "it asks again, and keeps its place"
    assert party.pending().since == 100_000


def test_who_has_waited_for_longer_is_not_put_behind() -> None:
    party = Contended()
    with party.host.store.transaction() as tx:
        tx.pending(JobKey(SMALL, HOST), 99_999)
    assert party.come_and_go(5) == [True] * 5


@pytest.mark.parametrize(
    ("order", "initiator", "may_pass"),
    [(9, "9999", True), (10, "9999", False), (11, "9999", False), (9, "10001", False), (None, "9999", False)],
)
def test_an_initiator_lets_its_own_jobs_pass_as_its_own_queue_has_them(
    order: int | None, initiator: str, may_pass: bool
) -> None:
    party = Contended()
    with party.host.store.transaction() as tx:
        tx.pending(JobKey(BIG, HOST), 100_000, 10)
        tx.forget_seat(JobKey(SMALL, HOST))
        here = a_job(JobStatus.WAITING, HOST, asked=Claim(1, 0), initiator=Party("guest", initiator))
        tx.add_job(replace(here, key=JobKey(SMALL, HOST)), DOCUMENT)
    ask = replace(command(K.APPLY, turn=1, **({} if order is None else {"order": order})), job_id=SMALL)
    found = []
    for _ in range(4):
        found.append(party.host.handle(ask, caller=initiator).is_ok)
        party.host.handle(replace(command(K.RETURN, turn=1), job_id=SMALL), caller=initiator)
    assert found == ([True] * 4 if may_pass else [True, True, False, False])


@pytest.mark.parametrize("order", ["x", 1.5, True, [1], 2**63])
def test_a_place_in_the_queue_that_no_column_takes_is_refused(order: object) -> None:
    answer = a_host(*JOIN).handle(command(K.APPLY, turn=1, order=order))
    assert answer.retcode == 101
    assert answer.retmsg.startswith("order: ")


@pytest.mark.parametrize(("still_wants", "may_pass"), [(True, False), (None, False), (False, True)])
def test_what_a_job_returns_since_another_party_had_no_capacity_is_kept_for_it(
    still_wants: bool | None, may_pass: bool
) -> None:
    party = Contended()
    party.come_and_go(3)
    party.give_back(JOB_ID)
    assert party.apply(BIG).is_ok
    party.give_back(BIG, **({} if still_wants is None else {"still_wants": still_wants}))
    assert party.apply(SMALL).is_ok is may_pass
    assert (party.pending() == PendingRequest()) is may_pass


def test_a_job_that_the_party_has_become_too_small_for_is_told_so_and_keeps_nobody_waiting() -> None:
    party = Contended()
    party.come_and_go(3)
    with party.host.store.transaction() as tx:
        tx.register_engine(EngineState("local", 3, 0, 3, 0), {}, NOW)
    assert party.apply(SMALL).is_ok, "at once, before the big one asks again"
    party.give_back(SMALL)
    answer = party.apply(BIG)
    assert answer.retcode == 103
    assert answer.data == {
        "why": "has 2 of 3 cores free, 4 asked: the job asks for more than it has in all", "free_cores": 2,
        "never": True,
    }  # fmt: skip
    assert party.pending() == PendingRequest()


def test_two_seats_of_a_job_wait_for_capacity_for_both() -> None:
    party = Contended(cores=5)
    second = JobKey(BIG, Party("arbiter", "10000"))
    with party.host.store.transaction() as tx:
        tx.give_back(JobKey(BIG, HOST), None, NOW)
        tx.pending(JobKey(BIG, HOST), 100_000)
        tx.add_job(replace(a_job(JobStatus.WAITING, HOST, asked=Claim(1, 0)), key=second), DOCUMENT)
    assert party.come_and_go(3) == [True, True, False]


@pytest.mark.parametrize("round_number", ["x", -1, 2**40, [1], True])
def test_a_reservation_round_that_is_no_number_is_refused(round_number: Any) -> None:
    host = a_host(*JOIN)
    assert host.handle(command(K.APPLY, turn=round_number)).retcode == 101
    assert not host.job().holds


@pytest.mark.parametrize(
    ("round_number", "is_returned"), [(1, False), (2, True), (3, True), (None, True)]
)
def test_a_return_that_arrives_after_the_next_reservation_round_reserved_returns_nothing(
    round_number: int | None, is_returned: bool
) -> None:
    host = a_host(*HOLD, command(K.APPLY, turn=2))
    answer = host.handle(command(K.RETURN, **({} if round_number is None else {"turn": round_number})))
    assert answer.is_ok
    assert host.job().holds is not is_returned
    assert host.free_cores() == (8 if is_returned else 6)
    assert answer.data == {"remaining_cores": host.free_cores()}


# ---------------------------------------------------------------------- in one request with `create`


AHEAD = command(K.APPLY, turn=1, order=3, is_ahead=True)
WAITS = command(K.STATUS, argument="waiting")


def test_a_party_reserves_for_a_job_that_not_all_have_accepted_yet() -> None:
    host = a_host(create())
    answer = host.handle(AHEAD)
    assert answer.data == {"cores": 2, "memory": 0, "remaining_cores": 6, "lease_seconds": 60.0}
    assert host.handle(AHEAD).data == answer.data, "what comes twice is answered alike"
    assert (host.job().status, host.job().claim.round_number, host.free_cores()) == (JobStatus.READY, 1, 6)
    assert [host.handle(one).retcode for one in (WAITS, command(K.START, turn=1))] == [0, 0]
    assert (host.job().status, host.free_cores()) == (JobStatus.RUNNING, 6)


def test_nobody_waits_behind_a_job_that_not_all_have_accepted_yet() -> None:
    host = a_host(create(), cores=2)
    with host.store.transaction() as tx:
        tx.add_job(replace(a_job(JobStatus.WAITING, HOST), key=JobKey("20260101120000", HOST)), DOCUMENT)
        assert tx.reserve(JobKey("20260101120000", HOST), "local", 1, 0, "token", 1, NOW)
    answer = host.handle(AHEAD)
    assert (answer.retcode, answer.data) == (103, {"why": "has 1 of 2 cores free, 2 asked", "free_cores": 1})
    assert (host.job().holds, host.job().pending, host.free_cores()) == (False, PendingRequest(), 1)


def test_a_request_that_comes_late_reserves_nothing_again() -> None:
    host = a_host(create(), AHEAD, WAITS, command(K.RETURN, turn=1))
    answer = host.handle(AHEAD)
    assert (answer.retcode, answer.retmsg) == (103, f"{host.job().key} is waiting, not ready")
    assert host.free_cores() == 8


def test_a_job_that_another_party_refuses_leaves_nothing_reserved() -> None:
    host = a_host(create(), AHEAD, command(K.STATUS, argument="failed", reason="party_refused", tag="submit_failed"))
    with host.store.reading() as tx:
        assert tx.job(JobKey(JOB_ID, HOST)) is None
    assert host.free_cores() == 8
