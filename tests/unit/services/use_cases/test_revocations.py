"""An operator revokes or removes another party: no key of it counts, and no job with it goes on."""

from __future__ import annotations

import pytest

from fate_flow.core.access.joined_party import TO, Contact, JoinedParty
from fate_flow.core.access.key_list import KeyState, PartyKeys
from fate_flow.core.model.errors import BadDocument, Conflict, NotFound, PermissionDenied
from fate_flow.core.model.job import CommandKind
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, TaskStatus
from fate_flow.core.wire.v1.initiator_bodies import RerunRequest
from fate_flow.services.use_cases.joining import described_parties
from fate_flow.services.use_cases.revocations import Revocations
from tests.kit.job_documents import job
from tests.kit.key_lists import FINGERPRINT, ROOT, signed_list
from tests.kit.services.hand_initiator import Initiator, accepted, running
from tests.kit.services.hand_server import HandServer
from tests.kit.services.party_commands import HOLD, JOIN, RUN, a_host, command, create
from tests.kit.site_keys import private_key
from tests.kit.values import GUEST, HOST, JOB_ID

WHY = "contract 7 has ended"


def with_keys(server: HandServer, party_id: str) -> HandServer:
    keys = PartyKeys(
        party_id, 1, ROOT.public.key_id, signed_list(party_id, 1, private_key(1)), 1, KeyState.JOINED, "ann", 1
    )
    with server.store.transaction() as tx:
        assert tx.add_party_keys(keys)
        tx.put_joined_party(JoinedParty(party_id, "https://10.0.0.1:9390", "zoo " * 5 + "zoo", 1, "ann", 250))
    return server


def state_of(server: HandServer, party_id: str) -> tuple[str, str]:
    with server.store.reading() as tx:
        keys = tx.party_keys(party_id)
    assert keys is not None
    return keys.state.value, keys.state_by


def test_the_jobs_of_a_revoked_initiator_end_here_with_the_reason() -> None:
    for commands in (JOIN, HOLD, RUN):
        host = with_keys(a_host(*commands), "9999")
        assert Revocations(host.context).revoke("9999", WHY, "bob") == (JOB_ID,)
        found = host.job()
        assert (found.status, found.reason) == (JobStatus.CANCELED, Reason.PARTY_REVOKED), commands
        assert found.message == f"party 9999 was revoked at party 10000: {WHY}"
        assert (found.holds, host.free_cores(), host.task().status) == (False, 8, TaskStatus.CANCELED)
        assert state_of(host, "9999") == ("revoked", "bob")
        assert Revocations(host.context).revoke("9999", WHY, "eve") == ()
        assert state_of(host, "9999") == ("revoked", "bob")


def test_the_initiator_of_a_job_with_a_revoked_party_is_asked_to_stop_it() -> None:
    of_three = job({"guest": ["9999"], "host": ["10000", "10001"]}, {"a": []}, cores=2)
    host = with_keys(a_host(create(document=of_three), *JOIN[1:]), "10001")
    assert Revocations(host.context).revoke("10001", WHY, "bob") == (JOB_ID,)
    [asked] = [one for one in host.outbox() if one.kind is CommandKind.ASK_STOP]
    assert (asked.to, asked.argument) == (GUEST, "canceled")
    assert asked.body == {"reason": "party_revoked", "message": f"party 10001 was revoked at party 10000: {WHY}"}
    assert host.job().status is JobStatus.WAITING


def test_an_initiator_that_speaks_plain_v1_is_asked_to_stop_without_a_reason() -> None:
    of_three = job({"guest": ["9999"], "host": ["10000", "10001"]}, {"a": []}, cores=2)
    plain = command(CommandKind.CREATE, dsl=of_three.dsl, runtime_conf=of_three.runtime_conf)
    host = with_keys(a_host(plain), "10001")
    assert Revocations(host.context).revoke("10001", WHY, "bob") == (JOB_ID,)
    [asked] = [one for one in host.outbox() if one.kind is CommandKind.ASK_STOP]
    assert (asked.argument, asked.body) == ("canceled", {})


def test_a_job_that_arrives_right_after_the_revocation_is_refused() -> None:
    """The listener may still let the party in for a second."""
    of_three = job({"guest": ["9999"], "host": ["10000", "10001"]}, {"a": []}, cores=2)
    for party_id in ("9999", "10001"):
        host = with_keys(a_host(), party_id)
        Revocations(host.context).revoke(party_id, WHY, "bob")
        assert host.handle(create(document=of_three)).retmsg == f"party {party_id} was revoked at party 10000"
        assert host.job_or_none() is None


def test_a_job_that_has_ended_does_not_run_again_with_a_revoked_party() -> None:
    of_three = job({"guest": ["9999"], "host": ["10000", "10001"]}, {"a": []}, cores=2)
    failed = command(CommandKind.STATUS, argument="failed", reason="task_failed")
    host = with_keys(a_host(create(document=of_three), *JOIN[1:], failed), "10001")
    Revocations(host.context).revoke("10001", WHY, "bob")
    answer = host.handle(command(CommandKind.STATUS, argument="waiting", run=1))
    assert (answer.retcode, answer.retmsg) == (108, "party 10001 was revoked at party 10000")
    assert (host.job().status, host.job().run) == (JobStatus.FAILED, 0)

    guest = with_keys(accepted(), HOST.party_id)
    Revocations(guest.context).revoke(HOST.party_id, WHY, "bob")
    guest.advance()
    assert guest.job(GUEST).status is JobStatus.CANCELED
    with guest.unit() as unit, pytest.raises(PermissionDenied, match="party 10000 was revoked at party 9999"):
        guest.side.rerun(unit, JOB_ID, RerunRequest())


def test_a_submit_with_a_party_that_was_revoked_or_removed_says_so() -> None:
    guest, document = with_keys(Initiator(), "555"), job({"guest": ["9999"], "host": ["555"]})
    for move, state in ((lambda: Revocations(guest.context).revoke("555", WHY, "bob"), "revoked"),
                        (lambda: Revocations(guest.context).remove("555", "bob"), "removed")):
        move()
        with pytest.raises(BadDocument, match=f"role: party 555 was {state} here"):
            guest.submit(document)


def test_a_job_of_this_party_with_a_revoked_one_is_stopped_and_says_why() -> None:
    for begin in (accepted, running):
        guest = with_keys(begin(), HOST.party_id)
        assert Revocations(guest.context).revoke(HOST.party_id, WHY, "bob") == (JOB_ID,)
        found = guest.job(GUEST)
        assert (found.status, found.reason) in (
            (JobStatus.STOPPING, Reason.PARTY_REVOKED), (JobStatus.CANCELED, Reason.PARTY_REVOKED)
        )
        assert found.message == f"party 10000 was revoked at party 9999: {WHY}"


def test_jobs_with_others_go_on() -> None:
    host = with_keys(a_host(*RUN), "10001")
    assert Revocations(host.context).revoke("10001", WHY, "bob") == ()
    assert host.job().status is JobStatus.RUNNING


def test_a_party_without_keys_here_is_named() -> None:
    host = a_host()
    for act in (lambda: Revocations(host.context).revoke("9999", WHY, "bob"),
                lambda: Revocations(host.context).remove("9999", "bob")):
        with pytest.raises(NotFound, match="no key list of party 9999 is saved here"):
            act()


def test_a_party_is_removed_once_no_job_with_it_runs() -> None:
    host = with_keys(a_host(*RUN), "9999")
    operator = Revocations(host.context)
    with pytest.raises(Conflict, match=f"1 job with party 9999 is not over, for example {JOB_ID}: revoke"):
        operator.remove("9999", "bob")
    operator.revoke("9999", WHY, "bob")
    operator.remove("9999", "eve")
    assert state_of(host, "9999") == ("removed", "eve")
    with pytest.raises(Conflict, match="party 9999 was removed here"):
        operator.remove("9999", "eve")
    with pytest.raises(Conflict, match="party 9999 was removed here"):
        operator.revoke("9999", WHY, "bob")


def test_a_revoked_party_is_removed_when_the_jobs_with_it_have_ended() -> None:
    guest = with_keys(running(), HOST.party_id)
    operator = Revocations(guest.context)
    operator.revoke(HOST.party_id, WHY, "bob")
    assert guest.job(GUEST).status is JobStatus.STOPPING
    with pytest.raises(Conflict, match=f"for example {JOB_ID}: try again when it is$"):
        operator.remove(HOST.party_id, "bob")


def test_what_operators_see_of_a_party() -> None:
    host = with_keys(a_host(), "9999")
    [(party_id, seen)] = described_parties(host.context).items()
    assert (party_id, seen["state"], seen["by"], seen["list_number"]) == ("9999", "joined", "ann", 1)
    assert (seen["fingerprint"], seen["phrase"], seen["clock_offset"]) == (FINGERPRINT, "zoo zoo zoo zoo zoo zoo", 250)
    with host.store.transaction() as tx:
        tx.note_contact(Contact("9999", TO, 7, "TLSv1.3", "ab" * 32))
        tx.note_contact(Contact("10001", TO, 7, "TLSv1.3", "ab" * 32))
    assert seen["contacts"] == {}
    seen = described_parties(host.context)["9999"]
    assert seen["contacts"] == {"to": {"at": 7, "tls": "TLSv1.3", "key_id": "ab" * 32}}
    assert (seen["address"], seen["tls_keys"], seen["until"]) == ("https://10.0.0.1:9390", [], None)
    Revocations(host.context).revoke("9999", WHY, "bob")
    seen = described_parties(host.context)["9999"]
    assert (seen["state"], seen["by"], seen["address"], seen["phrase"]) == ("revoked", "bob", "", "")
