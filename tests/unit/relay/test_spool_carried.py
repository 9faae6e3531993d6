"""What channels have carried: counted with each chunk, once, at both ends."""

from __future__ import annotations

import errno
import json
import os
from hashlib import sha256
from pathlib import Path

import pytest

from fate_flow.core.model.spec import Party
from fate_flow.core.record.carried import NOT_KEPT, ChannelCount, Direction
from fate_flow.relay.spool import Spool, SpoolLimits
from fate_flow.relay.spool_result import Problem, Refusal
from tests.kit.relay.spool_calls import AGAIN, GUEST, HERE, PEERS, push

CHUNKS = [(b"one", False), (b"", True), (b"three", True)]
FROM_GUEST = Party(*GUEST)


def digest_of(*chunks: tuple[bytes, bool]) -> bytes:
    """Computed by the words of the documentation, not by the code."""
    found = bytes(32)
    for data, last in chunks:
        found = sha256(found + bytes([last]) + data).digest()
    return found


def a_counting_spool(root: Path, *, keeps_digests: bool = True) -> Spool:
    spool = Spool(root / "spool", SpoolLimits(), lambda: None, keeps_digests=keeps_digests)
    spool.open(HERE, PEERS, "token")
    return spool


def put_all(spool: Spool, topic: str = "t", first: int = 0) -> None:
    for seq, (data, last) in enumerate(CHUNKS[first:], first):
        spool.put(HERE, topic, GUEST, seq, last, data)


def test_what_was_stored_is_counted_once_and_after_it_was_read(tmp_path: Path) -> None:
    spool = a_counting_spool(tmp_path)
    assert tuple(spool.carried(HERE)) == ()
    put_all(spool, "a/b\udc80")
    assert spool.put(HERE, "a/b\udc80", GUEST, 2, True, b"three") == AGAIN
    spool.get(HERE, "a/b\udc80", GUEST, 3)
    push(spool, 0, b"x" * 5000, topic="other")
    first, second = sorted(spool.carried(HERE), key=lambda one: one.topic)
    assert first == ChannelCount(Direction.RECEIVED, FROM_GUEST, "a/b\udc80", 3, 2, 8, digest_of(*CHUNKS))
    assert (second.topic, second.size, second.digest) == ("other", 5000, digest_of((b"x" * 5000, True)))
    spool.release(HERE, "other", GUEST)
    assert second in spool.carried(HERE)
    spool.close(HERE)
    assert tuple(spool.carried(HERE)) == ()


@pytest.mark.parametrize("is_kept_first", [True, False])
def test_a_channel_that_was_not_followed_all_the_time_has_no_digest(tmp_path: Path, is_kept_first: bool) -> None:
    for first, keeps_digests in ((0, is_kept_first), (1, not is_kept_first), (2, is_kept_first)):
        data, last = CHUNKS[first]
        spool = a_counting_spool(tmp_path, keeps_digests=keeps_digests)
        spool.put(HERE, "t", GUEST, first, last, data)
    [found] = spool.carried(HERE)
    assert (found.messages, found.size, found.digest, found.is_complete) == (2, 8, NOT_KEPT, True)


def test_a_channel_of_an_older_release_goes_on_and_is_left_out(tmp_path: Path) -> None:
    spool = a_counting_spool(tmp_path)
    push(spool, 0)
    [path] = (one for one in Path(spool._root).glob("sessions/*/*/*") if len(one.name) == 40)
    os.truncate(path, 32)
    push(spool, 1)
    assert tuple(spool.carried(HERE)) == ()
    assert push(spool, 1) == AGAIN


def note_sent(spool: Spool, seq: int) -> Refusal | None:
    return spool.note_sent(HERE, "t", GUEST, seq, CHUNKS[seq][1], CHUNKS[seq][0])


def test_what_was_sent_is_counted_as_at_the_receiver(tmp_path: Path) -> None:
    sender, receiver = a_counting_spool(tmp_path / "a"), a_counting_spool(tmp_path / "b")
    for seq in (0, 0, 1, 2, 1):
        assert note_sent(sender, seq) is None
    put_all(receiver)
    [sent], [received] = sender.carried(HERE), receiver.carried(HERE)
    assert (sent.direction, sent.other) == (Direction.SENT, FROM_GUEST)
    assert (sent.chunks, sent.messages, sent.size, sent.digest) == (3, 2, 8, received.digest)
    assert sender.used_bytes() == 0
    sender.close(HERE)
    note_sent(sender, 2)
    assert tuple(sender.carried(HERE)) == ()


def test_after_a_gap_in_what_was_sent_there_is_no_digest(tmp_path: Path) -> None:
    """The server was killed between the answer of the receiver and the count."""
    spool = a_counting_spool(tmp_path)
    note_sent(spool, 0)
    note_sent(spool, 2)
    [found] = spool.carried(HERE)
    assert (found.chunks, found.digest, found.is_complete) == (3, NOT_KEPT, False)
    assert set(json.loads(found.as_json())) == {"topic", "chunks", "sha256"}


def test_what_was_sent_before_the_record_was_switched_on_is_not_counted_as_nothing(tmp_path: Path) -> None:
    for seq, keeps_digests in enumerate((False, False, True)):
        note_sent(a_counting_spool(tmp_path, keeps_digests=keeps_digests), seq)
    [found] = a_counting_spool(tmp_path).carried(HERE)
    assert (found.chunks, found.is_complete) == (3, False)


def test_a_channel_is_counted_on_while_the_record_is_switched_off(tmp_path: Path) -> None:
    for seq, keeps_digests in enumerate((True, False, False)):
        note_sent(a_counting_spool(tmp_path, keeps_digests=keeps_digests), seq)
    [found] = a_counting_spool(tmp_path).carried(HERE)
    assert (found.chunks, found.messages, found.size, found.digest) == (3, 2, 8, digest_of(*CHUNKS))


def test_without_a_record_nothing_is_noted_of_what_is_sent(tmp_path: Path) -> None:
    spool = a_counting_spool(tmp_path, keeps_digests=False)
    note_sent(spool, 0)
    assert tuple(spool.carried(HERE)) == ()


def test_what_is_sent_is_refused_while_it_cannot_be_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = a_counting_spool(tmp_path)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        refusal = note_sent(spool, 0)
        assert refusal is not None
        assert refusal.problem is Problem.FULL
    assert note_sent(spool, 0) is None
    assert next(spool.carried(HERE)).digest == digest_of(CHUNKS[0])
