"""The scheduler of a server of a test: its clock moves and other parties answer when the test says so."""

from __future__ import annotations

from typing import Any

from fate_flow.core.model.job import Answer, Job, JobKey
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus
from fate_flow.services.context.ports import Rules
from fate_flow.services.scheduling.events import Answered, JobChanged, OutboxFilled, QueueChanged
from fate_flow.services.scheduling.scheduler import Scheduler
from fate_flow.store.values import Document
from tests.kit.job_documents import BOTH, job
from tests.kit.services.ahead import drop_what_goes_ahead
from tests.kit.services.fakes import HandTransport
from tests.kit.services.hand_server import HandServer
from tests.kit.values import GUEST, HOST, JOB_ID, NOW

RULES = Rules(scheduler_silence=10_000, queue_passes=2)
MINUTE_RULES = Rules(retry_wait=2_000, launch=60_000, drain=60_000, resource_waiting=300_000, poll_interval=2_000)
PLAIN_V1 = Answer(data={"components": {"work_0": {"need_run": True}}})
"""What a host that speaks plain v1 answers to `create`."""


class Process:
    """A scheduler process of one server; `seconds` is its monotonic clock."""

    def __init__(self, server: HandServer, owner: str = "home-1", home_id: str = "home-") -> None:
        self.server, self.transport, self.seconds = server, HandTransport(), 50.0
        self.scheduler = Scheduler(server.context, self.transport, owner, home_id, lambda: self.seconds)

    def answer(self, kind: K, answer: Answer | None = None, job_id: str = JOB_ID) -> None:
        """Another party answers the oldest command of this kind that was posted."""
        found = next(one for one in self.transport.posted if one.kind is kind and one.job_id == job_id)
        self.transport.posted.remove(found)
        self.scheduler.step([Answered(found, answer or Answer())])

    def sent(self) -> list[str]:
        return [f"{one.kind.value} {one.argument}".strip() for one in self.transport.posted]


def chosen(server: HandServer | None = None, **more: Any) -> Process:
    process = Process(server or HandServer("9999", rules=RULES), **more)
    assert process.scheduler.is_chosen()
    return process


def submit(process: Process, job_id: str = JOB_ID, document: Document = BOTH, accept: bool = True) -> None:
    """A job that every party accepted, as far as a party that is played by hand can."""
    server, side = process.server, process.scheduler._initiator
    with server.unit() as unit:
        side.take_submit(unit, job_id, server.parsed(document), job_id)
        side.advance(unit, job_id)
        drop_what_goes_ahead(unit.tx)
    process.scheduler.step([OutboxFilled(), JobChanged(job_id)])
    if accept:
        process.answer(K.CREATE, Answer(data={"extensions": {}}), job_id)
        process.answer(K.STATUS, job_id=job_id)


def job_of(process: Process, job_id: str = JOB_ID) -> Job:
    return process.server.job(GUEST, job_id)


def running(process: Process) -> None:
    submit(process)
    process.scheduler.step([QueueChanged()])
    for kind in (K.CHECK, K.APPLY, K.START):
        process.answer(kind)
    assert job_of(process).status is JobStatus.RUNNING


def holding(process: Process, cores: int, name: str = "20250101120000") -> None:
    """Somebody else's job holds so many cores of this party."""
    with process.server.store.transaction() as tx:
        key = JobKey(name, Party("host", "9999"))
        tx.add_job(Job(key, HOST, False, JobStatus.WAITING, create_time=NOW - 99_999), BOTH)
        assert tx.reserve(key, "local", cores, 0, "t", 1, NOW)


def release(process: Process, name: str = "20250101120000") -> None:
    with process.server.store.transaction() as tx:
        assert tx.give_back(JobKey(name, Party("host", "9999")), None, NOW)


def local(cores: int = 2) -> Document:
    return job({"guest": ["9999"]}, cores=cores)


def after(process: Process, seconds: float) -> None:
    process.seconds += seconds
    process.scheduler.poll()


def seat(process: Process, party_id: str) -> Any:
    with process.server.store.reading() as tx:
        return next(one for one in tx.seats(JOB_ID) if one.party.party_id == party_id)


def restarted(one: Process) -> Process:
    """The next process of this server, on whose machine the monotonic clock has begun anew."""
    again = Process(one.server, "home-2")
    again.seconds = 3.0
    again.scheduler = Scheduler(one.server.context, again.transport, "home-2", "home-", lambda: again.seconds)
    assert again.scheduler.is_chosen()
    return again
