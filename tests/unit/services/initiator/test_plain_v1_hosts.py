"""What the initiator does otherwise for a party that speaks plain v1: it asks, since nobody need tell it."""

from __future__ import annotations

from fate_flow.core.model.errors import UNREACHABLE
from fate_flow.core.model.job import Answer
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, TaskStatus
from fate_flow.services.scheduling.events import WorkerChanged
from tests.kit.job_documents import job
from tests.kit.services.hand_scheduler import PLAIN_V1, Process, after, chosen, job_of, seat, submit
from tests.kit.services.hand_server import HandServer, worker_of
from tests.kit.services.sights import FAILED, made
from tests.kit.values import GUEST, HOST, JOB_ID


def running(retries: int = 0) -> Process:
    process = chosen(HandServer("9999"))
    submit(process, document=job({"guest": ["9999"], "host": ["10000"]}, cores=2, retries=retries), accept=False)
    process.answer(K.CREATE, PLAIN_V1)
    assert seat(process, "10000").is_plain_v1
    for kind in (K.STATUS, K.CHECK, K.APPLY, K.START):
        process.answer(kind)
    assert job_of(process).status is JobStatus.RUNNING
    return process


def collected(status: str, version: int = 0) -> Answer:
    """As party-api-v1 has it: no component name, no incarnation, no reason."""
    task = {"job_id": JOB_ID, "task_id": f"{JOB_ID}_work_0", "task_version": version, "role": "host"}
    return Answer(data={**task, "party_id": "10000", "status": "running", "party_status": status, "end_time": None})


def test_it_is_told_the_federated_status_before_the_start() -> None:
    assert running().sent() == ["task status running", "task start"]


def test_its_share_is_asked_for_one_question_at_a_time_until_it_is_over() -> None:
    process = running()
    for kind in (K.TASK_STATUS, K.TASK_START):
        process.answer(kind)
    for _ in range(3):
        after(process, 2)
        assert process.sent() == ["task collect"]
    process.answer(K.TASK_COLLECT, collected("running"))
    assert process.server.task("work_0", HOST).party_status is TaskStatus.RUNNING
    after(process, 2)
    process.answer(K.TASK_COLLECT, Answer(UNREACHABLE, "no answer in time"))
    after(process, 2)
    process.answer(K.TASK_COLLECT, collected("success"))
    after(process, 2)
    assert process.sent() == []
    worker = worker_of(process.server, "work_0", GUEST)
    process.server.engine.sights[worker] = made("t")
    process.scheduler.step([WorkerChanged(worker)])
    assert job_of(process).status is JobStatus.SUCCESS


def test_a_party_that_answers_and_never_ends_its_share_does_not_hold_the_job_for_ever() -> None:
    process = running(retries=1)
    worker = worker_of(process.server, "work_0", GUEST)
    process.server.engine.sights[worker] = FAILED
    process.scheduler.step([WorkerChanged(worker)])
    after(process, 1)                              # noticed now
    process.answer(K.TASK_COLLECT, collected("running"))
    after(process, 149)
    assert job_of(process).reason is None
    after(process, 2)
    found = job_of(process)
    assert (found.reason, found.message) == (Reason.TASK_FAILED, "work_0 did not end within 150 s on host 10000")
    after(process, 61)
    assert (job_of(process).status, job_of(process).unconfirmed) == (JobStatus.FAILED, ("host 10000",))


def test_a_new_version_is_sent_as_the_whole_row_that_it_inserts() -> None:
    process = running(retries=1)
    process.transport.take()
    worker = worker_of(process.server, "work_0", GUEST)
    process.server.engine.sights[worker] = FAILED
    process.scheduler.step([WorkerChanged(worker)])
    after(process, 2)
    process.answer(K.TASK_STOP)
    process.answer(K.TASK_COLLECT, collected("running"))
    after(process, 2)
    process.answer(K.TASK_COLLECT, collected("canceled"))
    after(process, 2)
    [create] = [one for one in process.transport.posted if one.kind is K.TASK_CREATE]
    assert {key: create.body[key] for key in ("task_id", "task_version", "component_name", "status", "party_status",
                                              "initiator_role", "initiator_party_id", "role", "party_id")} == {
        "task_id": f"{JOB_ID}_work_0", "task_version": 1, "component_name": "work_0", "status": "waiting",
        "party_status": "waiting", "initiator_role": "guest", "initiator_party_id": "9999", "role": "host",
        "party_id": "10000"}  # fmt: skip
