"""Jobs that run while something is wrong, in the database of one server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.model.status import JobStatus
from tests.kit.api.client_world import GUEST, HOST, START, TOY, TOY_CONF, World


def running_job(world: World, retries: int = 0, job_id: str = "") -> str:
    """One whose guest has started its share, and whose host runs it."""
    conf = {**TOY_CONF, "job_parameters": {"common": {"task_cores": 2, "auto_retries": retries}}}
    job_id = world.add_job(job_id, status=JobStatus.RUNNING, document=replace(TOY, runtime_conf=conf))
    world.add_seats(job_id)
    world.write("t_seat", {"f_job_id": job_id}, f_status="started", f_message="")
    for party in (GUEST, HOST):
        world.add_task(job_id, party=party, f_status="running", f_party_status="running")
    return job_id


def trouble(world: World, **fields: Any) -> None:
    with world.store.transaction() as tx:
        tx.scheduler()
        assert tx.take_scheduler_lease("", 0, "me")
        assert tx.renew_scheduler_lease("me", 8_000)
        tx.note_trouble(PeerTrouble("10000", **fields))


def copy_of_a_job(world: World, **task: Any) -> str:
    """A job that host 10000 has submitted, and that runs here."""
    job_id = world.add_job(status=JobStatus.RUNNING, party=GUEST, initiator=HOST, f_start_time=START)
    world.add_task(job_id, **{"f_status": "running", "f_party_status": "running", "f_start_time": START, **task})
    return job_id
