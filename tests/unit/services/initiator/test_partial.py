"""A job that goes on without a party: what the others are told, what its shares become, and who knows of it."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.core.model.job import Answer, CommandKind, Task, TaskKey
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, SeatStatus, TaskStatus
from fate_flow.services.initiator.reports import take_body
from fate_flow.services.scheduling.events import PartySilent, WorkerChanged
from tests.kit.job_documents import job
from tests.kit.services.hand_scheduler import MINUTE_RULES, Process, chosen, job_of, submit
from tests.kit.services.hand_server import HandServer, worker_of
from tests.kit.services.party_commands import INCARNATIONS, RUN, a_host, command, create, task_command
from tests.kit.services.sights import RUNS, made
from tests.kit.values import GUEST, HOST, JOB_ID, OTHER

K = CommandKind


# ---------------------------------------------------------------------- at the party


def begun(without: object, fewest: int) -> tuple[HandServer, Answer]:
    """A host of three parties, told to begin without some of them."""
    document = job({"guest": ["9999"], "host": ["10000", "10001"]}, {"a": []}, fewest_hosts=fewest)
    host = a_host(create(document=document), *RUN[1:])
    return host, host.handle(task_command(K.TASK_START, incarnation=INCARNATIONS["a"], without=without))


def test_the_worker_is_not_told_of_parties_that_are_missing() -> None:
    host, answer = begun(["host 10001", "host 77", 5], fewest=1)
    assert answer.is_ok
    assert host.task().without == ("host 10001",), "only parties of the job"
    [order] = host.engine.launched
    assert order.parties == (("guest", "9999"), ("host", "10000"))


@pytest.mark.parametrize(("fewest", "without", "text"), [
    (0, ["host 10001"], "a needs 2 of its parties of role host, 1 are left: without host 10001"),
    (1, ["guest 9999"], "a needs 1 of its parties of role guest, 0 are left: without guest 9999"),
])  # fmt: skip
def test_an_initiator_leaves_out_nobody_whom_the_document_has_take_part(
    fewest: int, without: list[str], text: str
) -> None:
    """Of a sum over fewer parties it would learn what the others have."""
    host, answer = begun(without, fewest)
    assert (answer.retcode, answer.retmsg) == (103, text)
    assert (host.task().party_status, host.engine.launched) == (TaskStatus.WAITING, [])


@pytest.mark.parametrize(("reason", "written"), [("party_missing", Reason.PARTY_MISSING), ("x", Reason.STOPPED)])
def test_a_share_that_is_passed_over_says_so(reason: str, written: Reason) -> None:
    host = a_host(*RUN, task_command(K.TASK_STOP, argument="canceled", reason=reason))
    row = host.task()
    assert (row.party_status, row.reason) == (TaskStatus.CANCELED, written)


@pytest.mark.parametrize(("missing", "written"), [(["host 10000"], ("host 10000",)), (["host 9"], ()), ("host", ())])
def test_a_party_knows_that_the_success_is_a_partial_one(missing: object, written: tuple[str, ...]) -> None:
    host = a_host(*RUN, command(K.STATUS, argument="success", reason="done", message="m", missing=missing))
    found = host.job()
    assert (found.status, found.missing) == (JobStatus.SUCCESS, written)


# ---------------------------------------------------------------------- at the initiator


def of_three() -> Process:
    """A running job of a guest and two hosts, one of which is enough."""
    one = chosen(HandServer("9999", rules=MINUTE_RULES))
    document = job({"guest": ["9999"], "host": ["10000", "10001"]}, fewest_hosts=1)
    submit(one, document=document, accept=False)
    for kind in (K.CREATE, K.CREATE, K.STATUS, K.STATUS):
        one.answer(kind, Answer(data={"extensions": {}}))
    one.scheduler.poll()
    for kind in (K.CHECK, K.CHECK, K.APPLY, K.APPLY, K.START, K.START):
        one.answer(kind)
    assert job_of(one).status is JobStatus.RUNNING
    return one


def row(one: Process, party: Any) -> Task:
    with one.server.store.reading() as tx:
        found = tx.task(TaskKey(JOB_ID, "work_0", 0, party))
    assert found is not None
    return found


def succeeds(one: Process, party: Any) -> None:
    if party == GUEST:
        worker = worker_of(one.server, "work_0", GUEST)
        for observation in (RUNS, made("t")):
            one.server.engine.sights[worker] = observation
            one.scheduler.step([WorkerChanged(worker)])
        return
    with one.server.unit() as unit:
        body = {"job_id": JOB_ID, "component_name": "work_0", "task_version": 0, "role": party.role,
                "party_id": party.party_id, "party_status": "success", "start_time": 1, "end_time": 2}  # fmt: skip
        take_body(unit, body, party)
    one.scheduler.poll()


def test_a_silent_host_is_given_up_and_the_others_finish() -> None:
    one = of_three()
    one.scheduler.step([PartySilent("10000", 90.0)])
    lost = row(one, HOST)
    assert (lost.party_status, lost.reason) == (TaskStatus.FAILED, Reason.PARTY_UNREACHABLE)
    assert job_of(one).status is JobStatus.RUNNING
    assert one.sent().count("stop failed") == 1
    for party in (GUEST, OTHER):
        succeeds(one, party)
    found = job_of(one)
    assert (found.status, found.missing, found.unconfirmed) == (JobStatus.SUCCESS, ("host 10000",), ("host 10000",))
    assert found.message == "without host 10000"
    assert one.server.free_cores() == 8
    with one.server.store.reading() as tx:
        statuses = {str(seat.party): seat.status for seat in tx.seats(JOB_ID)}
    assert statuses["host 10000"] is SeatStatus.UNCONFIRMED


@pytest.mark.parametrize("has_confirmed", [False, True])
def test_a_host_that_was_given_up_may_stay_silent(has_confirmed: bool) -> None:
    """Its sender says so at every try and at every heartbeat: that is nothing new."""
    one = of_three()
    one.scheduler.step([PartySilent("10000", 90.0)])
    if has_confirmed:
        one.answer(K.STOP, Answer(data={"tasks": []}))
    for seconds in (92.0, 97.0, 150.0):
        one.scheduler.step([PartySilent("10000", seconds)])
        one.scheduler.poll()
    assert (job_of(one).status, job_of(one).reason) == (JobStatus.RUNNING, None)
    for party in (GUEST, OTHER):
        succeeds(one, party)
    found = job_of(one)
    assert (found.status, found.missing) == (JobStatus.SUCCESS, ("host 10000",))


def test_the_silence_of_another_host_still_ends_a_job_that_has_given_one_up() -> None:
    one = of_three()
    one.scheduler.step([PartySilent("10000", 90.0)])
    one.scheduler.step([PartySilent("10001", 90.0), PartySilent("10000", 92.0)])
    found = job_of(one)
    assert (found.status, found.reason) == (JobStatus.STOPPING, Reason.PARTY_UNREACHABLE)
    assert found.caused_by == "host 10001"


def test_a_host_that_comes_back_is_told_how_the_job_ended() -> None:
    one = of_three()
    one.scheduler.step([PartySilent("10000", 90.0)])
    one.answer(K.STOP, Answer(data={"tasks": []}))
    for party in (GUEST, OTHER):
        succeeds(one, party)
    assert job_of(one).unconfirmed == (), "it has confirmed that it stops"
    described = [sent for sent in one.transport.posted if sent.kind is K.STATUS and sent.to == HOST]
    assert described[-1].body["missing"] == ["host 10000"]
    one.transport.posted[:] = described[-1:]
    one.answer(K.STATUS, Answer(data={"ended_as": "failed"}))
    assert job_of(one).unconfirmed == ("host 10000",), "both keep their word"
