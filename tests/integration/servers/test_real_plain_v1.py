"""A peer that speaks plain v1 gets a correct, if slower, job: as host of ours, and as the initiator of its own.

The peer is party 10000, a stub that knows only what party-api-v1 says; the server is ours.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.kit.servers.party_servers import (
    BASE_PORT,
    CORES,
    GUEST,
    HOST,
    READER,
    Cluster,
    PartyServer,
    csv_text,
    job_of,
    running_cluster,
    table_named,
)
from tests.kit.servers.plain_v1_peer import KNOWN, PlainV1Peer
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

LIMITS = {
    "poll_interval": 0.2, "heartbeat_interval": 0.3, "party_silence": 10, "initiator_silence": 12, "drain_timeout": 15,
    "stop_grace": 1, "plain_silence": 10, "plain_hold_seconds": 10, "retry_wait": 0.2,
    "idle_heartbeat_interval": 1,
}  # fmt: skip
"""Short, as some tests wait for them, and long enough for a busy machine to answer within each."""
PEOPLE = table_named("people")
NUMBERS = count(time.time_ns() // 1000)


@pytest.fixture(scope="module")
def one_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, PlainV1Peer]]:
    peer = PlainV1Peer(HOST)
    overlays = {GUEST: {
        "limits": LIMITS, "fateflow": {"http_workers": 2}, "routes": {HOST: {"url": peer.url}},
        "commands": {"enabled": True, "allow": ["/bin/sh"]},
    }}  # fmt: skip
    root = tmp_path_factory.mktemp("plain")
    try:
        with running_cluster(root, (GUEST,), base_port=BASE_PORT + 60, overlays=overlays) as cluster:
            peer.server_url = cluster.guest.url
            cluster.guest.has_table("people", csv_text(["id", "x"], {f"p{number}": [number] for number in range(9)}))
            yield cluster, peer
    finally:
        peer.close()


@pytest.fixture
def server(one_server: tuple[Cluster, PlainV1Peer]) -> Iterator[PartyServer]:
    yield one_server[0].guest
    one_server[0].check_idle()


@pytest.fixture
def peer(one_server: tuple[Cluster, PlainV1Peer]) -> Iterator[PlainV1Peer]:
    """As it is when nothing special is said; afterwards it holds nothing and has got nothing that v1 does not know."""
    found = one_server[1]
    before = set(found.jobs)
    found.be_as_ever()
    yield found
    eventually(lambda: not any(job.holds for job in found.jobs.values()), "what it holds")
    # Before a submit, now and then, each party is asked which of our extensions it knows. A heartbeat about a job of
    # the test before may have been on its way. A heartbeat between jobs comes after a start and after a silence.
    allowed = ("/party/intake: ", "/party/heartbeat: ", *(f"/party/{job_id}/" for job_id in before))
    assert [one for one in found.tracebacks if not one.startswith(allowed)] == []
    assert sum(one.startswith("/party/heartbeat: ") for one in found.tracebacks) <= 3


def reading(**parameters: Any) -> dict[str, Any]:
    """A task at both parties that needs no message between them."""
    return job_of(
        {"reader_0": READER}, {"guest": [GUEST], "host": [HOST]}, common={"reader_0": PEOPLE},
        parameters=parameters,
    )


def submitted(server: PartyServer, **parameters: Any) -> str:
    answer = server.submit(reading(**parameters))
    assert answer["retcode"] == 0, answer
    return str(answer["jobId"])


# ---------------------------------------------------------------------- as a host of ours


@pytest.mark.parametrize("reports", [True, False], ids=["reports", "is only collected"])
def test_a_job_with_a_plain_host_succeeds(server: PartyServer, peer: PlainV1Peer, reports: bool) -> None:
    peer.reports = reports
    job_id = submitted(server)
    server.wait(job_id, "success")
    eventually(lambda: peer.jobs[job_id].status == "success", "the end at the peer")
    order = ["create", "status/waiting", "dependence/check", "resource/apply", "start", "task status/running",
             "task start"]  # fmt: skip
    assert [one for one in peer.asked if one in order] == order
    eventually(lambda: {"task status/success", "status/success"} <= set(peer.asked), lambda: peer.asked)
    [seat] = server.rows("SELECT f_legacy FROM t_seat WHERE f_job_id = ? AND f_party_id = ?", job_id, HOST)
    assert seat["f_legacy"] == 1


def test_a_plain_host_that_refuses_the_job_refuses_the_submit(server: PartyServer, peer: PlainV1Peer) -> None:
    peer.refuses = {"create": 1}
    answer = server.submit(reading())
    assert answer["retcode"] == 103
    assert "host 10000: create refused" in answer["retmsg"]


def test_a_plain_host_without_capacity_is_asked_again(server: PartyServer, peer: PlainV1Peer) -> None:
    peer.refuses = {"resource/apply": 2}
    job_id = submitted(server)
    server.wait(job_id, "success")
    assert peer.asked.count("resource/apply") == 3


def test_a_task_that_fails_at_a_plain_host_is_tried_again_there(server: PartyServer, peer: PlainV1Peer) -> None:
    peer.ends_as = "failed"
    job_id = submitted(server, auto_retries=1)

    eventually(lambda: peer.jobs[job_id].tasks.get(("reader_0", 1)), "a second version")
    peer.ends_as = "success"
    server.wait(job_id, "success", "failed")


def test_a_stop_reaches_a_plain_host_and_its_end_is_collected(server: PartyServer, peer: PlainV1Peer) -> None:
    peer.ends_as = ""
    job_id = submitted(server)
    eventually(lambda: "task collect" in peer.asked, "a question about its task")
    assert server.post("job/stop", {"job_id": job_id})["retcode"] == 0
    row = server.wait(job_id, "canceled")
    assert (row["f_reason"], row["f_unconfirmed_parties"]) == ("stopped_by_user", None)
    eventually(lambda: {"stop/canceled", "status/canceled"} <= set(peer.asked), "its end at the peer")
    eventually(lambda: peer.jobs[job_id].tasks[("reader_0", 0)].party_status == "canceled", "the end of its task")


def test_a_rerun_reaches_a_plain_host_as_a_row_and_then_a_status(server: PartyServer, peer: PlainV1Peer) -> None:
    peer.ends_as = ""
    job_id = submitted(server)
    eventually(lambda: "task collect" in peer.asked, "a question about its task")
    server.post("job/stop", {"job_id": job_id})
    server.wait(job_id, "canceled")
    eventually(lambda: "status/canceled" in peer.asked, "its end at the peer")
    peer.asked.clear()
    peer.ends_as = "success"
    assert server.post("job/rerun", {"job_id": job_id, "force": False})["retcode"] == 0
    server.wait(job_id, "success")
    order = ["task create", "status/waiting", "dependence/check", "resource/apply", "start", "task status/running",
             "task start"]  # fmt: skip
    assert [one for one in peer.asked if one in order] == order
    eventually(lambda: peer.jobs[job_id].tasks[("reader_0", 1)].status == "success", "the end of its task at the peer")


def test_other_parameters_reach_a_plain_host_before_the_rerun(server: PartyServer, peer: PlainV1Peer) -> None:
    peer.ends_as = ""
    job_id = submitted(server)
    eventually(lambda: "task collect" in peer.asked, "a question about its task")
    server.post("job/stop", {"job_id": job_id})
    server.wait(job_id, "canceled")
    eventually(lambda: "status/canceled" in peer.asked, "its end at the peer")
    peer.asked.clear()
    peer.ends_as = "success"
    change = {"job_parameters": {"common": {"task_cores": 1}}}
    answer = server.post("job/parameter/update", {"job_id": job_id, **change})
    assert (answer["retcode"], answer["data"]["components"]) == (0, [])
    assert server.post("job/rerun", {"job_id": job_id})["retcode"] == 0
    server.wait(job_id, "success")
    order = ["parameter/update", "task create", "status/waiting", "dependence/check", "resource/apply", "start"]
    assert [one for one in peer.asked if one in order] in (order, [order[0], *order]), (
        "the message may be answered late"
    )
    described = peer.jobs[job_id].conf
    assert described["job_parameters"]["common"]["task_cores"] == 1
    assert described["component_parameters"]["common"]["reader_0"] == PEOPLE


@pytest.mark.heavy
def test_a_plain_host_that_falls_silent_is_given_up_and_told_when_it_is_back(
    server: PartyServer, peer: PlainV1Peer
) -> None:
    peer.ends_as = ""
    job_id = submitted(server)
    eventually(lambda: "task collect" in peer.asked, "a question about its task")
    peer.is_silent = True
    row = server.wait(job_id, "failed")
    assert (row["f_reason"], row["f_unconfirmed_parties"]) == ("party_unreachable", '["host 10000"]')

    def described() -> tuple[str, str]:
        [party] = server.ask("party/list")["parties"]
        return party["status"], party["circuit"]

    silent = [("does not answer", circuit) for circuit in ("open", "probing")]
    eventually(lambda: described() in silent, described)  # the scheduler writes down the circuit now and then
    peer.is_silent = False
    eventually(lambda: peer.jobs[job_id].status == "failed", "the end at the peer")


def test_a_plain_host_may_ask_whether_the_job_is_there_and_may_stop_it(
    server: PartyServer, peer: PlainV1Peer
) -> None:
    peer.ends_as = ""
    job_id = submitted(server)
    body = {"job_id": job_id, "role": "host", "party_id": HOST}
    assert peer.post(f"party/{job_id}/guest/{GUEST}/align", body)["retcode"] == 0
    assert peer.post(f"initiator/{job_id}/guest/{GUEST}/stop/failed", body)["retcode"] == 0
    server.wait(job_id, "failed")


# ---------------------------------------------------------------------- as the initiator of its own


class PlainV1JobOfTheirs:
    """What a v1 scheduler commands; our server is the host."""

    def __init__(
        self, peer: PlainV1Peer, component: str = "reader_0", module: dict[str, Any] = READER,
        parameters: dict[str, Any] = PEOPLE,
    ) -> None:  # fmt: skip
        self.peer, self.component = peer, component
        self.job_id = f"20260101{next(NUMBERS)}"
        self.task = f"party/{self.job_id}/{component}/{self.job_id}_{component}/0/host/{GUEST}"
        document = job_of({component: module}, {"guest": [HOST], "host": [GUEST]},
                          common={component: parameters})  # fmt: skip
        conf = document["job_runtime_conf"]
        self.body = {
            "job_id": self.job_id, "dsl": document["job_dsl"], "runtime_conf": conf, "train_runtime_conf": {},
            "runtime_conf_on_party": conf, "roles": conf["role"], "initiator_role": "guest",
            "initiator_party_id": HOST, "role": "host", "party_id": GUEST, "is_initiator": False, "progress": 0,
            "ready_signal": False, "cancel_signal": False, "src_role": "guest", "src_party_id": HOST, "name": "theirs",
        }  # fmt: skip

    @property
    def align(self) -> str:
        return f"party/{self.job_id}/host/{GUEST}/align"

    def say(self, verb: str, body: object = None) -> dict[str, Any]:
        return self.peer.post(f"party/{self.job_id}/host/{GUEST}/{verb}", body)

    def say_task(self, verb: str, body: object = None) -> dict[str, Any]:
        return self.peer.post(f"{self.task}/{verb}", body)

    def begun(self) -> PlainV1JobOfTheirs:
        for verb in ("create", "status/waiting", "dependence/check", "resource/apply", "resource/apply", "start"):
            answer = self.say(verb, self.body if verb == "create" else None)
            assert answer["retcode"] == 0, (verb, answer)
        assert self.say_task("status/running")["retcode"] == 0
        assert self.say_task("start", {"user_id": "somebody"})["retcode"] == 0
        return self

    def collected(self) -> str:
        answer = self.say_task("collect")
        assert answer["retcode"] == 0, answer
        assert answer["data"]["party_status"] in KNOWN, answer
        return str(answer["data"]["party_status"])


def test_a_job_of_a_plain_initiator_succeeds(server: PartyServer, peer: PlainV1Peer) -> None:
    job = PlainV1JobOfTheirs(peer)
    with peer.aligning(job.align):
        job.begun()
        eventually(lambda: job.collected() == "success", "the end of its task")
        peer.hears_of("success")
        assert server.free_cores == CORES - 2
        for verb in ("task status/success", "update", "model", "status/success", "stop/success", "clean"):
            say = job.say_task if verb.startswith("task ") else job.say
            assert say(verb.removeprefix("task "), {"progress": 100})["retcode"] == 0, verb
    assert server.job(job.job_id)["f_status"] == "success"


def test_a_plain_initiator_changes_the_parameters_of_its_job(server: PartyServer, peer: PlainV1Peer) -> None:
    job = PlainV1JobOfTheirs(peer)
    for verb in ("create", "status/waiting"):
        assert job.say(verb, job.body if verb == "create" else None)["retcode"] == 0
    conf = job.body["runtime_conf"]
    common = {**conf["job_parameters"]["common"], "task_cores": 3}
    change = {"job_parameters": {"common": common}, "component_parameters": conf["component_parameters"],
              "components": []}  # fmt: skip
    assert job.say("parameter/update", change)["retcode"] == 0
    row = server.job(job.job_id)
    assert (row["f_revision"], row["f_asked_cores"]) == (1, 3)
    common["task_cores"] = CORES + 1
    assert job.say("parameter/update", change)["retcode"] == 103
    assert job.say("status/canceled")["retcode"] == 0
    assert server.job(job.job_id)["f_revision"] == 1


def test_a_job_that_is_too_big_is_refused_to_a_plain_initiator(server: PartyServer, peer: PlainV1Peer) -> None:
    job = PlainV1JobOfTheirs(peer)
    job.body["runtime_conf"]["job_parameters"]["common"]["task_cores"] = CORES + 1
    assert job.say("create", job.body)["retcode"] == 103


def test_a_plain_initiator_stops_its_job_and_hears_of_nothing_that_it_does_not_know(
    server: PartyServer, peer: PlainV1Peer
) -> None:
    job = PlainV1JobOfTheirs(peer, "wait", {"module": "Command"}, {"command": "sleep 600"})
    with peer.aligning(job.align):
        job.begun()
        worker = server.worker_of(job.job_id, "wait").worker
        assert job.say("stop/canceled")["retcode"] == 0
        eventually(lambda: job.collected() == "canceled", "the end of its task")
        assert job.say("status/canceled")["retcode"] == 0
    eventually(lambda: server.job(job.job_id)["f_status"] == "canceled", "the end of the job")
    assert not worker.is_alive()
    peer.hears_of("canceled")


def test_a_task_that_succeeded_before_a_plain_initiator_stopped_its_job_stays_so(
    server: PartyServer, peer: PlainV1Peer
) -> None:
    job = PlainV1JobOfTheirs(peer)
    with peer.aligning(job.align):
        job.begun()
        eventually(lambda: job.collected() == "success", "the end of its task")
        assert job.say("stop/canceled")["retcode"] == 0
        assert job.say("status/canceled")["retcode"] == 0
    eventually(lambda: server.job(job.job_id)["f_status"] == "canceled", "the end of the job")
    assert job.collected() == "success"
    peer.hears_of("success")


@pytest.mark.heavy
def test_align_keeps_the_job_of_a_plain_initiator_alive_and_its_silence_ends_it(
    server: PartyServer, peer: PlainV1Peer
) -> None:
    job = PlainV1JobOfTheirs(peer)
    with peer.aligning(job.align):
        job.begun()
        eventually(lambda: job.collected() == "success", "the end of its task")
        began = time.monotonic()
        # Longer than its silence may last.
        eventually(lambda: time.monotonic() - began > 2 * LIMITS["plain_silence"], "twice the silence it may keep")
        assert server.job(job.job_id)["f_status"] == "running"
    row = server.wait(job.job_id, "failed")
    said = f"party 10000 was silent for {LIMITS['plain_silence']} s"
    assert (row["f_reason"], row["f_message"]) == ("initiator_lost", said)
    eventually(lambda: server.free_cores == CORES, "its cores")
    eventually(lambda: peer.given_up == [job.job_id], "the word of it")


def test_what_a_plain_initiator_holds_and_never_starts_falls_back(server: PartyServer, peer: PlainV1Peer) -> None:
    job = PlainV1JobOfTheirs(peer)
    for verb in ("create", "status/waiting", "resource/apply"):
        assert job.say(verb, job.body if verb == "create" else None)["retcode"] == 0
    assert server.free_cores == CORES - 2
    eventually(lambda: server.free_cores == CORES, "its cores")
    assert job.say("start")["retcode"] == 103
    assert job.say("status/canceled")["retcode"] == 0
