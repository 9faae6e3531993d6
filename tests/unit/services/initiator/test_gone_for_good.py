"""Commands for a party that never answers: kept while they matter, dropped in the end, said again when it is back."""

from __future__ import annotations

import pytest

from fate_flow.core.model.job import Command
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.status import JobStatus, SeatStatus
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.ports import Rules
from fate_flow.services.scheduling.events import HeartbeatAnswered, PartySilent
from tests.kit.job_documents import job
from tests.kit.services.hand_scheduler import Process, after, chosen, job_of, running, seat, submit
from tests.kit.services.hand_server import HandServer
from tests.kit.services.party_commands import RUN, a_host
from tests.kit.values import HOST, JOB_ID, OTHER

WEEK = 604_800


def with_a_lost_host() -> Process:
    """The job has ended without its host, which was told and has not answered."""
    process = chosen(HandServer("9999", rules=Rules(drain=1_000)))
    running(process)
    process.scheduler.step([PartySilent("10000", 90.0)])
    after(process, 2)
    assert (job_of(process).status, job_of(process).unconfirmed) == (JobStatus.FAILED, ("guest 9999", "host 10000"))
    process.transport.take()
    return process


def kinds(process: Process) -> list[str]:
    return [f"{one.kind.value} {one.argument}".strip() for one in process.server.outbox()]


def test_commands_about_a_job_that_is_over_are_dropped_in_the_end_and_it_is_logged() -> None:
    process = with_a_lost_host()
    before = kinds(process)
    assert {"stop failed", "status failed"} <= set(before)
    after(process, WEEK - 10)
    assert kinds(process) == before
    after(process, 20)
    assert (kinds(process), seat(process, "10000").status) == ([], SeatStatus.UNCONFIRMED)
    described = [str(fields["text"]) for fields in process.server.record.seen(Event.DETECT_NOTE)]
    assert f"job {JOB_ID}: 'status' was dropped, host 10000 has not answered for very long" in described


def test_a_party_that_is_back_is_told_the_end_once_more() -> None:
    process = with_a_lost_host()
    after(process, WEEK + 10)
    process.scheduler.beat()
    assert (process.transport.heartbeats, process.scheduler.is_unsure_of("10000")) == ({"10000": ()}, True)
    process.transport.take()
    for _ in range(2):
        process.scheduler.step([HeartbeatAnswered("10000", {})])
        assert process.sent() == ["status failed"]
    process.answer(K.STATUS)
    assert seat(process, "10000").status is SeatStatus.LEFT
    process.transport.heartbeats.clear()
    process.scheduler.beat()
    assert (process.transport.heartbeats, process.scheduler.is_unsure_of("10000")) == ({}, False)


def test_what_is_still_on_its_way_is_not_said_twice() -> None:
    process = with_a_lost_host()
    before = kinds(process)
    process.scheduler.step([HeartbeatAnswered("10000", {})])
    assert kinds(process) == before


def test_a_command_about_a_job_that_is_not_over_is_kept() -> None:
    process = chosen(HandServer("9999"))
    submit(process, document=job({"guest": ["9999"], "host": ["10000"]}, timeout=10**9))
    after(process, WEEK + 10)
    assert kinds(process) == ["dependence/check", "resource/apply"]


@pytest.mark.parametrize(("kind", "is_kept"), [(K.REPORT, True), (K.ASK_STOP, False)])
def test_while_the_job_runs_a_report_is_kept_and_a_request_dropped(kind: K, is_kept: bool) -> None:
    process = chosen(a_host(*RUN, rules=Rules(initiator_silence=10**12)))
    with process.server.unit() as unit:
        unit.send(Command(kind, JOB_ID, OTHER, argument="canceled"))
    after(process, WEEK + 10)
    assert [one.kind for one in process.server.outbox()] == [kind] * is_kept
    assert process.server.job(HOST).status is JobStatus.RUNNING
