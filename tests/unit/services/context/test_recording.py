"""Entries of the record are written with what they are about, or neither is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.access.fingerprint import fingerprint_of
from fate_flow.core.access.joined_party import JoinedParty
from fate_flow.core.access.key_list import KeyList, SignedKeyList
from fate_flow.core.model.errors import CommitUnknown, DiskFull, StorageFailed, StorageUnavailable
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import Answer, Command, CommandKind
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus
from fate_flow.core.record.commitment import number_of, opens
from fate_flow.core.record.entry import OWN_LOG, Kind, read_entry
from fate_flow.core.record.log import StoredEntry
from fate_flow.core.record.refusal_counts import Cause
from fate_flow.core.record.sentences import sentence_of
from fate_flow.core.record.shown import ShownEntry, shown_entry
from fate_flow.core.wire.v1.recorded import answer_content, request_content
from fate_flow.services.context.counted_record import RefusalRecord, RequestRecord
from fate_flow.services.context.recording import record_act, record_act_in, record_answer, record_received
from fate_flow.services.use_cases.joining import save_joined_party
from fate_flow.services.use_cases.who_asked import note_act, note_who_asked
from fate_flow.store.contract.transaction import Transaction
from tests.kit.services.hand_server import HandServer
from tests.kit.values import GUEST, HOST, JOB_ID, NOW

START = Command(CommandKind.START, JOB_ID, HOST, 1, body={"a": 1})


@pytest.fixture
def server() -> HandServer:
    found = HandServer()
    object.__setattr__(found.context, "keeps_record", True)
    return found


def entries(server: HandServer) -> list[StoredEntry]:
    with server.store.reading() as tx:
        return list(tx.unsealed_entries(100))


def opened(one: StoredEntry, key: str, what: str, content: bytes) -> bool:
    return opens(read_entry(one.content)[key], what, bytes.fromhex(one.salt), content)


def test_a_change_of_a_status_is_recorded_and_its_text_only_committed_to(server: HandServer) -> None:
    with server.unit() as unit:
        unit.moves(
            HistoryLevel.JOB, JOB_ID, JobStatus.RUNNING, JobStatus.STOPPING, party=GUEST, reason=Reason.TASK_FAILED,
            message="table secret is missing", caused_by="host-10000",
        )

    (found,) = entries(server)
    assert read_entry(found.content) == {
        "v": 1, "kind": "status", "at": NOW, "job": JOB_ID, "level": "job", "party": "guest 9999", "old": "running",
        "new": "stopping", "reason": "task_failed", "cause": "host-10000",
        "message": read_entry(found.content)["message"],
    }  # fmt: skip
    assert b"secret" not in found.content
    assert found.text == "table secret is missing"
    assert opened(found, "message", "message", found.text.encode())
    assert (found.log, found.job_id) == ("own", JOB_ID)


def test_a_command_is_recorded_when_it_is_put_into_the_outbox(server: HandServer) -> None:
    with server.unit() as unit:
        unit.send(START)
    (found,), (stored,) = entries(server), commands(server)

    fields = read_entry(found.content)
    assert (found.log, fields["kind"], fields["command"], fields["seat"]) == (
        "with/10000", "sent", "start", "host 10000"
    )  # fmt: skip
    assert fields["number"] == number_of(bytes.fromhex(stored.salt))
    assert opened(found, "request", "request", request_content(START))


def test_an_answer_is_recorded_under_the_number_of_its_command(server: HandServer) -> None:
    answer = Answer(100, "no", {"a": 1}, is_recorded=True)
    with server.unit() as unit:
        unit.send(START)
    (stored,) = commands(server)
    with server.unit() as unit:
        record_answer(unit, stored, answer)

    sent, answered = (read_entry(one.content) for one in entries(server))
    assert answered["number"] == sent["number"]
    assert (answered["kind"], answered["retcode"], answered["acknowledged"]) == ("answered", 100, True)
    assert opened(entries(server)[1], "answer", "answer", answer_content(answer))


def test_both_parties_commit_to_the_same_values(server: HandServer) -> None:
    command, answer = replace(START, salt="ab" * 32), Answer(0, "success", {"b": 2})
    with server.unit() as unit:
        given = record_received(unit, command, "9999", answer)
    other = HandServer()
    object.__setattr__(other.context, "keeps_record", True)
    with other.unit() as unit:
        record_answer(unit, command, given)

    received, answered = read_entry(entries(server)[0].content), read_entry(entries(other)[0].content)
    assert given.is_recorded
    assert received["number"] == answered["number"]
    assert received["answer"] == answered["answer"]
    assert answered["acknowledged"] is True


@pytest.mark.parametrize(
    ("command", "answer", "said"),
    [
        (START, Answer(), None),
        (replace(START, kind=CommandKind.CREATE), Answer(),
         {"about": "admission", "command": "create", "outcome": "accepted", "retcode": 0}),
        (replace(START, kind=CommandKind.CREATE), Answer(103, "table secret is missing"),
         {"about": "admission", "command": "create", "outcome": "refused", "retcode": 103}),
        (START, Answer(108, "secret"),
         {"about": "permission", "command": "start", "outcome": "refused", "retcode": 108}),
        (START, Answer(429, "secret"), {"about": "quota", "command": "start", "outcome": "refused", "retcode": 429}),
        (replace(START, kind=CommandKind.APPLY), Answer(0, data={"why": "secret", "quota": "cores_share"}),
         {"about": "quota", "command": "resource/apply", "outcome": "refused", "retcode": 0, "quota": "cores_share"}),
    ],
)  # fmt: skip
def test_what_was_decided_about_a_command_is_recorded_beside_it(
    server: HandServer, command: Command, answer: Answer, said: dict[str, object] | None
) -> None:
    with server.unit() as unit:
        record_received(unit, command, "10000", answer)

    found = [one for one in entries(server) if one.kind == "decision"]
    if said is None:
        assert found == []
        return
    (one,) = found
    fields = dict(read_entry(one.content))
    assert one.log == "own"
    assert ("secret" in one.text) == (fields.pop("message", None) is not None)
    assert b"secret" not in one.content
    assert fields == {"v": 1, "kind": "decision", "at": NOW, "job": JOB_ID, "party": "10000", **said}


def test_a_flood_of_refusals_is_one_entry_a_minute(server: HandServer) -> None:
    due: list[Callable[[], None]] = []
    refusals = RefusalRecord(server.context, lambda _, act: due.append(act))
    for _ in range(500):
        refusals.note("10000", "party", 429)
    due.pop()()
    assert entries(server) == [], "the minute is not over"

    server.now += 60_000
    refusals.note("10000", "party", 108)
    due.pop()()
    (one,) = entries(server)
    assert read_entry(one.content) == {
        "v": 1, "kind": "refused", "at": server.now, "party": "10000", "route": "party", "retcode": 429, "count": 500,
        "first": NOW, "last": NOW,
    }  # fmt: skip
    server.now += 60_000
    due.pop()()
    assert (len(entries(server)), due) == (2, [])


@pytest.mark.parametrize("finish", [False, True])
def test_refusals_that_cannot_be_written_are_kept_and_written_later(server: HandServer, finish: bool) -> None:
    due: list[Callable[[], None]] = []
    writes = FailingWrites(server)
    refusals = RefusalRecord(writes, lambda _, act: due.append(act))
    for fails in (StorageUnavailable("locked"), DiskFull("full"), None):
        for _ in range(3):
            refusals.note("10000", "party", 429)
        server.now += 60_000
        writes.error = fails
        if not (finish and fails is None):
            due.pop()()
    if finish:
        refusals.finish()

    found = [read_entry(one.content) for one in entries(server)]
    assert sum(one["count"] for one in found) == 9
    assert {(one["first"], one["last"]) for one in found} == {(NOW, NOW + 60_000), (NOW + 120_000, NOW + 120_000)}
    assert [sentence_of(shown_entry(one)).split(":")[0] for one in entries(server)] == [
        "party 10000, 6 times within 2 minutes, at routes of a party",
        "party 10000, 3 times within a minute, at routes of a party",
    ]
    assert due == ([refusals.write] if finish else [])


def test_refusals_that_may_be_written_are_not_written_twice(server: HandServer) -> None:
    due: list[Callable[[], None]] = []
    writes = FailingWrites(server)
    refusals = RefusalRecord(writes, lambda _, act: due.append(act))
    refusals.note("10000", "party", 429)
    server.now += 60_000
    writes.error = CommitUnknown("gone")
    due.pop()()
    assert due == []


class FailingWrites:
    """Writes what a context writes, unless it has an error to raise instead."""

    def __init__(self, server: HandServer) -> None:
        self._context = server.context
        self.error: StorageFailed | None = None
        self.clock, self.fresh_salt = server.context.clock, server.context.fresh_salt

    def write(self, act: Callable[[Transaction], Any]) -> Any:
        if self.error is not None:
            raise self.error
        return self._context.write(act)


def test_requests_without_entries_of_their_own_are_one_entry_an_hour(server: HandServer) -> None:
    due: list[tuple[float, Callable[[], None]]] = []
    requests = RequestRecord(server.context, lambda seconds, act: due.append((seconds, act)))
    url = "https://10.0.0.2:9380/v1"
    for _ in range(720):
        requests.sent("10000", f"{url}/party/heartbeat", True)
        requests.received("10000", "/v1/party/heartbeat")
    requests.sent("10000", f"{url}/party/heartbeat", False)
    requests.sent("10000", f"{url}/party/{JOB_ID}/host/10000/align", True)
    requests.sent("10000", f"{url}/exchange/stream/call/guest/9999/host/10000", True)
    for path in (f"party/{JOB_ID}/host/10000/create", "party/batch", "party/history", "party/validate", "party/list/x"):
        requests.sent("10000", f"{url}/{path}", True)
        requests.received("10000", f"/v1/{path}")
    requests.received("10000", f"/v1/party/{JOB_ID}/host/10000/align")       # a command, with an entry of its own
    [(seconds, write)] = due
    assert seconds > 3600
    server.now += 3_600_000
    write()

    found = entries(server)
    assert {(one.log, one.kind) for one in found} == {("own", "requests")}
    assert [sentence_of(shown_entry(one)) for one in found] == [
        "720 requests (heartbeat) to party 10000", "720 requests (heartbeat) from party 10000",
        "1 request (heartbeat) to party 10000, without an answer", "1 request (align) to party 10000",
        "1 request (stream call) to party 10000",
    ]  # fmt: skip
    assert read_entry(found[2].content) == {
        "v": 1, "kind": "requests", "at": server.now, "party": "10000", "what": "heartbeat", "direction": "sent",
        "count": 1, "first": NOW, "last": NOW, "answered": False,
    }  # fmt: skip


def test_who_is_refused_by_the_gateway_is_recorded_with_an_address_that_is_only_committed_to(
    server: HandServer,
) -> None:
    due: list[Callable[[], None]] = []
    refusals = RefusalRecord(server.context, lambda _, act: due.append(act))
    refusals.note("", "party", 0, Cause.KEY, "10.0.0.2")
    refusals.note("10000", "party", 413, Cause.REQUEST)
    assert entries(server) == []

    refusals.finish()
    unknown, known = entries(server)
    fields = {"v": 1, "kind": "refused", "at": NOW, "route": "party", "count": 1, "first": NOW, "last": NOW}
    message = read_entry(unknown.content)["message"]
    assert read_entry(unknown.content) == {**fields, "cause": "key", "message": message}
    assert opened(unknown, "message", "message", b"10.0.0.2")
    assert read_entry(known.content) == {**fields, "cause": "request", "party": "10000", "retcode": 413}
    assert sentence_of(shown_entry(unknown)) == (
        "10.0.0.2 whom no key has proved, 1 time within a minute, at a listener for a party: refused: no known key"
    )
    assert sentence_of(shown_entry(known)) == (
        "party 10000, 1 time within a minute, at a listener for a party: refused: by the gateway, with 413"
    )


def test_a_party_that_joins_is_recorded_with_its_keys(server: HandServer) -> None:
    party = JoinedParty("10000", "https://10.0.0.2:9370", "one two three four five six", NOW, "alice", 0)
    keys = KeyList("10000", 1, NOW, ())
    save_joined_party(server.context, party, keys, SignedKeyList("", "content", ""), "AB" * 32)

    (one,) = entries(server)
    assert read_entry(one.content)["what"] == "party 10000 joined"
    assert one.text == fingerprint_of("AB" * 32)


def test_a_command_of_a_party_without_a_record_is_recorded_under_a_number_of_its_own(server: HandServer) -> None:
    with server.unit() as unit:
        record_received(unit, START, "10000", Answer())

    (found,) = entries(server)
    assert found.salt
    assert opened(found, "request", "request", request_content(START))


def test_a_person_is_a_random_id_in_entries(server: HandServer) -> None:
    with server.unit() as unit:
        note_act(unit, "table deleted", "table clients of namespace bank was deleted", "alice")
        note_act(unit, "table deleted", "another", "alice")
    with server.store.transaction() as tx:
        record_act_in(server.context, tx, "party 10000 revoked", "bob", "lost laptop")
        names = [tx.person_name(read_entry(one.content)["who"]) for one in tx.unsealed_entries(9)]

    assert names == ["alice", "alice", "bob"]
    assert all(b"alice" not in one.content and b"clients" not in one.content for one in entries(server))


def test_an_act_is_recorded_also_if_clients_need_not_sign(server: HandServer) -> None:
    with server.unit() as unit:
        note_who_asked(unit, JOB_ID, "stop as canceled requested", "")

    (found,) = entries(server)
    assert read_entry(found.content) == {
        "v": 1, "kind": "act", "at": NOW, "job": JOB_ID, "what": "stop as canceled requested"
    }  # fmt: skip


def test_what_is_undone_is_not_recorded(server: HandServer) -> None:
    with server.unit() as unit:
        with suppress(ZeroDivisionError), unit.part():
            unit.send(START)
            record_act(unit, "something", "")
            raise ZeroDivisionError
        record_act(unit, "something else", "")

    assert [read_entry(one.content)["what"] for one in entries(server)] == ["something else"]


def test_what_cannot_be_recorded_does_not_happen(server: HandServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("full")

    monkeypatch.setattr("fate_flow.store.memory.record.Record.add_to_record", fail)
    with pytest.raises(OSError, match="full"), server.unit() as unit:
        unit.send(START)

    assert commands(server) == ()


def test_nothing_is_recorded_while_the_switch_is_off() -> None:
    server = HandServer()
    with server.unit() as unit:
        unit.send(START)
        record_act(unit, "something", "alice")
        record_answer(unit, START, Answer())
        assert not record_received(unit, START, "9999", Answer()).is_recorded
        unit.moves(HistoryLevel.JOB, JOB_ID, None, JobStatus.READY)

    assert entries(server) == []
    assert commands(server)[0].salt == ""


def commands(server: HandServer) -> tuple[Command, ...]:
    with server.store.reading() as tx:
        return tx.commands_after(0)


@pytest.mark.parametrize("kind", [one.value for one in Kind])
def test_an_entry_of_another_party_without_its_fields_is_shown_by_its_kind(kind: str) -> None:
    for said in ({"kind": kind}, {"kind": kind, "port": "p", "count": "x", "first": None, "party": 1}):
        assert sentence_of(ShownEntry(OWN_LOG, 1, 0, "", said, ""))
