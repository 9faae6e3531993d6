"""Two parties that know each other by their key lists: their servers talk over mutual TLS alone."""

from __future__ import annotations

import random
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from fate_flow.cli.server.cluster_plan import Ports
from fate_flow.core.access.certified import CertifiedParty
from fate_flow.core.access.fingerprint import fingerprint_of
from fate_flow.core.access.key_list import TLS, key_id_of, read_key_list
from fate_flow.peers.key_changes import own_tls
from fate_flow.peers.own_keys import OwnKeys
from fate_flow.peers.tls import PeerKey, client_context, load_tls_key, public_pem
from tests.kit.servers.home_files import contents_below
from tests.kit.servers.party_servers import (
    BASE_PORT,
    GUEST,
    HOST,
    READER,
    Cluster,
    csv_text,
    job_of,
    running_cluster,
    table_named,
    taking_from,
    toy,
)
from tests.kit.servers.wire_recorder import WireRecorder
from tests.kit.tls import Authority
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

TWO_YEARS_MS = 2 * 365 * 24 * 3600 * 1000
AGED = {"t_party_key": ("f_received_at", "f_state_at"), "t_party_contact": ("f_time",)}
"""What a server keeps of other parties: its moments, by table."""
NAME = "fate.host.example"
MARKER = "sums-that-nobody-else-reads"
PARTIES = (GUEST, HOST)


@dataclass
class Joined:
    """Two running servers, the keys of both, and what passes from one to the other. The keys, and the lists that
    certify them, were made by a clock of two years ago."""

    cluster: Cluster
    company: Authority                           # of the host: its servers show certificates of it
    keys: Mapping[str, OwnKeys]
    wires: Mapping[str, WireRecorder]            # by the party that is called

    def save(self, at: str, of: str) -> dict[str, Any]:
        keys = self.keys[of]
        body = {"party_id": of, "key": keys.signed_list().text(), "fingerprint": fingerprint_of(keys.root().key_id)}
        return dict(self.cluster.parties[at].post("key/public/save", body))

    def submitted(self, document: Mapping[str, Any]) -> str:
        """Return the id of the job; empty if a party does not answer, so that the submit is refused."""
        answer = self.cluster.guest.post("job/submit", document)
        return str(answer["jobId"]) if answer["retcode"] == 0 else ""


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Joined]:
    root, ports = tmp_path_factory.mktemp("servers") / "over TLS", Ports()
    free = filter(ports.is_free, range(BASE_PORT + 180, 65536))
    listening = {party_id: next(free) for party_id in PARTIES}
    wires = {party_id: WireRecorder() for party_id in PARTIES}
    keys = {party_id: own_keys(root, party_id) for party_id in PARTIES}
    overlays: dict[str, dict[str, Any]] = {}
    root.mkdir()
    company, file = Authority(root), root / "host.pem"
    for party_id, other in zip(PARTIES, reversed(PARTIES), strict=True):
        wires[party_id].target = listening[party_id]
        keys[party_id].make()
        overlays[party_id] = {
            "parties": {"listen": {"host": "127.0.0.1", "port": listening[party_id]}},
            "routes": {other: {"url": f"https://127.0.0.1:{wires[other].port}"}},
        }
    file.write_bytes(company.certificate(NAME, load_tls_key(keys[HOST].tls_file).public_key()))
    overlays[HOST]["parties"]["certificate"] = str(file)
    overlays[GUEST]["parties"]["certified"] = {HOST: {"ca": str(company.file), "name": NAME}}
    ports.close()
    try:
        with running_cluster(root, PARTIES, base_port=BASE_PORT + 190, overlays=overlays) as cluster:
            found = Joined(cluster, company, keys, wires)
            for at, of in (PARTIES, PARTIES[::-1]):
                assert found.save(at, of)["data"] == "save success"
            yield found
    finally:
        for wire in wires.values():
            wire.close()


def own_keys(root: Path, party_id: str) -> OwnKeys:
    folder = root / party_id / "keys"
    return OwnKeys(party_id, folder, folder / "message.pem", lambda: now_ms() - TWO_YEARS_MS)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_a_job_runs_and_nobody_between_the_servers_reads_anything(joined: Joined) -> None:
    before = {party_id: wire.count() for party_id, wire in joined.wires.items()}
    document = toy()
    document["job_runtime_conf"]["job_parameters"]["common"]["name"] = MARKER
    job_id = eventually(lambda: joined.submitted(document), "the parties to reach each other")
    joined.cluster.wait(job_id, "success")
    assert joined.cluster.guest.metrics(job_id, "toy_0")
    for party_id, wire in joined.wires.items():
        assert wire.count() > before[party_id] + 10_000
        assert wire.readable(job_id, MARKER, "toy_0") == []


@pytest.mark.heavy
def test_nobody_between_the_servers_reads_the_rows_of_an_intersection(joined: Joined) -> None:
    draw = random.Random(7)
    tables = {party_id: {f"person-{number:08x}": (f"word{draw.getrandbits(48):012x}",) for number in numbers}
              for party_id, numbers in ((GUEST, range(60)), (HOST, range(30, 90)))}  # fmt: skip
    names, roles = {GUEST: "customers-of-the-guest", HOST: "people"}, (("guest", GUEST), ("host", HOST))
    for party_id, table in tables.items():
        joined.cluster.parties[party_id].has_table(names[party_id], csv_text(["person", "word"], table))
    document = job_of(
        {"reader_0": READER, "intersection_0": {
            "module": "Intersection", "input": taking_from("reader_0.raw"), "output": {"data": ["common"]},
        }},
        {"guest": [GUEST], "host": [HOST]},
        by_role={role: {"0": {"reader_0": table_named(names[party_id])}} for role, party_id in roles},
    )  # fmt: skip
    before = {party_id: wire.count() for party_id, wire in joined.wires.items()}
    job_id = eventually(lambda: joined.submitted(document), "the parties to reach each other")
    joined.cluster.wait(job_id, "success")
    rows = [text for table in tables.values() for person, texts in table.items() for text in (person, *texts)]
    for party_id, wire in joined.wires.items():
        assert joined.cluster.parties[party_id].metrics(job_id, "intersection_0")["intersect_count"] == "30"
        assert wire.count() > before[party_id] + 10_000
        assert wire.readable(job_id, "intersection_0", *rows) == []

    # The host gets its own parameters alone; both are bound to one document, whose digest people can compare.
    home = joined.cluster.parties[HOST].home
    held = contents_below(home)
    assert [path for path, content in held.items() if names[GUEST].encode() in content] == []
    assert any(names[HOST].encode() in content for content in held.values())
    seats = {one: {"job_id": job_id, "role": role, "party_id": one} for role, one in roles}
    assert len({joined.cluster.parties[one].ask("job/config", seat)["digest"] for one, seat in seats.items()}) == 1


def test_a_party_that_is_deleted_is_cut_off_and_comes_back_with_a_compared_fingerprint(joined: Joined) -> None:
    host = joined.cluster.parties[HOST]
    eventually(lambda: joined.submitted(toy()), "the parties to reach each other")
    assert host.post("key/public/delete", {"party_id": GUEST})["retcode"] == 0
    eventually(lambda: not joined.submitted(toy()), "the guest to be refused")
    text = joined.keys[GUEST].signed_list().text()
    without = host.post("key/public/save", {"party_id": GUEST, "key": text})
    assert (without["retcode"], "was removed here" in without["retmsg"]) == (100, True)
    assert joined.save(HOST, GUEST)["retcode"] == 0
    job_id = eventually(lambda: joined.submitted(toy()), "the guest to be let in again")
    joined.cluster.wait(job_id, "success")


@pytest.mark.heavy
def test_parties_that_joined_two_years_ago_run_a_job(joined: Joined) -> None:
    """Everything that was made or kept when they joined is two years old; then their servers start, and run a job."""
    parties = joined.cluster.parties
    for party_id in PARTIES:
        joined.cluster.kill(party_id)
        for table, moments in AGED.items():
            for moment in moments:
                parties[party_id].write(f"UPDATE {table} SET {moment} = {moment} - {TWO_YEARS_MS}")
    for party_id in PARTIES:
        joined.cluster.start(party_id)
    began = now_ms()
    job_id = eventually(lambda: joined.submitted(toy()), "the parties to reach each other")
    joined.cluster.wait(job_id, "success")
    for party_id, other in zip(PARTIES, reversed(PARTIES), strict=True):
        listed = read_key_list(joined.keys[party_id].signed_list().content)
        made = {listed.issued_at, *(key.since for key in listed.keys)}
        [row] = parties[party_id].rows("SELECT * FROM t_party_key WHERE f_party_id = ?", other)
        kept = {row[moment] for moment in AGED["t_party_key"]}
        assert max(made | kept) < began - TWO_YEARS_MS
        assert row["f_state"] == "joined"


def test_a_party_shows_a_certificate_of_its_company_and_is_known_by_its_key(joined: Joined) -> None:
    """All jobs of this module run with it, in both directions; who has no entry for it refuses the connection."""
    assert issuer_at(joined, HOST, CertifiedParty(NAME, joined.company.file.read_text())) == "authority"
    with pytest.raises(ssl.SSLCertVerificationError):
        issuer_at(joined, HOST, None)
    assert issuer_at(joined, GUEST, None).startswith(f"fate_flow party {GUEST} key ")
    key_id = key_id_of(public_pem(load_tls_key(joined.keys[HOST].tls_file).public_key()))
    [found] = joined.cluster.guest.ask("party/list")["parties"]
    assert {one["key_id"] for one in found["keys"]["contacts"].values()} == {key_id}


def issuer_at(joined: Joined, party_id: str, certified: CertifiedParty | None) -> str:
    """Who has signed the certificate that a server shows to the other party."""
    other = GUEST if party_id == HOST else HOST
    key = PeerKey.of(party_id, public_pem(load_tls_key(joined.keys[party_id].tls_file).public_key()), certified)
    context = client_context(own_tls(other, joined.keys[other].tls_file.parent, now_ms), [key])
    with (
        socket.create_connection(("127.0.0.1", joined.wires[party_id].target), 30) as plain,
        context.wrap_socket(plain) as found,
    ):
        shown = found.getpeercert(binary_form=True)
    [name] = x509.load_der_x509_certificate(shown or b"").issuer.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(name.value)


@pytest.mark.heavy
def test_an_announced_tls_key_takes_over_without_a_restart(joined: Joined) -> None:
    """The certificate of the company is of the present key: with the next one, the server makes its own again."""
    keys, guest = joined.keys[HOST], joined.cluster.guest
    key_list = read_key_list(keys.announce(TLS, TWO_YEARS_MS + 1000).content)
    present, following = map(key_id_of, key_list.valid(TLS, 0))
    assert joined.save(GUEST, HOST)["data"] == "update success"

    def seen() -> set[str]:
        """The tls keys of the host on its last connections in both directions."""
        [found] = guest.ask("party/list")["parties"]
        return {one["key_id"] for one in found["keys"]["contacts"].values()}

    eventually(lambda: seen() == {following}, seen)
    assert present != following
    job_id = eventually(lambda: joined.submitted(toy()), "the parties to reach each other")
    joined.cluster.wait(job_id, "success")
