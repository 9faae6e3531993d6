"""What the record says of the exchange: what an attempt of a task has got from other seats, and sent to them."""

from __future__ import annotations

import json

import pytest

from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.model.job import CommandKind
from fate_flow.core.model.status import TaskStatus
from fate_flow.core.record.carried import ChannelCount, Direction
from fate_flow.core.record.commitment import opens
from fate_flow.core.record.entry import read_entry
from fate_flow.core.record.log import StoredEntry
from tests.kit.services.hand_server import HandServer, worker_of
from tests.kit.services.party_commands import RUN, a_host, task_command
from tests.kit.services.sights import FAILED
from tests.kit.values import GUEST, JOB_ID

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
    first, second = json.loads(one.text)
    assert first == {"topic": "a", "chunks": 1, "messages": 1, "bytes": 5, "sha256": "02" * 32}
    assert (second["topic"], second["sha256"]) == ("b\udc80", "")
    assert b"02020202" not in one.content


def test_many_channels_are_in_several_entries() -> None:
    channels = [ChannelCount(Direction.SENT, GUEST, f"{number:04}", 1, 1, 2) for number in range(501)]
    found = [read_entry(one.content)["channels"] for one in exchanges_in(after_a_share(*reversed(channels)))]
    assert found == [500, 1]


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
