"""What clients of FATE Flow 2 ask about a job."""

from __future__ import annotations

import io
import tarfile

import pytest

from fate_flow.core.model.job import Answer
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus
from tests.kit.api.client_world import World

UNKNOWN = "20260101000000000001"
HOST = Party("host", "10000")
SUCCESS = {"code": 0, "message": "success"}


@pytest.mark.parametrize("path", ["stop", "rerun"])
def test_of_an_unknown_job_the_client_is_told_so(world: World, path: str) -> None:
    found = world.client.post(f"/v2/job/{path}", json={"job_id": UNKNOWN}).json
    assert found == {"code": 1001, "message": f"No found job: job_id[{UNKNOWN}]"}


def test_a_stop_is_asked_for(world: World) -> None:
    job_id = world.add_job()
    assert world.client.post("/v2/job/stop", json={"job_id": job_id}).json == SUCCESS
    with world.store.transaction() as tx:
        assert tx.jobs_here(job_id)[0].cancel_requested


def test_a_rerun_is_passed_on_to_the_initiator(world: World) -> None:
    job_id = world.add_job(status=JobStatus.FAILED, initiator=HOST)
    assert world.client.post("/v2/job/rerun", json={"job_id": job_id}).json == SUCCESS
    assert [to for to, _ in world.peers.asked] == [HOST]
    world.peers.answer = Answer(103, "it runs")
    assert world.client.post("/v2/job/rerun", json={"job_id": job_id}).json == {"code": 1003, "message": "it runs"}


def test_the_queue_is_cleaned(world: World) -> None:
    job_id = world.add_job()
    assert world.client.post("/v2/job/queue/clean").json == {**SUCCESS, "data": {job_id: SUCCESS}}


def test_notes_are_those_of_one_seat(world: World) -> None:
    job_id = world.add_job()
    seat = {"job_id": job_id, "role": "guest", "party_id": "9999"}
    assert world.client.post("/v2/job/notes/add", json={**seat, "notes": "mine"}).json == SUCCESS
    assert world.ask("job/query", {"job_id": job_id})["data"][0]["f_description"] == "mine"
    found = world.client.post("/v2/job/notes/add", json={**seat, "role": "host", "notes": "mine"}).json
    assert found == {"code": 1001, "message": f"No found job: job_id[{job_id}],role[host],party_id[9999]"}


def test_logs_are_a_tar_or_an_error_in_json(world: World) -> None:
    job_id = world.add_job()
    sent = {"job_id": job_id}
    found = world.client.post("/v2/job/log/download", json=sent).json
    assert (found["code"], found["message"]) == (8001, f"No found file or dir: job_id[{job_id}]")
    world.add_log(job_id, "guest/9999/INFO.log", "text")
    response = world.client.post("/v2/job/log/download", json=sent)
    assert response.mimetype == "application/gzip"
    with tarfile.open(fileobj=io.BytesIO(response.data)) as tar:
        assert tar.getnames() == ["guest/9999/INFO.log"]
