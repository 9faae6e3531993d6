"""Entries as messages of syslog, over TCP and TLS, and receivers that do not take them."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from fate_flow.core.record.entry import OWN_LOG, Kind, new_entry
from fate_flow.core.record.log import StoredEntry
from fate_flow.core.record.shown import ShownEntry, shown_entry
from fate_flow.server.exporting.receiver import NotTaken
from fate_flow.server.exporting.syslog import SyslogReceiver, syslog_message
from fate_flow.settings.recording.exports import SyslogExport
from tests.kit.notifications.receivers import nobody_listens
from tests.kit.record.syslog_receiver import messages_in, syslog_server
from tests.kit.tls import Authority
from tests.kit.waiting import eventually


def an_entry(index: int = 0, kind: Kind = Kind.ACT, text: str = "") -> ShownEntry:
    one = new_entry(OWN_LOG, kind, 1_700_000_000_123, {"what": "stop"}, job_id="j1")
    return shown_entry(StoredEntry(9, OWN_LOG, one.content, str(kind), one.at, "j1", "", text, 1, index), "Zoë")


def to(port: int, seconds: float = 20.0, **more: object) -> SyslogReceiver:
    return SyslogReceiver(SyslogExport("siem", "127.0.0.1", port, **more), "9999", seconds)  # type: ignore[arg-type]  # fields of any type


def test_a_message_is_one_object_of_json_in_ascii_with_the_whole_entry() -> None:
    message = syslog_message(an_entry(7, text="line\nbreak"), "9999", "fate.example")
    assert message.startswith(b"<110>1 2023-11-14T22:13:20.123Z fate.example fate_flow - act - {")
    assert message.isascii()
    assert b"\n" not in message
    [one] = messages_in(b"%d %s" % (len(message), message))
    assert (one.facility, one.severity) == (13, 6)
    assert one.said == {
        "own_party": "9999", "log": "own", "epoch": 1, "index": 7, "entry": an_entry().content, "text": "line\nbreak",
    }  # fmt: skip


@pytest.mark.parametrize("kind", [Kind.REFUSED, Kind.EPOCH])
def test_what_operators_should_look_at_is_a_warning(kind: Kind) -> None:
    assert syslog_message(an_entry(kind=kind), "9999", "h").startswith(b"<108>1 ")


def test_what_was_sent_has_arrived_over_tcp() -> None:
    with syslog_server() as server:
        receiver = to(server.port, has_tls=False)
        receiver.send([an_entry(0), an_entry(1)])
        receiver.send([an_entry(2)])
        assert [one[2] for one in server.entries] == [0, 1, 2]
        assert server.messages[0].host == socket.gethostname()


def test_what_was_sent_has_arrived_over_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with syslog_server(authority.server_context()) as server:
        receiver = to(server.port, ca_file=str(authority.file))
        for index in range(3):
            receiver.send([an_entry(index)] * 100)
        assert [one[2] for one in server.entries] == [0] * 100 + [1] * 100 + [2] * 100


def test_a_receiver_that_nobody_vouches_for_gets_nothing(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    authority, other = Authority(tmp_path), Authority(tmp_path / "other", "another")
    with syslog_server(authority.server_context()) as server:
        with pytest.raises(NotTaken, match="CERTIFICATE_VERIFY_FAILED"):
            to(server.port, ca_file=str(other.file)).send([an_entry()])
        assert server.messages == []


def test_a_receiver_that_is_down_or_does_not_read_has_not_taken_them() -> None:
    with pytest.raises(NotTaken, match="connection refused"):
        to(nobody_listens(), has_tls=False).send([an_entry()])
    with syslog_server() as server:
        server.hangs_up = True
        for entries in ([an_entry()], [an_entry(text="x" * 10_000)] * 200):
            with pytest.raises(NotTaken, match="connection lost"):
                to(server.port, has_tls=False).send(entries)


@pytest.mark.parametrize("has_tls", [False, True])
def test_a_receiver_that_does_not_say_that_it_has_read_all_has_not_taken_them(tmp_path: Path, has_tls: bool) -> None:
    authority = Authority(tmp_path)
    with syslog_server(authority.server_context() if has_tls else None) as server:
        server.holds = threading.Event()
        ca_file = str(authority.file) if has_tls else ""
        with pytest.raises(NotTaken, match="no answer in time"):
            to(server.port, 0.3, has_tls=has_tls, ca_file=ca_file).send([an_entry()])


def test_the_end_of_a_server_does_not_wait_for_a_receiver() -> None:
    with syslog_server() as server:
        server.holds = threading.Event()
        receiver, ended = to(server.port, 60.0, has_tls=False), threading.Event()

        def send() -> None:
            with pytest.raises(NotTaken):
                receiver.send([an_entry()])
            ended.set()

        threading.Thread(target=send, daemon=True).start()
        eventually(lambda: server.connections, "the connection")
        receiver.abort()
        assert ended.wait(20)
        with pytest.raises(NotTaken, match="this server ends"):
            receiver.send([an_entry()])


def test_a_page_that_nobody_has_read_is_not_taken_because_the_server_ends() -> None:
    """An end that both sides have made looks like one of the receiver."""
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        receiver, raised = to(nobody.getsockname()[1], 60.0, has_tls=False), list[bool]()

        def send() -> None:
            with pytest.raises(NotTaken):
                receiver.send([an_entry()])
            raised.append(True)

        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        eventually(lambda: receiver._under_way, "the connection")
        receiver.abort()
        thread.join(20)
        assert raised == [True]


@pytest.mark.parametrize(("says_so", "asked", "is_taken"), [
    (True, True, True), (True, False, True), (False, True, False), (False, False, True),
])  # fmt: skip
def test_the_end_of_tls_has_to_be_said_unless_the_configuration_lets_it_be(
    tmp_path: Path, says_so: bool, asked: bool, is_taken: bool
) -> None:
    authority = Authority(tmp_path)
    with syslog_server(authority.server_context()) as server:
        server.says_so = says_so
        receiver = to(server.port, ca_file=str(authority.file), close_notify=asked)
        for _ in range(3):
            if is_taken:
                receiver.send([an_entry()])
            else:
                with pytest.raises(NotTaken, match=r"set record\.exports\.siem\.close_notify: false"):
                    receiver.send([an_entry()])
        eventually(lambda: len(server.messages) == 3, "all messages")


@pytest.mark.parametrize("has_tls", [False, True])
def test_a_receiver_that_has_read_a_part_has_not_taken_it(tmp_path: Path, has_tls: bool) -> None:
    authority = Authority(tmp_path)
    with syslog_server(authority.server_context() if has_tls else None) as server:
        server.reads, server.says_so = 1000, False
        receiver = to(
            server.port, has_tls=has_tls, ca_file=str(authority.file) if has_tls else "", close_notify=False
        )
        with pytest.raises(NotTaken):
            receiver.send([an_entry(text="x" * 10_000)] * 100)


@pytest.mark.parametrize("host", ["siem..example", "a" * 300, "\udc80"])
def test_a_name_that_cannot_be_one_is_no_connection(host: str) -> None:
    with pytest.raises(NotTaken):
        SyslogReceiver(SyslogExport("siem", host, 514), "9999").send([an_entry()])
