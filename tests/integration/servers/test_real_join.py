"""Real servers that have never heard of each other, two commands that join them, and the one that revokes a party."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fate_flow.core.access.fingerprint import fingerprint_of
from fate_flow.core.access.invitation import read_invitation
from fate_flow.core.record.entry import OWN_LOG
from fate_flow.core.record.note import NoteKey
from fate_flow.peers.key_changes import RecordKey
from fate_flow.server.periodic.record_sealer import log_signer
from fate_flow.services.record.checkpoints import origin_of
from fate_flow.settings.reader import load_settings
from tests.kit.peers.small_witness import SmallWitness
from tests.kit.record.syslog_receiver import SyslogServer, syslog_server
from tests.kit.servers.home_files import contents_below
from tests.kit.servers.party_servers import GUEST, HOST, OTHER, Cluster, PartyServer, toy
from tests.kit.servers.strangers import PARTIES, SECONDS, Strangers, strangers_at
from tests.kit.servers.warm import WARM
from tests.kit.traces.collector import Collector, collector
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def siem() -> Iterator[SyslogServer]:
    with syslog_server() as found:
        yield found


@pytest.fixture(scope="module")
def logs() -> Iterator[Collector]:
    with collector() as found:
        yield found


@pytest.fixture(scope="module")
def strangers(
    tmp_path_factory: pytest.TempPathFactory, siem: SyslogServer, logs: Collector
) -> Iterator[Strangers]:
    folder, parties = tmp_path_factory.mktemp("strangers"), (*PARTIES, OTHER)
    exports = {
        "siem": {"syslog": f"127.0.0.1:{siem.port}", "tls": False}, "collector": {"opentelemetry": logs.url},
    }  # fmt: skip
    with WITNESS.served() as url:
        witnesses = {"public": {"url": url, "key": WITNESS.vkey}}
        more = {"record": {"switch": True, "witnesses": witnesses, "exports": exports}}
        with strangers_at(folder, 26000, party_ids=parties, more=more) as found:
            yield found


WITNESS = SmallWitness()


def own_log_key(strangers: Strangers, party_id: str) -> NoteKey:
    """The key of the own log, as the operator gives it to the witness."""
    settings = load_settings(strangers.confs[party_id])
    signer = log_signer(RecordKey(settings.keys_dir), 1)
    assert signer is not None
    return signer.key_of(origin_of(signer.root, OWN_LOG, 1))


def lines_of(output: str) -> dict[str, str]:
    """What a command shows, by the first words of each line."""
    return {line[:13].strip(): line[13:].strip() for line in output.splitlines()}


def joined(strangers: Strangers, invited: str = HOST) -> tuple[str, str, str]:
    """Let the guest invite another party, and that one join: the invitation, and what both commands have shown."""
    inviting = strangers.invite(invited)
    assert inviting.stdout is not None
    text = inviting.stdout.readline()
    done = strangers.join(text, invited)
    assert done.code == 0, done.out + done.err
    shown, said = inviting.communicate(timeout=SECONDS)
    assert inviting.returncode == 0, shown + said
    return text, shown, done.out


def test_two_commands_join_two_servers_that_run(strangers: Strangers, siem: SyslogServer, logs: Collector) -> None:
    for party_id in (*PARTIES, OTHER):
        WITNESS.knows(own_log_key(strangers, party_id).text())
    text, shown, shown_there = joined(strangers)
    assert read_invitation(text).address == strangers.addresses[GUEST]
    here, there = lines_of(shown), lines_of(shown_there)
    assert len(here["six words"].split()) == 6
    assert here["six words"] == there["six words"]
    assert here["other party"] == f"{HOST} at {strangers.addresses[HOST]}"
    for output, own, other in ((shown, GUEST, HOST), (shown_there, HOST, GUEST)):
        assert f"{own} -> {other}: reaches it (TLSv1.3, key " in output
        assert f"{other} -> {own}: reaches this party" in output

    # Nobody in between has read the secret, the keys or who joins.
    secret = read_invitation(text).secret
    for party_id in PARTIES:
        listed = strangers.keys[party_id].signed_list()
        texts = (text.strip(), secret, secret.hex(), here["six words"], listed.root_key, listed.signature, "key_list")
        assert strangers.wires[party_id].count() > 1000
        assert strangers.wires[party_id].readable(*texts) == []

    # Neither has a route in its configuration, and neither was started again.
    guest = strangers.servers[GUEST]
    answer = eventually(lambda: submitted(guest), "the parties to reach each other")
    eventually(lambda: guest.job(str(answer["jobId"]))["f_status"] == "success", "the end of the job")
    check_records(strangers, str(answer["jobId"]))
    check_exports(strangers, siem, logs)

    again = strangers.join(text)
    assert again.code == 1
    assert again.err.splitlines()[-1].startswith("Error: ")
    assert "Traceback" not in again.err
    for party_id in PARTIES:
        for path, content in contents_below(strangers.servers[party_id].home).items():
            assert text.strip().encode() not in content, path
            assert secret not in content, path
            assert secret.hex().encode() not in content, path


def check_records(strangers: Strangers, job_id: str) -> None:
    """Both servers have recorded the job, each has cosigned the log of the other one, and a third person can see it."""
    folder = strangers.confs[GUEST].parent
    policy = folder / "policy"
    for own, other in ((GUEST, HOST), (HOST, GUEST)):
        def is_anchored(own: str = own, other: str = other) -> bool:
            logs = {one["log"]: one for one in json.loads(strangers.audit(own, "verify", "--json").out)["logs"]}
            found = logs.get(f"with/{other}", {})
            return found.get("anchored_by") == other and found["anchored_to"] == found["size"] > 10

        eventually(is_anchored, lambda own=own: strangers.audit(own, "verify").out)
        shown = strangers.audit(own, "show", "-j", job_id).out
        assert f"with/{other}" in shown
        assert strangers.audit(own, "evidence").code == 0
        assert f"was started: {own}.yaml " in strangers.audit(own, "search", "--kind", "server").out
        asked = strangers.audit(own, "verify", "--ask", "--json")
        assert "has not said" not in asked.err
        anchors = {one["log"]: one for one in json.loads(asked.out)["logs"]}
        assert anchors[f"with/{other}"]["anchored_by"] == other, asked.out
    eventually(lambda: WITNESS.kept.get(own_log_key(strangers, GUEST).name, (0,))[0] > 10, lambda: str(WITNESS.kept))
    sent, received = exchanged(strangers, GUEST, HOST), exchanged(strangers, HOST, GUEST)
    assert sent["sent"] == received["received"] != ""
    assert sent["received"] == received["sent"]

    log, job = folder / "with-guest.proof", folder / "job.proof"
    assert strangers.audit(HOST, "prove", "-p", GUEST, "-o", str(log)).code == 0
    compared = strangers.audit(GUEST, "reconcile", str(log), "-p", HOST, "--json")
    assert compared.code == 0, compared.out + compared.err
    counts = json.loads(compared.out)["counts"]
    assert counts["agreed"] > 5
    assert not any(counts[accusation] for accusation in ("missing", "altered", "equivocation"))

    lines = "".join(strangers.audit(party_id, "keys").out for party_id in PARTIES)

    def verified(quorum: str) -> int:
        assert strangers.audit(GUEST, "prove", "-j", job_id, "-o", str(job)).code == 0
        policy.write_text(f"{lines}{quorum}\n")
        return WARM.run("fate_flow", "verify", str(job), "--policy", str(policy), seconds=SECONDS).code

    eventually(lambda: verified(f"quorum {HOST}") == 0, "the cosignature of the host for all entries of the job")
    assert verified(f"group both all {HOST} {GUEST}\nquorum both") == 3, "no party is a witness of itself"
    assert verified("") == 3, "the policy asks for no witness"


def check_exports(strangers: Strangers, siem: SyslogServer, logs: Collector) -> None:
    """Programs that collect logs have got what each server has recorded: the same entries, at their places."""
    for own in PARTIES:
        printed = map(json.loads, strangers.audit(own, "search", "--as", "lines").out.splitlines())
        recorded = {(one["log"], one["index"]): one["entry"] for one in printed if one["epoch"]}

        def by_syslog(own: str = own) -> dict[tuple[str, int], str]:
            said = (one.said for one in siem.messages if one.said["own_party"] == own)
            return {(one["log"], one["index"]): one["entry"] for one in said}

        def by_collector(own: str = own) -> dict[tuple[str, int], str]:
            sent = (one for one in logs.logs if one.resource["fate_flow.own_party.id"] == own)
            places = ((one.attributes["fate_flow.record.log"], one.attributes["fate_flow.record.index"], one.body)
                      for one in sent)
            return {(log, index): body for log, index, body in places}

        for arrived in (by_syslog, by_collector):
            eventually(lambda got=arrived, all_=recorded: got().items() >= all_.items(), lambda: siem.entries[-5:])
        assert len(recorded) > 20


def exchanged(strangers: Strangers, own: str, other: str) -> dict[str, str]:
    """The channels between two parties, by direction, as one of them has recorded them, with their digests."""
    lines = strangers.audit(own, "search", "--kind", "exchange", "--as", "lines").out.splitlines()
    found = [(json.loads(one["entry"]), one["text"]) for one in map(json.loads, lines)]
    return {
        direction: "\n".join(text for said, text in found if said["direction"] == direction and other in said["other"])
        for direction in ("sent", "received")
    }  # fmt: skip


def submitted(guest: PartyServer, **roles: list[int]) -> dict[str, object] | None:
    document = toy()
    document["job_runtime_conf"]["role"] |= roles
    answer = guest.post("job/submit", document)
    return answer if answer["retcode"] == 0 else None


def test_a_party_that_is_revoked_is_cut_off_and_comes_back_by_another_invitation(strangers: Strangers) -> None:
    guest, host = strangers.servers[GUEST], strangers.servers[HOST]

    def statuses() -> list[str]:
        return [one["status"] for one in guest.ask("party/list")["parties"]]

    eventually(lambda: statuses() == ["answers"], statuses)      # a busy party may not answer in time
    [seen] = guest.ask("party/list")["parties"]
    assert (seen["party_id"], seen["url"]) == (HOST, strangers.addresses[HOST])
    contacts = seen["keys"]["contacts"]
    assert {direction: one["tls"] for direction, one in contacts.items()} == {"from": "TLSv1.3", "to": "TLSv1.3"}
    assert {one["key_id"] for one in contacts.values()} == set(seen["keys"]["tls_keys"])
    assert (seen["keys"]["state"], len(seen["keys"]["phrase"].split())) == ("joined", 6)

    assert strangers.run(HOST, "revoke", GUEST, "--reason", "contract 7 has ended").out == "party 9999 is revoked\n"
    eventually(lambda: submitted(guest) is None, "the guest to be refused")
    eventually(lambda: host.ask("party/list")["parties"] == [], "the route to be gone")
    assert strangers.run(HOST, "list").out.startswith(f"party {GUEST}: revoked since ")
    # A job that arrived just before the revocation may still come to its end.
    eventually(lambda: strangers.run(HOST, "remove", GUEST).code == 0, "the party to be removed")

    joined(strangers)
    eventually(lambda: submitted(guest), "the parties to reach each other again")


def test_a_text_that_was_changed_is_refused_before_anything_is_sent(strangers: Strangers) -> None:
    done = strangers.join("fate-flow-invite:AbCdEf")
    assert (done.code, done.out) == (1, "")
    assert "a part of the text is missing or was changed" in done.err


def test_a_running_job_ends_with_the_reason_where_a_party_of_it_is_revoked_and_at_its_initiator(
    strangers: Strangers, tmp_path: Path
) -> None:
    """The host revokes the arbiter, and the initiator of their job, which knows nothing of that, is asked to end it."""
    guest, host = strangers.servers[GUEST], strangers.servers[HOST]
    joined(strangers, OTHER)
    keys = strangers.keys[OTHER]
    fingerprint = fingerprint_of(keys.root().key_id)
    host.ask("key/public/save", {"party_id": OTHER, "key": keys.signed_list().text(), "fingerprint": fingerprint})
    with Cluster(tmp_path, strangers.servers).held(HOST):
        answer = eventually(lambda: submitted(guest, arbiter=[int(OTHER)]), "all parties to accept the job")
        job_id = str(answer["jobId"])
        for party in (guest, host):
            party.wait(job_id, "running")
        done = strangers.run(HOST, "revoke", OTHER, "--reason", "contract 8 has ended")
        assert done.out == f"party {OTHER} is revoked\njob {job_id}: its end was requested\n"
        # The host's workers come up only then: the job could succeed before its initiator is asked.
        eventually(lambda: guest.job(job_id)["f_status"] != "running", "the initiator to end the job")
    text = f"asked by party {HOST}: party {OTHER} was revoked at party {HOST}: contract 8 has ended"
    for party in (guest, host):
        row = party.wait(job_id, "canceled")
        assert (row["f_reason"], row["f_caused_by"], row["f_message"]) == ("party_revoked", f"host {HOST}", text)
