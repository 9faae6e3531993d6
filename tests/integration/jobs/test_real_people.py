"""What people say to a queue: holds and approvals, with real servers that are killed in between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fate_flow.core.notifications.standard_webhooks import read_secrets, signed_headers
from tests.kit.notifications.receivers import Webhooks, webhook_receiver
from tests.kit.servers.party_servers import BASE_PORT, CORES, GUEST, HOST, Cluster, running_cluster, toy
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture(scope="module")
def careful(tmp_path_factory: pytest.TempPathFactory, receiver: Webhooks) -> Iterator[Cluster]:
    """Two parties, of which the host wants to approve what comes from others, and is notified of that."""
    folder = tmp_path_factory.mktemp("servers")
    secret = folder / "hook.secret"
    secret.write_text(f"{SECRET}\n", encoding="ascii")
    secret.chmod(0o600)
    hook = {"url": receiver.url, "secret_file": str(secret), "events": ["approval_needed", "job_ended"]}
    overlays = {HOST: {"approval": {"required": True}, "notifications": {"webhooks": {"ops": hook}}}}
    with running_cluster(folder / "careful", (GUEST, HOST), base_port=BASE_PORT + 80, overlays=overlays) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def receiver() -> Iterator[Webhooks]:
    """Where the host's operator is notified."""
    with webhook_receiver() as found:
        yield found


def notified(receiver: Webhooks, event: str, job_id: str) -> dict[str, Any]:
    """What the host was notified of, once it was; it may be twice, with one id. Each request is signed."""
    found: dict[str, dict[str, Any]] = {}
    for headers, body in receiver.got:
        said = json.loads(body)
        if (said["type"], said["data"]["job_id"]) == (event, job_id):
            seconds = int(headers["webhook-timestamp"])
            signed = signed_headers(said["data"]["id"], seconds, body, read_secrets(SECRET, ""))
            assert {name: headers[name] for name in signed} == signed
            found[headers["webhook-id"]] = said["data"]
    assert len(found) <= 1
    return next(iter(found.values()), {})


def described(cluster: Cluster, job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.guest.ask("job/explain", {"job_id": job_id})
    return found


def waits(cluster: Cluster, job_id: str, text: str) -> dict[str, Any]:
    """What the initiator tells of the job, once it waits for this."""
    eventually(
        lambda: text in described(cluster, job_id)["wait_reason"], lambda: described(cluster, job_id)["wait_reason"]
    )
    return described(cluster, job_id)


def test_a_job_awaits_an_approval_that_survives_a_restart_and_then_runs(
    careful: Cluster, receiver: Webhooks
) -> None:  # fmt: skip
    job_id = careful.submit(toy())
    found = waits(careful, job_id, "host 10000 has not approved it yet")
    assert (found["waits_for"], found["awaiting_approval"]) == ("awaiting_approval", ["host 10000"])
    eventually(lambda: careful.guest.free_cores == CORES, "nothing is reserved for it")
    asked_for = eventually(lambda: notified(receiver, "approval_needed", job_id), "the notification")
    assert asked_for["sentence"] == f"Job {job_id} of guest 9999 waits for the approval of this party."
    careful.kill(HOST)
    careful.start(HOST)
    assert careful.host.ask("job/explain", {"job_id": job_id})["approval"]["status"] == "pending"
    [asked] = careful.host.ask("queue/list")["unapproved"]
    digest = careful.host.ask("job/config", {"job_id": job_id, "role": "host", "party_id": HOST})["digest"]
    assert (asked["job_id"], asked["digest"]) == (job_id, digest)
    assert digest[:32] in careful.host.flow("queue", "list", "--table").out
    explained = careful.host.flow("job", "explain", "--table", "-j", job_id).out
    assert f"document: {digest[:32]} (flow job approve" in explained
    waits(careful, job_id, "host 10000 has not approved it yet; 1st in the queue")    # and not that it does not answer
    assert "host 10000 has not approved it yet" in careful.guest.flow("queue", "list", "--table").out
    late = careful.host.flow("job", "approve", "-j", job_id, "--digest", "0" * 32, code=1)
    assert f"now has another document ({digest[:32]})" in late.out
    approved = careful.host.flow("job", "approve", "-j", job_id, "--by", "ann", "--reason", "contract 7")
    assert (digest in approved.out, digest[:32] in approved.err) == (True, True)
    careful.wait(job_id, "success")
    ended = eventually(lambda: notified(receiver, "job_ended", job_id), "the notification")
    assert (ended["status"], ended["reason"], ended["partner"]) == ("success", "done", GUEST)
    assert notified(receiver, "approval_needed", job_id) == asked_for
    own = careful.host.ask("job/explain", {"job_id": job_id})["approval"]
    assert (own["by"], own["message"]) == ("owner (ann)", "contract 7")
    seats = careful.guest.ask("job/explain", {"job_id": job_id})["parties"]
    assert [seat["approval"] for seat in seats] == [None, "approved by owner (ann): contract 7"]
    assert "approved by owner (ann): contract 7" in careful.guest.flow("job", "explain", "--table", "-j", job_id).out
    moves = careful.guest.ask("job/history", {"job_id": job_id})["moves"]
    text = [(one["level"], one["seen_by"], one["caused_by"]) for one in moves if "contract 7" in one["message"]]
    assert sorted(text) == [("job", "10000", "host 10000"), ("seat", "9999", "host 10000")]


def test_a_rejected_job_ends_and_says_why(careful: Cluster) -> None:
    job_id = careful.submit(toy())
    waits(careful, job_id, "has not approved it yet")
    assert "needs no approval here" in careful.guest.flow("job", "approve", "-j", job_id, code=1).out
    careful.host.flow("job", "reject", "-j", job_id, "--reason", "no contract for this data", "--by", "ann")
    rows = careful.wait(job_id, "failed")
    assert rows[GUEST]["f_reason"] == "party_refused"
    assert rows[GUEST]["f_message"] == "host 10000: rejected by owner (ann): no contract for this data"


def test_a_party_on_hold_keeps_jobs_waiting_through_a_restart_until_it_is_released(careful: Cluster) -> None:
    careful.host.flow("queue", "hold", "--message", "maintenance", "--by", "ann")
    job_id = careful.submit(toy())
    careful.host.flow("job", "approve", "-j", job_id)
    found = waits(careful, job_id, "host 10000 is not ready: on hold by owner (ann): maintenance")
    assert found["waits_for"] == "answer"
    careful.kill(HOST)
    careful.start(HOST)
    for party in (careful.host, careful.guest):
        hold = "party 10000 is on hold by owner (ann): maintenance"
        # A party that has just started may not answer in time.
        eventually(lambda party=party, hold=hold: hold in party.flow("party", "list", "--table").out, hold)
    careful.host.flow("queue", "release", "--by", "ann")
    assert [one["hold"] for one in careful.guest.ask("party/list")["parties"]] == [None]
    careful.wait(job_id, "success")


def test_a_job_on_hold_waits_until_it_is_released(careful: Cluster) -> None:
    job_id = careful.submit(toy())
    careful.guest.flow("job", "hold", "-j", job_id, "--message", "until the data is there", "--by", "bob")
    careful.host.flow("job", "approve", "-j", job_id)
    careful.kill(GUEST)
    careful.start(GUEST)
    found = waits(careful, job_id, "on hold by owner (bob): until the data is there; 1st in the queue")
    assert (found["status"], found["waits_for"]) == ("waiting", "release")
    careful.guest.flow("job", "release", "-j", job_id, "--by", "bob")
    careful.wait(job_id, "success")
    late = careful.host.flow("job", "approve", "-j", job_id, code=1)
    assert "has ended as success (done): it needs no approval any more" in late.out
    refused = careful.guest.flow("job", "hold", "-j", job_id, "--message", "too late", code=1)
    assert "is success: only a job that waits can be held" in refused.out
