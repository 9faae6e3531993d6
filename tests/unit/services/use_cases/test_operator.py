"""What an operator does by hand: seeing who holds what, and releasing it with a reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.errors import Conflict, JobNotFound, OperationFailed
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.job import JobKey
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, SeatStatus, TaskStatus
from fate_flow.core.planning.actions import MoveJob
from fate_flow.core.record.entry import Kind
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.ports import Observation
from fate_flow.services.record.reading import shown
from fate_flow.services.use_cases.admin import Operator
from tests.kit.services.hand_server import HandServer, worker_of
from tests.kit.services.party_commands import DOCUMENT, HOLD, JOIN, RUN, a_host, task_command
from tests.kit.services.sights import RUNS, STOPPED
from tests.kit.values import GUEST, HOST, JOB_ID, NOW, OTHER, a_job, a_seat

KEY = JobKey(JOB_ID, HOST)
WHY = "its initiator has moved"


class UseCases:
    """An operator at a server; time passes only in pauses, and then `meanwhile` happens."""

    def __init__(self, server: HandServer, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.server, self.meanwhile = server, meanwhile
        self.now = 0.0
        self.operator = Operator(server.context, lambda: self.now, self._sleep, by="ann")

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        self.meanwhile()

    def release(self, stops: bool = False, key: JobKey = KEY) -> Any:
        return self.operator.release(key, WHY, stops)


def with_worker() -> HandServer:
    """A host that runs task a."""
    host = a_host(*RUN, task_command(K.TASK_START))
    host.engine.sights[worker_of(host)] = RUNS
    host.watch()
    return host


def books(server: HandServer) -> tuple[bool, int]:
    """Whether the job holds something, and the cores that are free."""
    return server.job().holds, server.free_cores()


def test_who_holds_what() -> None:
    host = a_host(*HOLD)
    found = Operator(host.context).held()
    [job] = found.jobs
    assert (job.key, job.claim.cores, job.claim.taken_time, job.initiator) == (KEY, 2, NOW, GUEST)
    assert [(one.name, one.remaining_cores) for one in found.engines] == [("local", 6)]
    assert Operator(a_host(*JOIN).context).held().jobs == ()


def test_a_hold_goes_back_and_the_job_waits_on() -> None:
    host = a_host(*HOLD)
    assert UseCases(host).release().cores == 2
    assert books(host) == (False, 8)
    job = host.job()
    assert (job.status, job.message) == (JobStatus.WAITING, f"released by an operator: {WHY}")


def test_a_job_that_has_started_ends_here_with_the_reason() -> None:
    host = a_host(*RUN)
    UseCases(host).release()
    job = host.job()
    assert (job.status, job.reason) == (JobStatus.FAILED, Reason.RELEASED)
    assert job.message == f"released by an operator: {WHY}"
    assert books(host) == (False, 8)
    assert [task.party_status for task in (host.task("a"), host.task("b"))] == [TaskStatus.CANCELED] * 2


def test_every_log_has_the_reason() -> None:
    host = a_host(*RUN)
    UseCases(host).release()
    for event in (Event.JOB_WARNING, Event.SERVED, Event.SERVER_NOTE):
        assert [WHY in str(fields["text"]) for fields in host.record.seen(event)] == [True], event


def test_what_a_living_worker_needs_is_not_taken_from_it() -> None:
    host = with_worker()
    before = host.snapshot()
    with pytest.raises(Conflict, match=r"of a \(pid 7\) runs; end the job with flow job stop, or say --stop"):
        UseCases(host).release()
    assert host.snapshot() == before
    assert host.engine.stopped == []


def test_unless_it_is_to_be_stopped_first() -> None:
    host = with_worker()
    worker = worker_of(host)

    def end() -> None:
        assert books(host) == (True, 6), "it still runs"
        assert host.engine.stopped[:1] == [worker]
        host.engine.sights[worker] = STOPPED

    use_cases = UseCases(host, meanwhile=end)
    use_cases.release(stops=True)
    assert books(host) == (False, 8)
    assert (host.job().status, host.job().reason) == (JobStatus.FAILED, Reason.RELEASED)


def test_a_worker_that_does_not_end_keeps_its_cores() -> None:
    host = with_worker()
    with pytest.raises(OperationFailed, match=r"have not ended within 20 s; nothing was released"):
        UseCases(host).release(stops=True)
    assert books(host) == (True, 6)
    assert host.job().status is JobStatus.STOPPING


def test_a_worker_that_is_lost_holds_nobody_up() -> None:
    host = with_worker()
    host.engine.sights[worker_of(host)] = Observation("lost")
    UseCases(host).release()
    assert books(host) == (False, 8)


def test_at_the_initiator_the_whole_job_is_to_end() -> None:
    guest = HandServer("9999")
    run(guest)
    UseCases(guest).release(key=JobKey(JOB_ID, GUEST))
    job = guest.job(GUEST)
    assert (job.status, job.reason, job.holds) == (JobStatus.STOPPING, Reason.RELEASED, False)
    assert guest.free_cores() == 8
    assert K.STOP in [command.kind for command in guest.outbox()]


def run(guest: HandServer) -> None:
    """The initiator's row of a running job, with both seats started."""
    waiting = replace(a_job(JobStatus.WAITING), round_number=0)
    with guest.store.transaction() as tx:
        tx.add_job(waiting, DOCUMENT)
        tx.add_seats([a_seat(GUEST, SeatStatus.STARTED), a_seat(HOST, SeatStatus.STARTED)])
        tx.reserve(waiting.key, "local", 2, 0, "token", 1, NOW)
        assert tx.move_job(waiting, MoveJob(JobStatus.RUNNING), NOW)


@pytest.mark.parametrize(("key", "error", "text"), [
    (JobKey(JOB_ID, OTHER), JobNotFound, "is not known here"),
    (KEY, Conflict, "is waiting and holds nothing"),
])  # fmt: skip
def test_what_cannot_be_released(key: JobKey, error: type[Exception], text: str) -> None:
    host = a_host(*JOIN)
    with pytest.raises(error, match=text):
        UseCases(host).release(key=key)


def test_it_is_released_once() -> None:
    host = a_host(*HOLD)
    UseCases(host).release()
    with pytest.raises(Conflict, match="holds nothing"):
        UseCases(host).release()
    assert host.free_cores() == 8


def test_the_record_has_who_has_released_by_force() -> None:
    host = a_host(*HOLD)
    object.__setattr__(host.context, "keeps_record", True)
    UseCases(host).release()
    with host.store.reading() as tx:
        (act,) = [one for one in shown(tx, tx.record_of_job(JOB_ID)) if one.kind == Kind.ACT]
    assert (act.said["what"], act.person, act.text) == ("release by an operator", "ann", WHY)
