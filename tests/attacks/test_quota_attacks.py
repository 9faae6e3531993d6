"""One party takes no more of a running server than its quotas, and others are served beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pytest

from fate_flow.relay.spool import SpoolLimits
from tests.kit.attacks.attacked_server import (
    CORES,
    HONEST,
    HOSTILE,
    OWN,
    QUOTAS,
    AttackedServer,
    create_body,
    new_job_id,
    reader,
)
from tests.kit.servers.party_servers import OVER, Answer
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def jobs(attacked: AttackedServer) -> Iterator[list[str]]:
    """Jobs of the hostile party, ended after the test. Before it, there are none."""
    mine = f"SELECT f_job_id FROM t_job WHERE f_initiator_party_id = ? AND f_status NOT IN {OVER}"
    eventually(lambda: not attacked.server.rows(mine, HOSTILE), "the end of its jobs")
    found: list[str] = []
    yield found
    for job_id in found:
        attacked.end(HOSTILE, job_id)


def test_one_job_too_many_is_refused(attacked: AttackedServer, jobs: list[str]) -> None:
    most = int(QUOTAS["unfinished_jobs"])

    def created(party_id: str, job_id: str) -> tuple[int, str]:
        body = create_body(job_id, reader(party_id, "open"))
        said = attacked.ask(party_id, f"party/{job_id}/host/{OWN}/create", body)
        return said["retcode"], said["retmsg"]

    jobs += [new_job_id() for _ in range(most)]
    assert [created(HOSTILE, job_id)[0] for job_id in jobs] == [0] * most
    retcode, text = created(HOSTILE, new_job_id())
    assert (retcode, f"at most {most} (quotas.parties.{HOSTILE}.unfinished_jobs" in text) == (429, True), text
    assert created(HOSTILE, jobs[0])[0] == 0           # it is here already
    honest = new_job_id()
    assert created(HONEST, honest)[0] == 0
    attacked.end(HONEST, honest)


def test_long_jobs_leave_cores_for_others(attacked: AttackedServer, jobs: list[str]) -> None:
    """The share of the cores is not in the configuration of this server: it holds without."""
    most = CORES * 9 // 10

    def asked(party_id: str, job_id: str, cores: int) -> Answer:
        document = reader(party_id, "open")
        document["job_runtime_conf"]["job_parameters"]["common"]["task_cores"] = cores
        place = f"party/{job_id}/host/{OWN}"
        said = attacked.ask(party_id, f"{place}/create", create_body(job_id, document))
        for verb in ("status/waiting", "resource/apply") if said["retcode"] == 0 else ():
            said = attacked.ask(party_id, f"{place}/{verb}")
        return said

    said = asked(HOSTILE, new_job_id(), most + 1)
    text = f"a share of at most 0.9 (quotas.parties.{HOSTILE}.cores_share"
    assert (said["retcode"], text in said["retmsg"]) == (429, True), said
    held = attacked.server.rows("SELECT SUM(f_cores) AS n FROM t_job WHERE f_initiator_party_id = ?"
                                " AND f_resource_in_use = 1", HOSTILE)[0]["n"] or 0
    jobs += [new_job_id(), new_job_id()]
    assert asked(HOSTILE, jobs[0], most - held)["retcode"] == 0
    said = asked(HOSTILE, jobs[1], 1)
    assert (said["retcode"], said["data"]["quota"], text in said["data"]["why"]) == (103, "cores_share", True), said
    honest, left = new_job_id(), attacked.server.free_cores
    assert left > 0
    assert asked(HONEST, honest, left)["retcode"] == 0
    attacked.end(HONEST, honest)


def test_a_document_that_is_too_large_is_refused_alone_and_in_a_batch(attacked: AttackedServer) -> None:
    most, job_id = int(QUOTAS["document_bytes"]), new_job_id()
    document = reader(HOSTILE, "open")
    document["job_runtime_conf"]["job_parameters"]["common"]["name"] = "x" * most
    body, before = create_body(job_id, document), attacked.files()
    path = f"party/{job_id}/host/{OWN}/create"
    alone = attacked.ask(HOSTILE, path, body)
    [listed] = attacked.ask(HOSTILE, "party/batch", {"commands": [{"endpoint": f"/{path}", "body": body}]})["data"]
    for said in (alone, listed):
        assert (said["retcode"], f"quotas.parties.{HOSTILE}.document_bytes" in said["retmsg"]) == (413, True), said
    assert len(json.dumps(body)) > most
    attacked.await_nothing_new(before)
    assert attacked.server.rows("SELECT * FROM t_job WHERE f_job_id = ?", job_id) == []


def test_messages_that_nobody_reads_fill_the_share_of_their_party_alone(
    attacked: AttackedServer, hostile_seat: str
) -> None:
    [task] = attacked.server.tasks(hostile_seat)
    place = f"{hostile_seat}/{hostile_seat}_toy_0/0/{task['f_incarnation']}"
    piece, share = b"x" * (1 << 20), SpoolLimits().chunk_bytes + (1 << 20)       # one largest chunk fits always

    def delivered(party_id: str, topic: str, number: int = 0) -> tuple[int, str]:
        query = f"topic={topic}&seq={number}&last=1"
        path = f"exchange/deliver/{place}/host/{party_id}/guest/{OWN}?{query}"
        status, text = attacked.raw(party_id, path, piece)
        return status, text.decode()

    def stored(topics: Sequence[tuple[str, int]]) -> int:
        """How many are stored until one is refused."""
        for count, one in enumerate(topics):
            status, text = delivered(HOSTILE, *one)
            if status != 200:
                assert (status, f"quotas.parties.{HOSTILE}.spool_share" in text) == (429, True), text
                return count
        return len(topics)

    assert 0 < stored([("one", number) for number in range(8)]) * len(piece) < share
    assert stored([(f"topic.{number}", 0) for number in range(8)]) == 0
    assert delivered(HONEST, "one")[0] == 200
