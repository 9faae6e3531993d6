"""Jobs that begin again, at their initiator and at another party."""

from __future__ import annotations

from typing import Any

from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.status import JobStatus
from fate_flow.services.scheduling.events import WorkerChanged
from tests.kit.job_documents import job
from tests.kit.services.hand_scheduler import Process, chosen, job_of, submit
from tests.kit.services.hand_server import HandServer
from tests.kit.services.hand_use_cases import Harness
from tests.kit.services.party_commands import DOCUMENT
from tests.kit.values import GUEST, JOB_ID

FRESH = "ee" * 16
LAST = {"status": "failed", "reason": "task_failed", "message": "it broke"}
TASKS = {"a": {"version": 1, "incarnation": FRESH, "auto_retries": 2}}

ALONE = job({"guest": ["9999"]}, {"a": [], "b": ["a"]}, cores=2)


def canceled() -> Process:
    """A job of two parties that a user has ended in its first reservation round; the host has not said yet that it
    knows."""
    process = chosen(HandServer("9999"))
    submit(process, document=DOCUMENT)
    Harness(process.server).use_cases.jobs.stop(JOB_ID)
    process.scheduler.poll()
    for kind in (K.CHECK, K.APPLY, K.STOP, K.TASK_STATUS, K.TASK_STATUS):
        process.answer(kind)
    assert job_of(process).status is JobStatus.CANCELED
    assert process.sent() == ["status canceled"]
    return process


def begun_again(process: Process) -> Process:
    Harness(process.server).use_cases.jobs.rerun(JOB_ID, {})
    process.scheduler.poll()
    return process


def of_one_party(sights: dict[str, Any], document: Any = ALONE) -> Process:
    """A job of one party whose tasks end so, one after the other."""
    process = chosen(HandServer("9999"))
    with process.server.unit() as unit:
        process.scheduler._initiator.take_submit(unit, JOB_ID, process.server.parsed(document), JOB_ID)
        process.scheduler._initiator.advance(unit, JOB_ID)
    process.scheduler.poll()
    for name, observation in sights.items():
        end_task(process, name, observation)
    return process


def end_task(process: Process, name: str, observation: Any, version: int = 0) -> None:
    worker = process.server.task(name, GUEST, version).worker_id
    process.server.engine.sights[worker] = observation
    process.scheduler.step([WorkerChanged(worker)])
