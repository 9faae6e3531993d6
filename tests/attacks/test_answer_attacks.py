"""Answers of other parties' servers that are endless, huge, of somebody else, or lies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fate_flow.core.wire.v1.extensions import EXTENSIONS
from tests.kit.attacks.attacked_server import (
    HONEST,
    HOSTILE,
    KEYLESS,
    OWN,
    REPLACED,
    RIGHT,
    WRONG,
    AttackedServer,
    Listener,
    agrees,
    new_job_id,
    program,
    task_path,
)
from tests.kit.peers.hostile_server import DRIPPING, FLOODING, SUCCESS, Script, answer, once
from tests.kit.servers.party_servers import Answer
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

MOST_BYTES = 150 << 20
"""More memory than a server takes for one question; a bomb would take a gigabyte."""
CLOSE = "Connection: close"
HUGE_TEXT = b'{"retcode": 0, "retmsg": "%s"}' % (b"x" * (20 << 20))
ANSWERS: dict[str, Script] = {
    **{f"flooding: {name}": script for name, script in FLOODING.items()},
    **{f"dripping: {name}": script for name, script in DRIPPING.items() if name in ("nothing", "chunks")},
    **{name: once(answer(body, "200 OK", CLOSE)) for name, body in {
        "a huge text": HUGE_TEXT, "deep lists": b"[" * 1_000_000, "no envelope": b"[1, 2]", "no JSON": b"\xff",
        "an odd envelope": b'{"retcode": true, "retmsg": {"a": []}, "data": 1e400}',
    }.items()},
    "no HTTP": once(b"hello\r\n\r\n"),
    "two lengths": once(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 35\r\n\r\n" + SUCCESS),
}  # fmt: skip


def test_no_answer_of_a_joined_party_costs_much(attacked: AttackedServer) -> None:
    attacked.seen(WRONG)
    before = attacked.memory()
    for name, script in ANSWERS.items():
        attacked.wrong.append(script)
        asked = attacked.wrong_server.accepted
        assert attacked.seen(WRONG).startswith("does not answer: "), name
        assert attacked.wrong_server.accepted > asked, name
        assert attacked.memory() < before + MOST_BYTES, name
    attacked.wrong.append(RIGHT)
    assert attacked.wrong_server.await_no_connection(90), "the server keeps a connection that it waits for"


def test_a_redirect_leads_nowhere(attacked: AttackedServer) -> None:
    with Listener() as elsewhere:
        for status in ("301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"):
            attacked.wrong.append(once(answer(SUCCESS, status, f"Location: {elsewhere.url}/x", CLOSE)))
            attacked.seen(WRONG)
        attacked.wrong.append(RIGHT)
        assert elsewhere.count() == 0


@pytest.mark.parametrize("party_id", [REPLACED, KEYLESS])
def test_who_answers_with_another_key_gets_no_request(attacked: AttackedServer, party_id: str) -> None:
    """Also with a valid key of another party: a man in the middle, or an address that was taken over."""
    assert f"its server shows no valid key of party {party_id}" in attacked.seen(party_id)
    refused = attacked.server.submit(program(OWN, {"host": [party_id]}))
    assert refused["retcode"] != 0
    assert f"no valid key of party {party_id}" in refused["retmsg"]
    assert attacked.peers[party_id].asked == []


# ---------------------------------------------------------------------- lies


def report(attacked: AttackedServer, job_id: str, seat: str, status: str, **more: object) -> Answer:
    path = task_path(job_id, "report", f"host/{seat}", "initiator")
    return attacked.ask(HOSTILE, path, {"party_status": status, "error_report": "a lie", **more})


def statuses(attacked: AttackedServer, job_id: str) -> dict[str, str]:
    rows = attacked.server.rows("SELECT f_party_id, f_party_status FROM t_task WHERE f_job_id = ?", job_id)
    return {row["f_party_id"]: row["f_party_status"] for row in rows}


def incarnation(attacked: AttackedServer, job_id: str) -> str:
    return str(attacked.server.tasks(job_id)[0]["f_incarnation"])


def test_a_party_speaks_for_no_other_seat_of_its_job(attacked: AttackedServer, hostile_seat: str) -> None:
    before = statuses(attacked, hostile_seat)
    for seat in (HONEST, OWN):
        for status in ("success", "failed", "running"):
            said = report(attacked, hostile_seat, seat, status, incarnation=incarnation(attacked, hostile_seat))
            assert said["retcode"] == 108, said
    for path in (
        task_path(hostile_seat, "status/failed", f"guest/{OWN}"), f"party/{hostile_seat}/guest/{OWN}/stop/canceled",
        f"party/{hostile_seat}/guest/{OWN}/status/success", f"party/{hostile_seat}/guest/{OWN}/resource/return",
    ):  # fmt: skip
        assert attacked.ask(HOSTILE, path)["retcode"] == 108, path
    assert attacked.ask(HOSTILE, "party/history", {"job_id": hostile_seat})["retcode"] == 108
    assert statuses(attacked, hostile_seat) == before


def test_a_lie_about_the_own_share_moves_that_share_alone(attacked: AttackedServer, hostile_seat: str) -> None:
    """Success twice, then a failure; of an unknown attempt; in a status that is none."""
    mine = {"incarnation": incarnation(attacked, hostile_seat)}
    others = {key: value for key, value in statuses(attacked, hostile_seat).items() if key != HOSTILE}
    assert report(attacked, hostile_seat, HOSTILE, "splendid", **mine)["retcode"] == 101
    for old in ("cd" * 16, "not hex", 5):
        assert report(attacked, hostile_seat, HOSTILE, "failed", incarnation=old)["retcode"] in (0, 101)
    assert statuses(attacked, hostile_seat)[HOSTILE] not in ("failed", "success")
    for status in ("success", "success", "failed", "running"):
        assert report(attacked, hostile_seat, HOSTILE, status, **mine)["retcode"] == 0
        found = statuses(attacked, hostile_seat)
        assert found == {**others, HOSTILE: "success"}, status
    # The job goes on: its other parties have not ended.
    assert attacked.server.job(hostile_seat)["f_status"] == "running"


def test_nothing_is_believed_after_the_end_of_a_job(attacked: AttackedServer, hostile_seat: str) -> None:
    mine = {"incarnation": incarnation(attacked, hostile_seat)}
    attacked.server.ask("job/stop", {"job_id": hostile_seat})
    attacked.server.wait(hostile_seat, "canceled")
    unsaid = "SELECT * FROM t_outbox WHERE f_job_id = ?"
    eventually(lambda: not attacked.server.rows(unsaid, hostile_seat), "all parties to confirm the stop")
    before = attacked.rows(hostile_seat)
    for status in ("success", "failed", "running"):
        assert report(attacked, hostile_seat, HOSTILE, status, **mine)["retcode"] in (0, 10, 102, 103), status
    for verb in ("stop/canceled", "ready", "standing"):
        attacked.ask(HOSTILE, f"initiator/{hostile_seat}/guest/{OWN}/{verb}")
    attacked.ask(HOSTILE, f"initiator/{hostile_seat}/host/{HOSTILE}/room", {"free_cores": 10**9})
    assert attacked.rows(hostile_seat) == before


def test_heartbeats_and_answers_about_jobs_of_others_change_nothing(
    attacked: AttackedServer, hostile_seat: str, job_here: str, own_job: str
) -> None:
    """A party is the initiator of jobs that it does not have, and says in each answer that all jobs are over."""
    jobs = (hostile_seat, job_here, own_job)
    before = [attacked.rows(job_id) for job_id in jobs[1:]]
    unknown = [[new_job_id(), 0] for _ in range(500)]
    beat = attacked.ask(HOSTILE, "party/heartbeat", {"jobs": [*unknown, *([job_id, 7] for job_id in jobs)]})
    assert (beat["retcode"], len(beat["data"]["ended"])) == (0, 503)
    bodies = []

    def lies(body: bytes) -> Any:
        bodies.append(body)
        found = agrees(body)
        if "jobs" in json.loads(body):
            reports = [
                {"job_id": job_id, "component_name": "toy_0", "task_id": f"{job_id}_toy_0", "task_version": 0,
                 "role": "host", "party_id": HONEST, "party_status": "failed"} for job_id in jobs
            ]  # fmt: skip
            ended = dict.fromkeys((job_here, own_job), "it is over")
            found["data"] = {"ended": ended, "reports": reports, "extensions": EXTENSIONS}
        return found

    attacked.peers[HOSTILE].answers = lies
    eventually(lambda: sum(b'"jobs"' in one for one in bodies) > 2, "heartbeats")
    assert [attacked.rows(job_id) for job_id in jobs[1:]] == before
    assert attacked.server.job(hostile_seat)["f_status"] == "running"
    assert statuses(attacked, hostile_seat)[HONEST] != "failed"
