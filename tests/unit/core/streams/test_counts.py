"""How much streams have carried, added up by port and other party."""

from __future__ import annotations

from hashlib import sha256

from fate_flow.core.model.spec import Party
from fate_flow.core.streams.counts import MOST_DIGESTS, PortCount, by_port
from fate_flow.core.streams.stream import Carried

HOST = Party("host", "10000")


def carried(sent: bytes, received: bytes, *, keeps_digests: bool) -> Carried:
    found = Carried(keeps_digests=keeps_digests)
    for at in range(len(sent)):
        found.add_sent(sent[at : at + 1])
    found.add_received(memoryview(received))
    return found


def test_each_stream_has_its_digests() -> None:
    count = PortCount("fl", HOST).with_stream(carried(b"abc", b"", keeps_digests=True), 1.0)
    count = count.with_stream(carried(b"", b"xy", keeps_digests=True), 2.0)
    empty, abc, xy = (sha256(one).hexdigest() for one in (b"", b"abc", b"xy"))
    assert count == PortCount("fl", HOST, 2, 3, 2, 3.0, ((0, empty), (3, abc)), ((0, empty), (2, xy)))


def test_without_a_record_there_are_no_digests() -> None:
    count = PortCount("fl", HOST).with_stream(carried(b"abc", b"x", keeps_digests=False), 1.0)
    assert count == PortCount("fl", HOST, 1, 3, 1, 1.0)


def test_of_many_streams_the_largest_have_digests() -> None:
    """The other party decides how many there are, and in which order they end."""
    count = PortCount("fl", HOST).with_stream(carried(b"first", b"", keeps_digests=True), 0.0)
    for _ in range(MOST_DIGESTS + 5):
        count = count.with_stream(carried(b"", b"", keeps_digests=True), 0.0)
    count = count.with_stream(carried(b"the last", b"", keeps_digests=True), 0.0)
    assert (count.streams, count.sent) == (MOST_DIGESTS + 7, len(b"firstthe last"))
    assert len(count.sent_each) == len(count.received_each) == MOST_DIGESTS
    assert [size for size, _ in count.sent_each[-3:]] == [0, len(b"first"), len(b"the last")]


def test_counts_of_one_port_and_party_are_one() -> None:
    fl, other = PortCount("fl", HOST, 1, 3, 2, 1.0, ((3, "ab"),)), PortCount("mesh", HOST, 1)
    assert by_port([fl, other, fl]) == (PortCount("fl", HOST, 2, 6, 4, 2.0, ((3, "ab"), (3, "ab"))), other)
