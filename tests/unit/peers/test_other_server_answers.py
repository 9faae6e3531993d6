"""Commands on their way to a party when another server answers in its place."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fate_flow.core.model.errors import UNREACHABLE
from fate_flow.core.model.job import Command, CommandKind
from fate_flow.peers.peer_senders import PeerSender
from tests.kit.peers.peer_server import WAIT, K, Peer, Recorder, Reply, commands, make_sender, ok
from tests.kit.values import HOST, JOB_ID

NOT_HERE = 101, "party_id: this server is party 7777, not 10000"
REFUSAL: Reply = (200, json.dumps(dict(zip(("retcode", "retmsg"), NOT_HERE, strict=True))).encode())


def unreachable(recorder: Recorder) -> str:
    [(_, said)] = recorder.take()
    assert said.retcode == UNREACHABLE
    return said.retmsg.removeprefix("Federated schedule error, party 10000: ")


@pytest.mark.parametrize("reply", [REFUSAL, ok(), (404, b"<html>"), (500, b"")])
@pytest.mark.parametrize("kind", [K.CREATE, K.CHECK, K.APPLY])
def test_what_another_party_says_is_no_answer(
    kind: CommandKind, reply: Reply, peer: Peer, recorder: Recorder, sender: PeerSender
) -> None:
    peer.says_who = "7777"
    peer.replies.put(reply)
    sender.post(commands(1, kind))
    assert unreachable(recorder) == f"another server, that of party 7777, answers at {sender.url}"
    assert not sender.state().is_answering


@pytest.mark.parametrize("reply", [REFUSAL, ok({"ended": {JOB_ID: "it is not known here"}}), (404, b""), (405, b"")])
@pytest.mark.parametrize("says_who", ["7777", ""])
def test_a_heartbeat_that_another_server_answers_is_not_heard(
    says_who: str, reply: Reply, peer: Peer, recorder: Recorder
) -> None:
    """Neither is the job that it does not know over at the party, nor does the party live."""
    sender = make_sender(peer.port, recorder, silence=0.05)
    peer.says_who = "10000"
    sender.beat(())
    recorder.ended.get(timeout=WAIT)
    peer.says_who, peer.usual = says_who, lambda *_: reply
    sender.beat(((JOB_ID, 0),))
    sender.post(commands(1))          # must arrive, so it goes on asking
    assert recorder.silence.get(timeout=WAIT)[0] == "10000"
    assert recorder.ended.empty()
    assert not sender.state().is_answering
    peer.usual = peer._obliging
    peer.says_who = "10000"
    assert recorder.retcodes(1) == [0]
    assert sender.state().is_answering
    sender.close()


def test_who_has_said_who_it_is_does_not_leave_it_out(peer: Peer, recorder: Recorder, sender: PeerSender) -> None:
    peer.says_who = "10000"
    sender.post(commands(1, K.CHECK))
    assert recorder.retcodes(1) == [0]
    peer.says_who = ""
    peer.replies.put(REFUSAL)
    sender.post(commands(1, K.CHECK))
    where = f"another server, which does not say whose it is, answers at {sender.url}"
    assert unreachable(recorder) == f"{where}: {NOT_HERE[1]}"


def test_what_is_known_of_a_party_outlives_the_process(peer: Peer, recorder: Recorder) -> None:
    sender = make_sender(peer.port, recorder)
    sender.says_who = True            # as it is made for a party that takes part in a job
    peer.replies.put(REFUSAL)
    sender.post(commands(1, K.CHECK))
    assert unreachable(recorder).endswith(NOT_HERE[1])
    sender.close()


@pytest.mark.parametrize(("reply", "is_taken"), [(ok(), True), (REFUSAL, False)])
def test_a_party_that_accepts_a_job_as_a_plain_v1_one_is_one(
    reply: Reply, is_taken: bool, peer: Peer, recorder: Recorder
) -> None:
    sender = make_sender(peer.port, recorder)
    sender.says_who = True
    peer.replies.put(reply)
    sender.post(commands(1, K.CREATE))
    assert recorder.retcodes(1) == [0 if is_taken else UNREACHABLE]
    assert sender.says_who is not is_taken
    sender.close()


AHEAD = {"is_ahead": True}
NO_ROUTE: Reply = 200, b'{"retcode": 100, "retmsg": "404 Not Found"}'       # as FATE says it


@pytest.mark.parametrize("reply", [NO_ROUTE, (404, b"<html>"), (405, b"")])
def test_a_party_that_has_become_a_plain_v1_one_is_found_out_by_a_batch(
    reply: Reply, peer: Peer, recorder: Recorder, sender: PeerSender
) -> None:
    """Nothing of the batch is lost: the job is accepted, and what goes ahead with `create` alone is dropped."""
    peer.says_who = "10000"
    sender.beat(())
    recorder.ended.get(timeout=WAIT)
    peer.says_who = ""
    peer.replies.put(reply)
    create, *ahead = commands(3)
    sender.post([replace(create, kind=K.CREATE), *(replace(one, kind=K.APPLY, body=AHEAD) for one in ahead)])
    assert recorder.retcodes(3) == [0, UNREACHABLE, UNREACHABLE]
    assert peer.paths == ["/party/heartbeat", "/party/batch", "/party/0"]
    assert sender.state().is_answering
    assert not sender.says_who


CONF = {"dsl_version": 2, "job_parameters": {"common": {"task_cores": 1}, "role": {}}, "component_parameters": {}}
ON_PARTY = {"dsl_version": 2, "job_parameters": {"task_cores": 1}, "component_parameters": {}}


@pytest.mark.parametrize(("is_known", "is_doubted"), [(False, False), (True, False), (True, True)])
def test_who_is_not_known_to_be_ours_gets_with_a_job_what_fate_needs(
    is_known: bool, is_doubted: bool, peer: Peer, recorder: Recorder
) -> None:
    sender = make_sender(peer.port, recorder, probe_pause=0.0)
    peer.says_who, sender.says_who = "10000" if is_known else "", is_known
    create = Command(K.CREATE, JOB_ID, HOST, argument="0", body={"runtime_conf": CONF})
    if is_doubted:
        peer.replies.put((500, b"what?"))
        sender.post([create])
        recorder.take()
    sender.post([create])
    recorder.take()
    body = peer.asked[-1][1]
    assert body["runtime_conf"] == CONF
    assert body.get("runtime_conf_on_party") == (None if is_known and not is_doubted else ON_PARTY)
    sender.close()
