"""What the record says of the exchange: what an attempt of a task has got from other seats, and sent to them,
as messages and as streams."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest

from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.model.job import CommandKind, TaskKey
from fate_flow.core.model.status import TaskStatus
from fate_flow.core.record.carried import ChannelCount, Direction
from fate_flow.core.record.commitment import opens
from fate_flow.core.record.entry import read_entry
from fate_flow.core.record.log import StoredEntry
from fate_flow.core.record.sentences import sentence_of
from fate_flow.core.record.shown import shown_entry
from fate_flow.core.streams.counts import PortCount
from fate_flow.services.context.effects import CloseExchange, carry_out
from tests.kit.services.hand_server import HandServer, worker_of
from tests.kit.services.party_commands import RUN, a_host, task_command
from tests.kit.services.sights import FAILED
from tests.kit.values import GUEST, HOST, JOB_ID, OTHER

SENT = ChannelCount(Direction.SENT, GUEST, "b", 1, 1, 7, b"\1" * 32)
CHANNELS = (
    SENT,
    ChannelCount(Direction.RECEIVED, GUEST, "b\udc80", 3, 2, 10),
    ChannelCount(Direction.RECEIVED, GUEST, "a", 1, 1, 5, b"\2" * 32),
)


def after_a_share(*channels: ChannelCount, keeps_record: bool = True) -> HandServer:
    """A host whose share of task a has ended, after its exchange has carried this."""
    host = a_host(*RUN, task_command(CommandKind.TASK_START))
    object.__setattr__(host.context, "keeps_record", keeps_record)
    host.exchange.channels = channels
    host.engine.sights[worker_of(host)] = FAILED
    host.watch()
    return host


def exchanges_in(host: HandServer) -> list[StoredEntry]:
    with host.store.reading() as tx:
        return [one for one in tx.unsealed_entries(100) if one.kind == "exchange"]


def test_what_the_exchange_has_carried_is_recorded_by_seat_and_direction() -> None:
    received, sent = exchanges_in(after_a_share(*CHANNELS))
    fields = read_entry(received.content)
    assert (received.log, received.job_id) == ("own", JOB_ID)
    assert (fields["party"], fields["task"], fields["direction"], fields["other"]) == (
        "host 10000", "a", "received", "guest 9999"
    )  # fmt: skip
    assert (fields["channels"], fields["messages"], fields["bytes"]) == (2, 3, 15)
    said = read_entry(sent.content)
    assert (said["direction"], said["channels"], said["messages"], said["bytes"]) == ("sent", 1, 1, 7)


def test_topics_and_digests_are_committed_to() -> None:
    one = exchanges_in(after_a_share(*CHANNELS))[0]
    assert opens(read_entry(one.content)["message"], "message", bytes.fromhex(one.salt), one.text.encode())
    first, second = json.loads(one.text)["listed"]
    assert first == {"topic": "a", "chunks": 1, "messages": 1, "bytes": 5, "sha256": "02" * 32}
    assert (second["topic"], second["sha256"]) == ("b\udc80", "")
    assert b"02020202" not in one.content


def test_of_many_channels_the_largest_are_listed_and_a_digest_says_the_rest() -> None:
    """How many there are, and what they are called, is up to the other party."""
    name = "\U0001f600" * 252
    many = [ChannelCount(Direction.RECEIVED, OTHER, f"{name}{number:04}", 1, 1, number) for number in range(900)]
    few = [ChannelCount(Direction.RECEIVED, GUEST, f"{number:04}", 1, 1, 850 + number) for number in range(10)]
    other, one = exchanges_in(after_a_share(*many[450:], *few, *many[:450]))
    fields, said = read_entry(one.content), json.loads(one.text)
    assert (fields["channels"], fields["messages"], fields["bytes"]) == (900, 900, 899 * 450)
    assert [found["bytes"] for found in said["listed"]] == list(range(710, 900))
    assert len(json.loads(other.text)["listed"]) == 10
    assert said["all"] == digest_of(many)
    assert json.loads(other.text)["all"] == digest_of(few) != digest_of(few[1:])
    assert len(one.text) + len(other.text) < 700_000


def digest_of(channels: list[ChannelCount]) -> str:
    """By the words of docs/reference/record-format.md, not by the code."""
    documents = [
        f'{{"bytes":{one.size},"chunks":{one.chunks},"messages":{one.messages},"sha256":"",'
        f'"topic":{json.dumps(one.topic)}}}'
        for one in channels
    ]
    return sha256(b"".join(sorted(sha256(one.encode()).digest() for one in documents))).hexdigest()


def test_channels_that_were_not_counted_from_the_beginning_are_marked() -> None:
    """The receiver counts all of their messages, so a number here would be another one."""
    [one] = exchanges_in(after_a_share(SENT, ChannelCount(Direction.SENT, GUEST, "a", 3, 1, 5)))
    fields = read_entry(one.content)
    assert (fields["channels"], fields["partial"], fields["messages"], fields["bytes"]) == (2, 1, 1, 7)
    assert json.loads(one.text)["listed"][0] == {"topic": "a", "chunks": 3, "sha256": ""}
    assert "partial" not in read_entry(exchanges_in(after_a_share(SENT))[0].content)
    assert sentence_of(shown_entry(one)) == (
        "host 10000, a: 1 messages, 7 bytes in 2 channels (without 1 of them, which were not counted from the "
        "beginning) to guest 9999"
    )


def test_nothing_is_recorded_of_a_share_without_messages_or_without_a_record() -> None:
    assert exchanges_in(after_a_share()) == []
    assert exchanges_in(after_a_share(*CHANNELS, keeps_record=False)) == []


def test_a_share_does_not_end_while_its_channels_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    host = a_host(*RUN, task_command(CommandKind.TASK_START))
    object.__setattr__(host.context, "keeps_record", True)
    host.engine.sights[worker_of(host)] = FAILED

    def fails(*_: object) -> tuple[ChannelCount, ...]:
        raise StorageFailed("the disk cannot be read")

    with monkeypatch.context() as patch:
        patch.setattr(host.exchange, "carried", fails)
        with pytest.raises(StorageFailed):
            host.watch()
    with host.store.reading() as tx:
        assert {one.party_status for one in tx.tasks(JOB_ID) if one.key.name == "a"}.isdisjoint({TaskStatus.FAILED})
    host.exchange.channels = CHANNELS
    host.watch()
    assert len(exchanges_in(host)) == 2


def test_what_streams_have_carried_is_recorded_by_port_and_direction() -> None:
    key = TaskKey(JOB_ID, "a", 0, HOST)
    host = a_host(*RUN)
    object.__setattr__(host.context, "keeps_record", True)
    host.exchange.stream_counts = (PortCount("fl", GUEST, 2, 5, 7, 1.5, ((5, "ab"),), ((7, "cd"), (0, "ef"))),)
    carry_out(host.context, CloseExchange(key, "abcdef01"))
    received, sent = ({**read_entry(one.content), **json.loads(one.text)} for one in exchanges_in(host))
    assert (sent["party"], sent["task"], sent["other"], sent["port"]) == ("host 10000", "a", "guest 9999", "fl")
    assert (sent["direction"], sent["streams"], sent["partial"], sent["bytes"]) == ("sent", 2, 1, 5)
    assert sent["listed"] == [{"bytes": 5, "sha256": "ab"}]
    assert (received["direction"], received["bytes"]) == ("received", 7)
    assert received["listed"] == [{"bytes": 0, "sha256": "ef"}, {"bytes": 7, "sha256": "cd"}]
    assert "partial" not in received
    assert sentence_of(shown_entry(exchanges_in(host)[1])) == (
        "host 10000, a: 5 bytes in 2 streams of port fl (without digests of 1 of them) to guest 9999"
    )
