"""Commands on their way to other parties, against a peer of flesh and blood on a free port."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from math import inf
from pathlib import Path
from typing import Any

import pytest

from fate_flow.core.metrics.spans import SpanKind, span_of_job
from fate_flow.core.model.errors import UNREACHABLE
from fate_flow.core.model.job import Answer
from fate_flow.core.text.trace import trace_id_in, traceparent
from fate_flow.core.wire.v1.envelope import Asked, read_batch
from fate_flow.peers.peer_senders import HeartbeatHead, PeerSender, PeerSenders
from fate_flow.peers.signature import INPUT, SIGNATURE, Covered, SiteSignature, digest_of, read_signature_input
from tests.kit.peers.peer_server import BATCH, WAIT, K, Peer, Recorder, Reply, answer, commands, make_sender, ok
from tests.kit.site_keys import write_private_key
from tests.kit.traces.kept import KeptSpans
from tests.kit.values import HOST, JOB_ID, OTHER
from tests.kit.waiting import eventually


def test_commands_arrive_in_their_order_over_one_connection(peer: Peer, recorder: Recorder, sender: PeerSender) -> None:
    sent = commands(30)
    sender.post(sent[:10])
    sender.post(sent[10:])
    assert [command for command, _ in recorder.take(30)] == sent
    assert peer.paths == [f"/party/{number}" for number in range(30)]
    assert [body for _, body, _ in peer.asked] == [{"n": number, "run": 0} for number in range(30)]
    assert len(peer.connections) == 1
    _, _, head = peer.asked[0]
    assert (head["SRC-PARTY-ID"], head["DEST-PARTY-ID"]) == ("9999", "10000")


def test_an_answer_is_the_envelope_of_the_peer(peer: Peer, recorder: Recorder, sender: PeerSender) -> None:
    peer.usual = lambda *_: (200, b'{"retcode": 103, "retmsg": "no room", "data": {"free_cores": 1}}')
    sender.post(commands(1, K.APPLY))
    assert recorder.take() == [(commands(1, K.APPLY)[0], Answer(103, "no room", {"free_cores": 1}))]
    assert recorder.log == [f"{JOB_ID} asked /party/0", f"{JOB_ID} answered /v1/party/0 103"]


def test_a_peer_that_announces_it_gets_several_commands_in_one_request(
    peer: Peer, recorder: Recorder, sender: PeerSender
) -> None:
    peer.replies.put(ok(BATCH))
    sender.post(commands(1, K.CREATE))
    recorder.take()
    sent = commands(100)
    sender.post(sent)
    assert [command for command, _ in recorder.take(100)] == sent
    batches = [body["commands"] for path, body, _ in peer.asked if path == "/v1/party/batch"]
    assert [len(one) for one in batches] == [64, 36]
    assert batches[0][3] == {"endpoint": "/party/3", "body": {"n": 3, "run": 0}}


def test_the_trace_of_a_job_stands_in_a_header_and_in_a_batch_beside_the_command(
    peer: Peer, recorder: Recorder, sender: PeerSender
) -> None:
    trace = "4b" * 16
    peer.replies.put(ok(BATCH))
    sender.post([replace(commands(1, K.CREATE)[0], trace=trace)])
    recorder.take()
    sender.post([replace(one, trace=trace if one.body["n"] else "") for one in commands(2)])
    recorder.take(2)

    _, body, head = peer.asked[0]
    assert (trace_id_in(head["traceparent"]), body) == (trace, {"n": 0, "run": 0})
    first, second = next(body["commands"] for path, body, _ in peer.asked if path == "/v1/party/batch")
    assert "traceparent" not in first
    assert (trace_id_in(second["traceparent"]), second["body"]) == (trace, {"n": 1, "run": 0})
    (read,) = read_batch({"commands": [{**second, "endpoint": f"/party/{JOB_ID}/host/10000/start"}]})
    assert isinstance(read, Asked)
    assert read.command.trace == trace


def test_each_try_to_send_a_command_leaves_the_span_that_the_party_was_told(peer: Peer, recorder: Recorder) -> None:
    trace, spans = "4b" * 16, KeptSpans()
    sender = make_sender(peer.port, recorder, spans=spans)
    for reply in ((500, b""), (200, b'{"retcode": 103, "retmsg": "secret", "data": {}}')):
        peer.replies.put(reply)
    sender.post([replace(commands(1)[0], trace=trace)])
    recorder.take()
    sender.post(commands(1))             # of a job without a trace
    recorder.take()
    sender.close()

    failed, refused = spans.found
    headers_seen = [head["traceparent"] for _, _, head in peer.asked[:2]]
    assert headers_seen == [traceparent(trace, one.id.span) for one in (failed, refused)]
    assert (failed.name, failed.kind) == ("send status", SpanKind.CLIENT)
    assert failed.parent == refused.parent == span_of_job(JOB_ID, "9999")
    assert (failed.error, refused.error) == ("unreadable", "")
    assert refused.attributes == {
        "rpc.system.name": "fate_flow", "rpc.method": "status", "fate_flow.peer.id": "10000",
        "fate_flow.job.id": JOB_ID, "fate_flow.party.role": "host", "fate_flow.party.id": "10000",
        "fate_flow.retcode": 103,
    }  # fmt: skip
    assert refused.begun <= refused.ended


def test_large_documents_travel_in_several_requests(peer: Peer, recorder: Recorder, sender: PeerSender) -> None:
    peer.replies.put(ok(BATCH))
    sender.post(commands(1, K.CREATE))
    recorder.take()
    document = "x" * 6_000_000
    sent = [replace(one, body={**one.body, "dsl": document}) for one in commands(5, K.CREATE)]
    sender.post([*sent, *commands(3)])
    assert [command for command, _ in recorder.take(8)] == [*sent, *commands(3)]
    sizes = [len(body.get("commands", [0])) for _, body, _ in peer.asked[1:]]
    assert sizes == [2, 2, 4]


def test_documents_with_many_values_travel_in_several_requests(
    peer: Peer, recorder: Recorder, sender: PeerSender
) -> None:
    peer.replies.put(ok(BATCH))
    sender.post(commands(1, K.CREATE))
    recorder.take()
    sent = [replace(one, body={**one.body, "dsl": [0] * 400_000}) for one in commands(3, K.CREATE)]
    sender.post(sent)
    assert [command for command, _ in recorder.take(3)] == sent
    assert [len(body.get("commands", [0])) for _, body, _ in peer.asked[1:]] == [2, 1]


@pytest.mark.parametrize("data", [{}, {"extensions": {}}, {"extensions": ["batch"]}, {"extensions": None}, None])
def test_a_plain_v1_peer_gets_them_one_by_one(data: Any, peer: Peer, recorder: Recorder, sender: PeerSender) -> None:
    peer.replies.put(ok(data))
    sender.post(commands(1, K.CREATE))
    recorder.take()
    sender.post(commands(5))
    recorder.take(5)
    assert "/party/batch" not in peer.paths


def test_after_a_restart_the_first_heartbeat_learns_what_the_peer_understands(
    peer: Peer, recorder: Recorder, sender: PeerSender
) -> None:
    sender.beat(((JOB_ID, 0),))
    assert recorder.ended.get(timeout=WAIT) == ("10000", {}, {JOB_ID: 0})
    sender.post(commands(5))
    recorder.take(5)
    assert peer.paths[0] == "/party/heartbeat"
    assert peer.asked[0][1] == {"jobs": [[JOB_ID, 0]]}
    assert "/party/batch" in peer.paths


def test_a_heartbeat_brings_what_is_over_there(peer: Peer, recorder: Recorder, sender: PeerSender) -> None:
    peer.replies.put(ok({"ended": {JOB_ID: "done", "x": 7}}))
    sender.beat(((JOB_ID, 2),))
    assert recorder.ended.get(timeout=WAIT) == ("10000", {JOB_ID: "done", "x": "7"}, {JOB_ID: 2})


def test_how_long_requests_take_is_known_in_both_directions(
    peer: Peer, recorder: Recorder, sender: PeerSender
) -> None:
    assert (sender.state().round_trip_ms, sender.state().back_ms) == (None, None)
    for said, expected in ((12, 12), (-1, None), ("x", None), (None, None)):
        peer.replies.put(ok({"ended": {JOB_ID: "done"}, "round_trip_ms": said}))
        sender.beat(((JOB_ID, 2),))
        recorder.ended.get(timeout=WAIT)
        state = sender.state()
        assert (state.back_ms, state.round_trip_ms is not None) == (expected, True)


def test_when_a_party_answered_last_is_known_also_while_it_is_silent(
    peer: Peer, recorder: Recorder, sender: PeerSender
) -> None:
    assert sender.state().answered_seconds is None
    sender.post(commands(1))
    recorder.take()
    first = sender.state().answered_seconds
    assert first is not None
    assert 0 <= first < WAIT
    peer.replies.put((500, b""))
    sender.beat(())
    eventually(lambda: not sender.state().is_answering, "the party counts as silent")
    later = sender.state().answered_seconds
    assert later is not None
    assert later > first


@pytest.mark.parametrize("reply", [(404, b"{}"), (200, b'{"retcode": 100, "retmsg": "<NotFound>"}')])
def test_a_plain_v1_server_gets_one_heartbeat_without_jobs_until_it_was_silent(
    reply: tuple[int, bytes], peer: Peer, sender: PeerSender
) -> None:
    """The log of FATE would have a traceback each minute."""
    def beats() -> int:
        return sum(path.endswith("heartbeat") for path in peer.paths)

    peer.usual = lambda *_: reply
    sender.beat(())
    eventually(lambda: sender.state().answered_seconds is not None, "its answer")
    sender.beat(())
    assert not sender._queue.has_work(inf)
    sender.beat(((JOB_ID, 0),))
    eventually(lambda: beats() == 2, "one about a job")
    peer.replies.put((500, b""))
    sender.beat(((JOB_ID, 0),))
    eventually(lambda: not sender.state().is_answering, "its silence")
    sender.beat(())
    eventually(lambda: sender.state().is_answering, "its answer after the silence")
    assert beats() == 4


def test_a_server_of_ours_gets_each_heartbeat_without_jobs(peer: Peer, sender: PeerSender) -> None:
    peer.says_who, peer.usual = "10000", lambda *_: ok({"ended": {}})
    for count in (1, 2, 3):
        sender.beat(())
        eventually(lambda count=count: len(peer.paths) == count, "a heartbeat")


class Heads:
    """A checkpoint for each heartbeat, until it was answered."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, str]] = []

    def for_heartbeat(self, party_id: str) -> HeartbeatHead | None:
        if self.answers:
            return None
        return HeartbeatHead(f"for {party_id}", "1" * 32, lambda *answer: self.answers.append(answer))


def test_a_heartbeat_takes_a_checkpoint_along_and_brings_the_cosignature(
    peer: Peer, recorder: Recorder, sender: PeerSender
) -> None:
    sender.heads = heads = Heads()
    data: dict[str, Any] = {"ended": {}, "extensions": {}}
    for cosigned in (None, {"status": "x"}, {"status": 200, "text": "line"}, None):
        peer.replies.put(ok(data if cosigned is None else {**data, "cosigned": cosigned}))
        sender.beat(((JOB_ID, 0),))
        recorder.ended.get(timeout=WAIT)
    sender.close()
    bodies = [body for _, body, _ in peer.asked]
    assert [body.get("checkpoint") for body in bodies] == ["for 10000"] * 3 + [None]
    assert [body.get("question") for body in bodies] == ["1" * 32] * 3 + [None]
    assert heads.answers == [(200, "line")]


@pytest.mark.parametrize(
    "reply",
    [
        (404, b"<html>not found</html>"), (405, b""),
        (200, b'{"retcode": 100, "retmsg": "404 Not Found"}'),              # as FATE says it
        (200, b'{"retcode": 0, "data": {"ended": ["x"]}}'),
    ],
)
def test_a_peer_without_heartbeats_is_not_silent(
    reply: Reply, peer: Peer, recorder: Recorder, sender: PeerSender
) -> None:
    peer.replies.put(reply)
    sender.beat(())
    sender.post(commands(3))
    assert recorder.retcodes(3) == [0, 0, 0]
    assert sender.state().is_answering
    assert "/party/batch" not in peer.paths


@pytest.mark.parametrize("status", [404, 405])
def test_a_peer_that_cannot_compare_documents_is_not_silent(
    status: int, peer: Peer, recorder: Recorder, sender: PeerSender
) -> None:
    peer.replies.put((status, b"<html>not found</html>"))
    sender.post(commands(1, K.COMPARE))
    assert recorder.retcodes(1) == [404]
    assert sender.state().is_answering


def test_an_answer_to_a_heartbeat_that_is_no_envelope_is_none(peer: Peer, recorder: Recorder) -> None:
    peer.replies.put((200, b'{"message": "welcome to the portal"}'))
    sender = make_sender(peer.port, recorder, first_pause=WAIT)  # the next request is not sent before it is over
    sender.beat(())
    sender.post(commands(1, K.CHECK))
    assert recorder.retcodes(1) == [UNREACHABLE]
    assert peer.paths == ["/party/heartbeat"]
    sender.close()


def test_a_newer_heartbeat_replaces_one_that_has_not_left(peer: Peer, recorder: Recorder, sender: PeerSender) -> None:
    entered, leave = threading.Event(), threading.Event()

    def hold(handler: BaseHTTPRequestHandler) -> None:
        entered.set()
        leave.wait(WAIT)
        answer(handler, b'{"retcode": 0}')

    peer.replies.put(hold)
    sender.post(commands(1))
    entered.wait(WAIT)
    for run in range(3):
        sender.beat(((JOB_ID, run),))
    leave.set()
    recorder.ended.get(timeout=WAIT)
    beats = [body for path, body, _ in peer.asked if path.endswith("heartbeat")]
    assert beats == [{"jobs": [[JOB_ID, 2]]}]


# ---------------------------------------------------------------------- all peer senders of a server


def test_each_party_has_a_sender_of_its_own(peer: Peer, recorder: Recorder) -> None:
    stuck = threading.Event()
    slow = Peer()
    slow.replies.put(lambda _: stuck.wait(WAIT) and None)
    ports = {"10000": peer.port, "10001": slow.port}
    senders = PeerSenders(
        lambda party_id: make_sender(ports[party_id], recorder, party_id) if party_id in ports else None,
        recorder.listener()
    )
    mixed = [one for pair in zip(commands(3, to=OTHER), commands(3), strict=True) for one in pair]
    senders.post(tuple(mixed))
    assert [command.to for command, _ in recorder.take(3)] == [HOST] * 3     # the slow one delays nobody else
    senders.heartbeat("10000", ())
    assert recorder.ended.get(timeout=WAIT) == ("10000", {}, {})
    assert {state.party_id for state in senders.states()} == {"10000", "10001"}
    stuck.set()
    senders.close()
    slow.close()


def test_a_party_is_reached_under_its_new_address(recorder: Recorder) -> None:
    old, new = Peer(), Peer()
    senders = PeerSenders(lambda party_id: make_sender(old.port, recorder, party_id), recorder.listener())
    first, second = commands(2)
    senders.post((first,))
    assert recorder.take(1) == [(first, Answer())]
    senders.follow({"10000": f"http://127.0.0.1:{new.port}", "10001": "http://127.0.0.1:1"})
    senders.post((second,))
    assert recorder.take(1) == [(second, Answer())]
    assert [state.url for state in senders.states()] == [f"http://127.0.0.1:{new.port}"]
    senders.follow({})
    assert [state.url for state in senders.states()] == [f"http://127.0.0.1:{new.port}"]
    senders.close()
    old.close()
    new.close()


def test_a_party_without_a_route_does_not_answer(recorder: Recorder) -> None:
    senders = PeerSenders(lambda _: None, recorder.listener())
    senders.post(tuple(commands(2)))
    assert recorder.take(2) == [(one, Answer(UNREACHABLE, "party 10000 has no route here")) for one in commands(2)]
    senders.heartbeat("10000", ())
    assert senders.states() == []


# ---------------------------------------------------------------------- signatures


REFUSED: Reply = 200, b'{"retcode": 109, "retmsg": "party 10000 has no public key of party 9999\\u001b[31m"}'


def test_a_party_that_does_not_believe_us_gets_it_again_signed_anew(
    peer: Peer, recorder: Recorder, tmp_path: Path
) -> None:
    """Nothing was carried out, and may be when the keys are right."""
    key = write_private_key(tmp_path / "site.pem", 1)
    sender = make_sender(peer.port, recorder, auth=SiteSignature(key, lambda: 1_700_000_000_000))
    peer.replies.put(REFUSED)
    peer.replies.put(REFUSED)
    sent = commands(1, K.RETURN)
    sender.post(sent)
    assert recorder.take() == [(sent[0], Answer(0, "success"))]
    sender.close()
    assert peer.paths == ["/party/0"] * 3
    claims = [read_signature_input(head[INPUT], head[SIGNATURE]) for _, _, head in peer.asked]
    assert len({claim.nonce for claim in claims if claim}) == 3
    for claim, (path, body, _) in zip(claims, peer.asked, strict=True):
        text = json.dumps(body, separators=(",", ":")).encode()
        assert claim is not None
        assert claim.holds(key.public, Covered("POST", path, digest_of(text), "9999", "10000"))


def test_what_may_fail_fails_with_the_words_of_the_refusal(peer: Peer, recorder: Recorder, sender: PeerSender) -> None:
    peer.usual = lambda *_: REFUSED
    sender.post(commands(1, K.CREATE))
    [(_, answer)] = recorder.take()
    assert answer.retcode == UNREACHABLE
    assert "party 10000: not authenticated: party 10000 has no public key of party 9999" in answer.retmsg
    assert "\x1b" not in answer.retmsg
    assert sender.state().error == answer.retmsg.partition("party 10000: ")[2]
