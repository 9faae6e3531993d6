"""The folder with the streams that there may be: what is opened is read as it was, and is gone once it is closed."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import Party, Port
from fate_flow.core.streams.addresses import ends_of
from fate_flow.core.streams.counts import PortCount
from fate_flow.relay.spool_session import Session
from fate_flow.relay.stream_sessions import LOOKED, StreamSession, StreamSessions
from fate_flow.server.listeners.listening import listen_at
from tests.kit.streams.two_gateways import carried_until_its_end, collected

JOB = "202601011200000000001"
GUEST, HOST = Party("guest", "9999"), Party("host", "10000")
PORTS = (Port("fl", (GUEST,), (HOST,)), Port("back", (HOST,), (GUEST,)))


def a_session(version: int = 0, job_id: str = JOB) -> StreamSession:
    key = TaskKey(job_id, "train", version, GUEST)
    session = Session(job_id, key.task_id, version, "abcdef01", "guest", "9999")
    return StreamSession(session, "native:" + "0" * 64, ends_of(PORTS, key, "abcdef01"))


def sessions_in(tmp_path: Path) -> StreamSessions:
    (tmp_path / "streams").mkdir(exist_ok=True)
    return StreamSessions(tmp_path / "streams", tmp_path / "streams.sock")


def test_a_session_is_read_as_it_was_opened_until_it_is_closed(tmp_path: Path) -> None:
    sessions, one = sessions_in(tmp_path), a_session()
    sessions.open(one)
    sessions.open(one)
    assert sessions.read(one.session) == one
    assert list(sessions.changes({}).values()) == [one]
    assert one.listener("fl", HOST) == one.ends.listens[0].address
    assert one.listener("fl", GUEST) is None
    assert one.listener("back", HOST) is None
    sessions.close(one.session)
    sessions.close(one.session)
    assert sessions.read(one.session) is None
    assert sessions.changes({}) == {}


def test_a_purge_takes_the_sessions_of_its_job_alone(tmp_path: Path) -> None:
    sessions, other = sessions_in(tmp_path), a_session(job_id=f"{JOB}9")
    for one in (a_session(0), a_session(1), other):
        sessions.open(one)
    assert sessions.jobs() == {JOB, f"{JOB}9"}
    sessions.purge(JOB)
    assert [*sessions.sessions()] == [other.session]


@pytest.mark.parametrize(
    "content", [b"", bytes(100), b"null", b"{}", b'{"session": {"job_id": "x"}}', b"\xff"],
    ids=["empty", "zeros", "null", "object", "session", "no text"],
)  # fmt: skip
def test_a_file_that_says_nothing_is_removed_and_hinders_no_other(
    content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sessions, one, other = sessions_in(tmp_path), a_session(), a_session(job_id=f"{JOB}9")
    sessions.open(other)
    [of_other] = sessions.changes({})
    for ask in (
        lambda: [*sessions.sessions()] == [other.session], lambda: sessions.read(one.session) is None,
        lambda: list(sessions.changes({})) == [of_other],
    ):  # fmt: skip
        sessions.open(one)
        [path] = (path for path in (tmp_path / "streams").glob("*.json") if path.name != of_other)
        path.write_bytes(content)
        assert ask()
        assert not path.exists()
        assert str(path) in caplog.text
    sessions.open(one)
    assert sessions.read(one.session) == one           # it can be written again
    path.write_bytes(content)
    path.with_name(f".{path.name}.77").write_bytes(content)        # a draft of a process that was killed
    assert sessions.jobs() == {JOB, f"{JOB}9"}
    sessions.purge(JOB)
    assert [one.name for one in (tmp_path / "streams").iterdir()] == [of_other]


def test_counts_that_say_nothing_are_none(tmp_path: Path) -> None:
    sessions, one = sessions_in(tmp_path), a_session()
    sessions.open(one)
    [name] = sessions.changes({})
    sessions.count(name, [PortCount("fl", HOST, 2, 5, 7, 1.5)])
    path = (tmp_path / "streams" / name).with_suffix(".counts")
    path.write_bytes(b"")
    assert sessions.counts(name) == ()
    assert carried_until_its_end(sessions, one.session) == ()
    assert [*(tmp_path / "streams").iterdir()] == []


def test_counts_of_another_release_are_read_as_far_as_they_are_known(tmp_path: Path) -> None:
    sessions, one = sessions_in(tmp_path), a_session()
    [name] = (sessions.open(one), sessions.changes({}))[1]
    count = {"name": "fl", "other": vars(HOST), "streams": 2, "sent": 5, "received": 7, "seconds": 1.5, "newer": 1}
    (tmp_path / "streams" / name).with_suffix(".counts").write_text(json.dumps([count]), encoding="utf-8")
    assert carried_until_its_end(sessions, one.session) == (PortCount("fl", HOST, 2, 5, 7, 1.5),)


def test_what_is_counted_after_the_end_is_collected_once(tmp_path: Path) -> None:
    sessions, one = sessions_in(tmp_path), a_session()
    at_once = PortCount("fl", HOST, 2, 5, 7, 1.5, ((5, "ab"),), ((7, "cd"),))
    late = PortCount("fl", HOST, 1, 3, 0, 0.5)
    [name] = (sessions.open(one), sessions.changes({}))[1]
    sessions.count(name, [at_once])
    assert sessions.uncollected() == ()                     # it is still open
    assert carried_until_its_end(sessions, one.session) == (at_once,)
    sessions.count_late(name, late)
    sessions.count_late(name, late)
    sessions.purge(JOB)
    assert sessions.uncollected() == (one.session,)
    assert collected(sessions, one.session) == (late.with_count(late),)
    assert collected(sessions, one.session) == sessions.uncollected() == ()
    assert list((tmp_path / "streams").iterdir()) == []


def test_what_could_not_be_stored_elsewhere_is_collected_again(tmp_path: Path) -> None:
    sessions, one, count = sessions_in(tmp_path), a_session(), PortCount("fl", HOST, 2, 5, 7, 1.5)
    [name] = (sessions.open(one), sessions.changes({}))[1]
    sessions.count(name, [count])
    sessions.close(one.session)

    def fails() -> None:
        with sessions.collected(one.session):
            sessions.count_late(name, count)         # meanwhile
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        fails()
    assert sessions.uncollected() == (one.session,)
    assert collected(sessions, one.session) == (count.with_count(count),)
    assert collected(sessions, one.session) == sessions.uncollected() == ()


def test_what_another_process_collects_is_left_to_it(tmp_path: Path) -> None:
    sessions, one, count = sessions_in(tmp_path), a_session(), PortCount("fl", HOST, 2, 5, 7, 1.5)
    [name] = (sessions.open(one), sessions.changes({}))[1]
    sessions.count(name, [count])
    sessions.close(one.session)
    with sessions.collected(one.session) as first:
        sessions.count_late(name, count)
        assert first == collected(sessions, one.session) == (count,), "each has what the other one has not"
    assert collected(sessions, one.session) == sessions.uncollected() == ()


@pytest.mark.parametrize("each", ["[[5, 6, 7]]", '[["x", "ab"]]', "7", '{"a": 1}', "null"])
def test_counts_of_a_wrong_form_are_named_and_none(
    tmp_path: Path, each: str, caplog: pytest.LogCaptureFixture
) -> None:
    sessions, one = sessions_in(tmp_path), a_session()
    [name] = (sessions.open(one), sessions.changes({}))[1]
    text = json.dumps([{"name": "fl", "other": vars(HOST), "streams": 2, "sent": 5, "received": 7, "seconds": 1.5}])
    path = (tmp_path / "streams" / name).with_suffix(".counts")
    path.write_text(text.replace("1.5", f'1.5, "newer": 1, "sent_each": {each}'), encoding="utf-8")
    assert carried_until_its_end(sessions, one.session) == ()
    assert "says nothing of what streams have carried" in caplog.text


def test_what_a_gateway_has_stored_too_late_is_collected(tmp_path: Path) -> None:
    sessions, one, count = sessions_in(tmp_path), a_session(), PortCount("fl", HOST, 2, 5, 7, 1.5)
    [name] = (sessions.open(one), sessions.changes({}))[1]
    assert carried_until_its_end(sessions, one.session) == ()
    sessions.count(name, [count])
    assert sessions.uncollected() == (one.session,)
    assert collected(sessions, one.session) == (count,)


def test_whoever_opens_a_session_waits_until_the_gateway_has_looked(tmp_path: Path) -> None:
    sessions, seen = sessions_in(tmp_path), []
    listener = listen_at(tmp_path / "streams.sock")

    def look() -> None:
        sock, _ = listener.accept()
        with sock:
            seen.extend(sessions.sessions())
            sock.sendall(LOOKED)

    thread = threading.Thread(target=look)
    thread.start()
    sessions.open(a_session())
    assert seen == [a_session().session]
    thread.join()
    listener.close()


def test_a_folder_that_is_not_there_has_no_sessions(tmp_path: Path) -> None:
    assert StreamSessions(tmp_path / "none", tmp_path / "none.sock").changes({}) == {}
