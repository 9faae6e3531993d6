"""Three parties whose requests to each other are signed, and those of their clients: jobs run as ever, and whoever has
not the key of a party is not taken for it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import requests

from fate_flow.cli.connection.signature import Signature
from fate_flow.core.wire.v1.envelope import headers
from fate_flow.peers.signature import SiteSignature
from tests.kit.servers.party_servers import (
    BASE_PORT,
    GUEST,
    HOST,
    OTHER,
    READER,
    Answer,
    Cluster,
    PartyServer,
    csv_text,
    job_of,
    running_cluster,
    summing,
    table_named,
    toy,
)
from tests.kit.servers.plain_v1_peer import PlainV1Peer
from tests.kit.servers.warm import WARM
from tests.kit.signing import SignedByParty
from tests.kit.site_keys import write_private_key
from tests.kit.traces.collector import Collector, Received, collector
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

TOKEN = "Bearer of-the-file"
PARTIES = {GUEST: 1, HOST: 2, OTHER: 3}
SIGNED: dict[str, Any] = {
    "authentication": {
        "client": {"switch": True, "http_app_key": "our-clients", "http_secret_key": "secret-of-all"},
        "site": {"switch": True},
    },
    "limits": {"long_backoff": 1},
}
SUMS = job_of(
    {"reader_0": READER, "sum_0": summing("reader_0.raw")}, {"guest": [GUEST], "host": [HOST, OTHER]},
    common={"reader_0": table_named("numbers"), "sum_0": {"column": "y"}},
)
NUMBERS = csv_text(["id", "x", "y"], {"a": [1, 2], "b": [3, 4]})
BIND = {"engine": "PATH", "namespace": "it", "name": "numbers", "head": True, "partitions": 1, "id_delimiter": ","}


@pytest.fixture(scope="module")
def traces() -> Iterator[Collector]:
    """What the guest and one host send their spans to."""
    with collector() as found:
        yield found


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory, traces: Collector) -> Iterator[Cluster]:
    root = tmp_path_factory.mktemp("servers") / "that sign"
    for party_id, number in PARTIES.items():
        write_private_key(key_file(root / party_id), number)
    traced = {**SIGNED, "traces": {"endpoint": traces.url}}
    token = root / "collector.headers"
    token.write_text(f"authorization: {TOKEN}\n", encoding="utf-8")
    token.chmod(0o600)
    with_token = {**SIGNED, "traces": {"endpoint": traces.url, "headers_file": str(token)}}
    overlays = {GUEST: traced, HOST: with_token, OTHER: SIGNED}
    with running_cluster(root, tuple(PARTIES), base_port=BASE_PORT + 150, overlays=overlays) as cluster:
        for party in cluster.parties.values():
            party._session.auth = Signature("our-clients", "secret-of-all")
            for other in PARTIES.keys() - {party.party_id}:
                assert saved(party, other, PARTIES[other])["data"] == "save success"
            bind_numbers(party)
        yield cluster


@pytest.fixture(scope="module")
def beside_a_plain_peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, PlainV1Peer]]:
    """A server that signs, and believes a host that does not."""
    peer, root = PlainV1Peer(HOST), tmp_path_factory.mktemp("servers") / "plain"
    authentication = {**SIGNED["authentication"], "site": {"switch": True, "unsigned_from": [int(HOST)]}}
    overlay = {"authentication": authentication, "routes": {HOST: {"url": peer.url}}}
    write_private_key(key_file(root / GUEST), PARTIES[GUEST])
    try:
        with running_cluster(root, (GUEST,), base_port=BASE_PORT + 160, overlays={GUEST: overlay}) as cluster:
            peer.server_url = cluster.guest.url
            cluster.guest._session.auth = Signature("our-clients", "secret-of-all")
            bind_numbers(cluster.guest)
            yield cluster, peer
    finally:
        peer.close()


@pytest.fixture
def signing(servers: Cluster) -> Iterator[Cluster]:
    yield servers
    servers.check_idle()


def key_file(home: Path) -> Path:
    return home / "keys" / "site.pem"


def saved(at: PartyServer, party_id: str, number: int, **more: str) -> Answer:
    """Key `number` is that of the party, for this one."""
    key = write_private_key(at.home / f"{number}.pem", number)
    return at.post("key/public/save", {"party_id": party_id, "key": key.public.pem, **more})


def bind_numbers(party: PartyServer) -> None:
    file = party.home / "examples" / "numbers.csv"
    file.parent.mkdir()
    file.write_text(NUMBERS, encoding="utf-8")
    answer = party.post("table/bind", {**BIND, "address": {"path": str(file)}})
    assert answer["retcode"] == 0, answer
    party.wait(answer["jobId"], "success")


def key_id(at: PartyServer, party_id: str) -> str:
    return str(at.post("key/query", {"party_id": party_id})["key_id"])


def seen(at: PartyServer, party_id: str) -> Mapping[str, Any]:
    """A line of `flow party list`."""
    [found] = [one for one in at.ask("party/list", {})["parties"] if one["party_id"] == party_id]
    assert isinstance(found, dict)
    return found


def test_a_job_over_three_parties_runs_as_ever_and_is_one_trace(signing: Cluster, traces: Collector) -> None:
    trace, of_client = "4b" * 16, "00f067aa0ba902b7"
    signing.wait(job_id := signing.submit(SUMS, traceparent=f"00-{trace}-{of_client}-01"), "success")
    assert signing.guest.metrics(job_id, "sum_0")["total"] == "18.00"
    assert signing.guest.post("job/validate", SUMS)["retcode"] == 0, "questions are signed, too"

    def one(name: str, party_id: str, **attributes: object) -> Received:
        wanted = {"job_id": job_id, **attributes}
        return eventually(lambda: traces.one(trace, name, party_id, **wanted), f"{name} of {party_id}")

    def of(party_id: str, name: str, parent: Received, **attributes: object) -> Received:
        found = one(name, party_id, **attributes)
        assert found.parent == parent.id.span
        return found

    at_guest = one("job ready", GUEST)
    submit = eventually(lambda: next((one for one in traces.spans if one.id.span == at_guest.parent), None))
    assert (submit.name, submit.kind, submit.parent) == ("POST /v1/job/submit", "SERVER", of_client)
    create = of(GUEST, "send create", at_guest, peer_id=HOST)
    at_host = of(HOST, "job ready", of(HOST, "receive create", create))
    for name in ("reservation round begun", "reservation round: reserved", "job running", "job success"):
        of(GUEST, name, at_guest)
    apply = of(HOST, "receive resource/apply", of(GUEST, "send resource/apply", at_guest, peer_id=HOST))
    assert apply.attributes["rpc.method"] == "resource/apply"
    asked = of(GUEST, "send task start", at_guest, peer_id=HOST, task_name="sum_0")
    ordered = of(HOST, "receive task start", asked, task_name="sum_0")
    for party_id, seat, cause in ((GUEST, at_guest, at_guest), (HOST, at_host, ordered)):
        started = of(party_id, "worker started", cause, task_name="sum_0")
        assert of(party_id, "worker ended", seat, task_name="sum_0").links == (started.id,)
        ids = "SELECT f_worker_id AS id FROM t_worker WHERE f_job_id = ? AND f_component_name = ?"
        assert [started.id.span] == [one["id"][:16] for one in signing.parties[party_id].rows(ids, job_id, "sum_0")]
    assert {one.resource["fate_flow.process"] for one in traces.of_trace(trace)} == {"http", "scheduler"}
    assert {one.party_id for one in traces.spans} == {GUEST, HOST}
    assert max(one.ended - one.begun for one in traces.spans) < 120 * 10**9, "no span lasts as long as a job may"
    assert not [one for one in traces.spans if "numbers" in repr(one)]


def test_who_has_no_key_is_not_believed(signing: Cluster) -> None:
    """Whatever he says he is: nothing of it is carried out."""
    with signing.held(HOST):
        job_id = signing.submit(toy())
        signing.wait(job_id, "running")
        for caller in (GUEST, HOST, "0"):
            said = signing.host.from_party(caller, f"party/{job_id}/host/{HOST}/stop/canceled")
            assert (said["retcode"], "data" in said) == (109, False)
        assert signing.host.job(job_id)["f_status"] == "running"
    signing.wait(job_id, "success")


def test_a_wrong_key_is_told_at_the_submit(signing: Cluster) -> None:
    right = key_id(signing.host, GUEST)
    assert saved(signing.host, GUEST, 9)["retcode"] == 100
    wrong = saved(signing.host, GUEST, 9, replaces=right)["key_id"]
    with signing.unchanged(besides={"t_outbox"}):       # that the job has failed is told once the key is right
        refused = signing.guest.submit(toy())
        assert refused["retcode"] == 103
        text = f"party 10000: not authenticated: keyid: the request was signed with key {right[:16]}..."
        assert text in refused["retmsg"], refused
    eventually(lambda: "not authenticated" in seen(signing.guest, HOST)["message"], "the refusal in the list")
    assert seen(signing.guest, HOST)["status"] == "does not answer"
    refusals = [line for line in signing.host.log("fate_flow", "fate_flow_stat.log") if "refused" in line]
    assert any(f"of party '{GUEST}'" in line and wrong[:16] in line for line in refusals)
    assert saved(signing.host, GUEST, PARTIES[GUEST], replaces=wrong)["data"] == "update success"
    signing.check_idle()              # what waited has been said
    signing.run(toy())
    eventually(lambda: seen(signing.guest, HOST)["status"] == "answers", "the party to answer again")


@pytest.mark.heavy
def test_a_missing_key_is_told_at_the_submit_whoever_lacks_it(signing: Cluster) -> None:
    """Also between two hosts, whose workers talk without the initiator."""
    for at, of in ((signing.guest, OTHER), (signing.parties[OTHER], HOST), (signing.parties[OTHER], GUEST)):
        at.ask("key/public/delete", {"party_id": of})
        with signing.unchanged(besides={"t_outbox"}):
            refused = signing.guest.submit(SUMS)
            assert refused["retcode"] == 103
            assert f"{at.party_id} has no public key of party {of}" in refused["retmsg"], refused
        saved(at, of, PARTIES[of])
        signing.check_idle()          # what waited has been said
    signing.run(SUMS)


def test_a_key_that_is_missing_for_a_while_costs_a_job_only_time(signing: Cluster) -> None:
    with signing.held(HOST):
        job_id = signing.submit(toy())
        signing.wait(job_id, "running")
        signing.host.ask("key/public/delete", {"party_id": GUEST})
        signing.guest.post("job/stop", {"job_id": job_id})
        eventually(lambda: seen(signing.guest, HOST)["status"] == "does not answer", "the refusal to be seen")
        assert signing.host.job(job_id)["f_status"] == "running"
        saved(signing.host, GUEST, PARTIES[GUEST])
    signing.wait(job_id, "canceled")


@pytest.mark.heavy
def test_a_party_may_change_its_key(signing: Cluster) -> None:
    path, old = key_file(signing.host.home), key_id(signing.host, HOST)
    path.unlink()
    new = write_private_key(path, 8)
    for at in (signing.guest, signing.parties[OTHER]):
        assert saved(at, HOST, 8, replaces=old)["key_id"] == new.public.key_id
    signing.kill(HOST)
    signing.start(HOST)
    signing.run(SUMS)


def test_a_server_that_is_told_to_end_sends_its_last_spans(signing: Cluster, traces: Collector) -> None:
    trace = "5d" * 16
    head = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    signing.host.post("server/info", {}, headers=head)
    running = signing.host.home / "run" / "server.json"
    os.kill(json.loads(running.read_text(encoding="utf-8"))["pid"], signal.SIGTERM)
    eventually(lambda: not running.exists(), "the end of the server")
    assert traces.names(trace, HOST) == {"POST /v1/server/info"}
    before, variable = len(traces.headers), {"OTEL_EXPORTER_OTLP_HEADERS": "x-variable=that-workers-would-inherit"}
    started = WARM.run("bin/cluster", "start", "--dir", str(signing.root), "--party", HOST, more=variable)
    assert started.code == 0, started.err
    signing.host.post("server/info", {})
    given = eventually(lambda: [one for one in traces.headers[before:] if one.get("authorization") == TOKEN])
    assert not [one for one in given if "x-variable" in one], "no process of the server has it"


def test_a_plain_v1_peer_takes_part_where_it_is_listed(beside_a_plain_peer: tuple[Cluster, PlainV1Peer]) -> None:
    cluster, peer = beside_a_plain_peer
    peer.reports = True
    reading = {"reader_0": table_named("numbers")}
    document = job_of({"reader_0": READER}, {"guest": [GUEST], "host": [HOST]}, common=reading)
    answer = cluster.guest.submit(document)
    assert answer["retcode"] == 0, answer
    cluster.guest.wait(answer["jobId"], "success")
    assert peer.post("party/heartbeat", {"jobs": []})["retcode"] == 0
    assert cluster.guest.from_party(OTHER, "party/heartbeat", {"jobs": []})["retcode"] == 109
    warned = [line for line in cluster.guest.log("fate_flow", "console.log") if line.startswith("WARNING")]
    assert warned == [
        f"WARNING: party {HOST} is accepted without a signature (authentication.site.unsigned_from): anybody who "
        "reaches the port can impersonate it"
    ]
    cluster.check_idle()


def test_a_name_in_both_spellings_is_no_name(signing: Cluster) -> None:
    """The application reads no name with underscores: a second one neither hides behind them nor takes their place."""
    body = b'{"jobs": []}'
    for names in ((GUEST, OTHER), (OTHER, GUEST)):
        head = headers(names[0], HOST)
        key = write_private_key(signing.root / "spelt.pem", PARTIES[names[0]])
        request = requests.Request("POST", f"{signing.host.url}/v1/party/heartbeat", data=body, headers=head)
        signature = SignedByParty(SiteSignature(key, lambda: time.time_ns() // 1_000_000))
        assert requests.Session().send(signature(request.prepare()), timeout=30).json()["retcode"] == 0
        again = signature(request.prepare())
        again.headers["SRC_PARTY_ID"] = names[1]
        assert requests.Session().send(again, timeout=30).json()["retcode"] == 0          # as the party that has signed
        hidden = signature(request.prepare())
        hidden.headers["SRC_PARTY_ID"] = hidden.headers.pop("SRC-PARTY-ID")
        assert requests.Session().send(hidden, timeout=30).json()["retcode"] == 109
        other = signature(request.prepare())
        other.headers["SRC-PARTY-ID"], other.headers["SRC_PARTY_ID"] = names[1], names[0]
        assert requests.Session().send(other, timeout=30).json()["retcode"] == 109
