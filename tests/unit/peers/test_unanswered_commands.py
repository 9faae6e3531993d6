"""Commands on their way to a party that does not answer, or answers nonsense."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from fate_flow.core.model.errors import UNREACHABLE
from fate_flow.core.model.job import Answer, Command, CommandKind
from fate_flow.core.text.peer_problems import ITS_STATUS, problem_in
from fate_flow.peers.peer_senders import PartyState, PeerSender
from tests.kit.peers.hostile_server import DRIPPING, HostileServer
from tests.kit.peers.peer_server import BATCH, WAIT, K, Peer, Recorder, Reply, answer, commands, make_sender, ok
from tests.kit.values import HOST, JOB_ID
from tests.kit.waiting import eventually


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Nobody listens there. It is held: no other process gets it meanwhile, only a `Peer` of the test may listen."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


def drip(handler: BaseHTTPRequestHandler) -> None:
    """One small chunk after the other, for ever; more of it is body than framing."""
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    with pytest.raises(OSError):      # noqa: PT012
        while True:
            handler.wfile.write(b"10\r\n[[[[[[[[[[[[[[[[\r\n")
            handler.wfile.flush()
    handler.close_connection = True


GARBAGE: dict[str, Reply] = {
    "an error": (500, b'{"retcode": 500, "retmsg": "the database is locked"}'),
    "busy": (503, b"try again"),
    "not found": (404, b"<html>"),
    "not JSON": (200, b"<html>hello</html>"),
    "empty": (200, b""),
    "a list": (200, b"[1]"),
    "no envelope": (200, b'{"message": "welcome to the portal"}'),
    "no retcode": (200, b'{"retcode": "0"}'),
    "not UTF-8": (200, b'{"retcode": 0, "retmsg": "\xff\xfe"}'),
    "deep": (200, b"[" * 100_000),
    "a redirect": (307, b""),
    "a closed connection": hang_up,
    "too much": lambda handler: answer(handler, b'{"retcode": 0, "retmsg": "' + b"x" * 17_000_000 + b'"}'),
}


@pytest.mark.parametrize("what", GARBAGE)
def test_what_must_arrive_is_sent_again_until_it_has_an_answer_and_the_order_stays(
    what: str, peer: Peer, recorder: Recorder, sender: PeerSender
) -> None:
    for _ in range(3):
        peer.replies.put(GARBAGE[what])
    sent = commands(3)
    sender.post(sent)
    assert recorder.take(3) == [(command, Answer(0, "success")) for command in sent]
    paths = [path for path, _ in itertools.groupby(peer.paths)]
    assert paths == ["/party/0", "/party/1", "/party/2"]
    assert peer.paths.count("/party/0") >= 3
    assert sender.state().is_answering


@pytest.mark.parametrize("what", [what for what in GARBAGE if what != "a closed connection"])
@pytest.mark.parametrize("kind", [K.CREATE, K.CHECK, K.APPLY])
def test_what_may_fail_fails_at_once(
    kind: CommandKind, what: str, peer: Peer, recorder: Recorder, sender: PeerSender
) -> None:
    peer.replies.put(GARBAGE[what])
    sender.post(commands(1, kind))
    [(command, said)] = recorder.take()
    assert (command, said.retcode) == (commands(1, kind)[0], UNREACHABLE)
    assert said.retmsg.startswith("Federated schedule error, party 10000: ")
    assert peer.paths == ["/party/0"]


@pytest.mark.parametrize(("reply", "text"), [
    ((403, b'{"retcode": 403, "retmsg": "Host: x is no name of this server"}'), ": Host: x is no name of this server"),
    ((502, b"<h1>Bad\r\n gateway</h1>"), ": <h1>Bad gateway</h1>"), ((503, b""), ""), ((500, b"[1]"), ""),
    ((400, b'{"retmsg": "a\\u0007b"}'), ": a?b"),
])  # fmt: skip
def test_what_a_server_refuses_by_its_http_status_is_told_in_its_words(
    reply: Reply, text: str, peer: Peer, recorder: Recorder, sender: PeerSender
) -> None:
    peer.replies.put(reply)
    sender.post(commands(1, K.APPLY))
    [(_, said)] = recorder.take()
    assert isinstance(reply, tuple)
    assert said.retmsg == f"Federated schedule error, party 10000: HTTP status {reply[0]}{text}"


def test_a_status_of_the_server_itself_is_told_from_that_of_a_proxy(
    peer: Peer, recorder: Recorder, sender: PeerSender
) -> None:
    """The board says `proxy` of the latter, and would send operators to the wrong people."""
    for who, what, problem in (("", "HTTP status", "proxy"), ("10000", ITS_STATUS, "other")):
        peer.says_who = who
        peer.replies.put((503, b'{"retmsg": "the database does not answer"}'))
        sender.post(commands(1, K.APPLY))
        [(_, said)] = recorder.take()
        assert said.retmsg.endswith(f": {what} 503: the database does not answer")
        assert problem_in(said.retmsg) == problem
        eventually(lambda: not sender.state().next_try_seconds, "the end of the pause")


@pytest.mark.long
def test_an_answer_without_end_is_left(peer: Peer, recorder: Recorder) -> None:
    peer.replies.put(drip)
    sender = make_sender(peer.port, recorder, timeout=0.3)
    sender.post(commands(1, K.APPLY))
    [(_, said)] = recorder.take()
    assert said.retmsg == "Federated schedule error, party 10000: no answer in time"
    sender.close()


@pytest.mark.parametrize("what", ["a head", "a body", "the size of a chunk"])
def test_a_party_that_sends_a_byte_now_and_then_is_silent(what: str, recorder: Recorder) -> None:
    server = HostileServer(DRIPPING[what], drips=True)
    sender = make_sender(server.port, recorder, timeout=0.3, silence=0.0)
    sender.beat(((JOB_ID, 0),))
    assert recorder.silence.get(timeout=WAIT)[0] == "10000"
    assert not sender.state().is_answering
    assert sender.state().error == "no answer in time"
    sender.close()
    server.close()


def a_clock_that_jumps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the peer senders read; its one number is for how many seconds this process stood still."""
    steady, stood_still = time.monotonic, [0.0]
    monkeypatch.setattr("fate_flow.peers.bounded_connections._LATE_SECONDS", WAIT)     # the peer may be slow to write
    for module in ("peer_senders", "peer_http", "bounded_connections"):
        clock = SimpleNamespace(monotonic=lambda: steady() + stood_still[0], time_ns=time.time_ns)
        monkeypatch.setattr(f"fate_flow.peers.{module}.time", clock)
    return stood_still


@pytest.mark.parametrize("longest_gap", [50.0, inf])
def test_a_party_that_was_silent_before_this_process_stood_still_is_asked_before_it_is_lost(
    closed_port: int, recorder: Recorder, monkeypatch: pytest.MonkeyPatch, longest_gap: float
) -> None:
    stood_still = a_clock_that_jumps(monkeypatch)
    sender = make_sender(closed_port, recorder, silence=60.0, longest_gap=longest_gap)
    sender.post(commands(1, K.CHECK))
    assert recorder.retcodes(1) == [UNREACHABLE]
    stood_still[0] = 100.0
    sender.report_silence()
    assert recorder.silence.empty() is (longest_gap < 100)
    sender.close()


def test_an_answer_that_came_while_this_process_stood_still_counts(
    peer: Peer, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a server that was stopped for long would take the others for silent when it goes on."""
    stood_still = a_clock_that_jumps(monkeypatch)

    def while_stopped(handler: BaseHTTPRequestHandler) -> None:
        stood_still[0] = 100.0
        answer(handler, b'{"retcode": 0, "retmsg": "success"}')

    peer.replies.put(while_stopped)
    sender = make_sender(peer.port, recorder, timeout=50.0, silence=60.0)
    sender.post(commands(1))
    assert recorder.retcodes(1) == [0]
    assert sender.state().is_answering
    assert recorder.silence.empty()
    sender.close()


def test_nobody_there(closed_port: int, recorder: Recorder) -> None:
    sender = make_sender(closed_port, recorder)
    sender.post(commands(1, K.CREATE))
    [(_, said)] = recorder.take()
    assert said.retmsg == "Federated schedule error, party 10000: connection refused"
    sender.close()


def test_a_peer_that_hangs_costs_the_time_of_one_request(peer: Peer, recorder: Recorder) -> None:
    leave = threading.Event()
    peer.replies.put(lambda _: leave.wait(WAIT) and None)
    sender = make_sender(peer.port, recorder, timeout=0.3)
    sender.post(commands(1, K.APPLY))
    [(_, said)] = recorder.take()
    assert said.retmsg == "Federated schedule error, party 10000: no answer in time"
    leave.set()
    sender.close()


def test_while_it_is_known_not_to_answer_what_may_fail_is_not_even_sent(
    closed_port: int, recorder: Recorder
) -> None:
    sender = make_sender(closed_port, recorder, first_pause=WAIT, probe_pause=WAIT)
    sender.post(commands(1, K.APPLY))
    recorder.take()
    kept, lost = commands(1), [Command(K.CHECK, JOB_ID, HOST, id=7), Command(K.CREATE, JOB_ID, HOST, id=8)]
    before = len(recorder.log)
    sender.post([lost[0], *kept, lost[1]])
    assert [(command, said.retcode) for command, said in recorder.take(2)] == [(one, UNREACHABLE) for one in lost]
    soon = pytest.approx(0, abs=WAIT)
    assert sender.state() == PartyState("10000", sender.url, "open", soon, 1, "connection refused", 1, soon)
    assert len(recorder.log) == before
    sender.close()


def test_a_party_that_is_asked_whether_it_is_back_is_probed_and_the_log_tells_each_reservation_round(
    peer: Peer, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    leave, asked = threading.Event(), threading.Event()

    def slow(handler: BaseHTTPRequestHandler) -> None:
        asked.set()
        leave.wait(WAIT)
        answer(handler, b'{"retcode": 0, "retmsg": "success"}')

    peer.replies.put(hang_up)
    peer.replies.put(slow)
    sender = make_sender(peer.port, recorder)
    sender.post(commands(1))
    assert asked.wait(WAIT)
    assert (sender.state().circuit, sender.state().failures) == ("probing", 1)
    leave.set()
    recorder.take()
    assert replace(sender.state(), round_trip_ms=None, answered_seconds=None) == PartyState("10000", sender.url)
    sender.close()
    assert "party 10000 does not answer: connection lost; circuit open, asked again in 0.01 s" in caplog.text
    assert "and 1 tries; circuit closed" in caplog.text


def test_a_job_that_somebody_waits_for_finds_a_party_that_is_back(closed_port: int, recorder: Recorder) -> None:
    sender = make_sender(closed_port, recorder, first_pause=WAIT, probe_pause=0.0)
    sender.post(commands(1, K.APPLY))
    assert recorder.retcodes(1) == [UNREACHABLE]
    peer = Peer(closed_port)
    sender.post(commands(1, K.CREATE))
    assert recorder.retcodes(1) == [0]
    assert sender.state().is_answering
    sender.close()
    peer.close()


def test_a_heartbeat_that_nobody_heard_keeps_the_commands_behind_it(
    peer: Peer, recorder: Recorder, sender: PeerSender
) -> None:
    entered, leave = threading.Event(), threading.Event()

    def hold(handler: BaseHTTPRequestHandler) -> None:
        entered.set()
        leave.wait(WAIT)
        answer(handler, b'{"retcode": 0}')

    peer.replies.put(hold)
    peer.replies.put((500, b""))
    sender.post(commands(1))
    entered.wait(WAIT)
    sender.beat(())
    sender.post(commands(3)[1:])
    leave.set()
    assert [command.argument for command, _ in recorder.take(3)] == ["0", "1", "2"]
    assert peer.paths[:2] == ["/party/0", "/party/heartbeat"]


@pytest.mark.parametrize(
    "data", [None, "text", [], [{"retcode": 0}], [{"retcode": 0}] * 4, [{"retcode": 0}, 7, None], [{}, {}, {}]]
)
def test_an_answer_to_a_batch_that_does_not_fit_it_is_none(
    data: Any, peer: Peer, recorder: Recorder, sender: PeerSender
) -> None:
    peer.replies.put(ok(BATCH))
    sender.post(commands(1, K.CREATE))
    recorder.take()
    peer.replies.put(ok(data))
    sender.post(commands(3))
    assert recorder.retcodes(3) == [0, 0, 0]
    assert [path for path in peer.paths if path == "/party/batch"] == ["/party/batch"] * 2


def test_of_a_batch_that_nobody_answered_what_may_fail_fails_and_the_rest_is_sent_again(
    peer: Peer, recorder: Recorder, sender: PeerSender
) -> None:
    peer.replies.put(ok(BATCH))
    sender.post(commands(1, K.CREATE))
    recorder.take()
    first, second, third = commands(3)
    may_fail = Command(K.APPLY, JOB_ID, HOST, argument="1", id=1)
    peer.replies.put((500, b""))
    sender.post([first, may_fail, third])
    assert [(command.argument, said.retcode) for command, said in recorder.take(3)] == [
        ("1", UNREACHABLE), ("0", 0), ("2", 0)]  # fmt: skip
    assert second.argument == "1"


def test_silence_is_told_when_it_has_lasted_too_long(closed_port: int, recorder: Recorder) -> None:
    sender = make_sender(closed_port, recorder, silence=0.05)
    sender.post(commands(1))
    party_id, seconds = recorder.silence.get(timeout=WAIT)
    assert (party_id, seconds > 0.05) == ("10000", True)
    recorder.silence.get(timeout=WAIT)          # and again, as long as it lasts
    sender.close()


def test_silence_counts_from_the_first_question_that_got_no_answer(recorder: Recorder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        sender = make_sender(deaf.getsockname()[1], recorder, timeout=0.2, silence=0.15)
        sender.post(commands(1))
        assert recorder.silence.get(timeout=WAIT)[1] >= 0.2  # with the very first failure
        sender.report_silence()
        assert recorder.silence.get(timeout=WAIT)
        sender.close()


def test_a_party_that_answers_is_not_silent(sender: PeerSender, recorder: Recorder) -> None:
    sender.post(commands(1))
    recorder.take()
    sender.report_silence()
    assert recorder.silence.empty()


def test_what_is_forgotten_is_not_sent(closed_port: int, recorder: Recorder) -> None:
    # Nothing is under way when it is told to forget.
    sender = make_sender(closed_port, recorder, silence=0.0, first_pause=WAIT, probe_pause=0.0)
    sender.post(commands(3))
    recorder.silence.get(timeout=WAIT)
    sender.beat((("x", 0),))
    sender.forget()
    peer = Peer(closed_port)
    sender.post(commands(5, K.CREATE)[4:])
    assert recorder.retcodes(1) == [0]
    assert peer.paths == ["/party/4"]
    sender.close()
    peer.close()


def test_a_server_that_comes_back_gets_what_was_kept_for_it(closed_port: int, recorder: Recorder) -> None:
    sender = make_sender(closed_port, recorder, silence=0.0)
    sender.post(commands(2))
    recorder.silence.get(timeout=WAIT)
    assert not sender.state().is_answering
    peer = Peer(closed_port)
    assert recorder.retcodes(2) == [0, 0]
    assert replace(sender.state(), round_trip_ms=None, answered_seconds=None) == PartyState("10000", sender.url)
    sender.close()
    peer.close()


def test_a_kept_connection_that_the_peer_has_closed_is_opened_again_without_a_failure(
    peer: Peer, recorder: Recorder, sender: PeerSender
) -> None:
    def close_after(handler: BaseHTTPRequestHandler) -> None:
        answer(handler, b'{"retcode": 0}')          # promises to keep the connection, and does not
        handler.close_connection = True

    for number in range(3):
        peer.replies.put(close_after)
        sender.post([Command(K.APPLY, JOB_ID, HOST, argument=str(number))])
        assert recorder.retcodes(1) == [0]
    assert len(peer.connections) == 3


def test_a_sender_survives_what_an_answer_does_to_its_listener(
    peer: Peer, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    failures = iter([RuntimeError("a defect")])

    def stumble(answers: list[tuple[Command, Answer]]) -> None:
        for failure in failures:
            raise failure
        recorder.listener().answers(answers)

    sender = make_sender(peer.port, recorder)
    sender.listener = replace(recorder.listener(), answers=stumble)
    sender.post(commands(2))
    assert recorder.retcodes(2) == [0, 0]
    assert "sender to party 10000" in caplog.text
    sender.close()


def test_a_closed_sender_ends_its_thread(sender: PeerSender) -> None:
    assert sender._thread.is_alive()
    sender.close()
    sender._thread.join(WAIT)
    assert not sender._thread.is_alive()
