"""A submit that carries a request id is one submit, however often it is sent."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from tests.kit.servers.party_servers import GUEST, HOST, Cluster, toy

pytestmark = pytest.mark.timeout(900)


def jobs_at(cluster: Cluster, party_id: str) -> int:
    return int(cluster.parties[party_id].rows("SELECT count(*) AS n FROM t_job")[0]["n"])


def test_the_same_request_is_the_same_job_and_other_content_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    conf, dsl, request_id = tmp_path / "conf.json", tmp_path / "dsl.json", uuid4().hex
    dsl.write_text(json.dumps(toy()["job_dsl"]))
    conf.write_text(json.dumps(toy()["job_runtime_conf"]))
    before = jobs_at(cluster, HOST)
    submit = ("job", "submit", "-c", conf, "-d", dsl, "--request-id", request_id)
    job_id = cluster.guest.flow(*submit).job_id
    cluster.wait(job_id, "success")
    assert cluster.guest.flow(*submit).job_id == job_id
    assert jobs_at(cluster, HOST) == before + 1

    conf.write_text(json.dumps(toy(data_num=7)["job_runtime_conf"]))
    refused = cluster.guest.flow(*submit, code=1).document
    assert refused["retcode"] == 103
    assert request_id in refused["retmsg"]
    assert job_id in refused["retmsg"]
    assert jobs_at(cluster, HOST) == before + 1


def test_requests_that_arrive_at_the_same_moment_make_one_job(cluster: Cluster) -> None:
    before = jobs_at(cluster, GUEST)
    key = {"Idempotency-Key": uuid4().hex}
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: cluster.guest.raw("POST", "job/submit", json=toy(), headers=key).json(),
                                range(6)))
    assert {answer["retcode"] for answer in answers} == {0}, answers
    [job_id] = {answer["jobId"] for answer in answers}
    cluster.wait(job_id, "success")
    assert jobs_at(cluster, GUEST) == before + 1


def test_a_request_is_remembered_by_a_server_that_was_killed(on_sqlite: Cluster) -> None:
    cluster = on_sqlite
    key = {"Idempotency-Key": uuid4().hex}
    job_id = cluster.submit(toy(), **key)
    cluster.kill(GUEST)
    cluster.start(GUEST)
    assert cluster.submit(toy(), **key) == job_id
    cluster.wait(job_id, "success")


def test_submits_without_a_request_id_are_different_jobs(on_sqlite: Cluster) -> None:
    first, second = on_sqlite.submit(toy()), on_sqlite.submit(toy())
    assert first != second
    for job_id in (first, second):
        on_sqlite.wait(job_id, "success")


def test_a_refused_request_is_refused_again(on_sqlite: Cluster) -> None:
    key = {"Idempotency-Key": uuid4().hex}
    document = toy()
    document["job_runtime_conf"]["job_parameters"]["role"] = {"host": {"0": {"task_cores": 50}}}
    answers = [on_sqlite.guest.submit(document, **key) for _ in range(2)]
    for answer in answers:
        assert answer["retcode"] == 103
        assert "host 10000: the job asks for 50 cores" in answer["retmsg"]
