"""One stream with both its ends, in memory: order, half-close, back-pressure, signs of life, and its end."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_flow.core.streams.frame_pace import FRAMES_PER_SECOND, FramePace
from fate_flow.core.streams.frames import ALIVE, END, LONGEST, MOST_UNREAD, WINDOW, credit_frame, data_head, error_frame
from fate_flow.core.streams.stream import MOST_AT_ONCE, USUAL, Stream
from tests.kit.core.streams import HandEnd


@dataclass
class Half:
    """The stream in one gateway."""

    line: HandEnd = field(default_factory=HandEnd)
    worker: HandEnd = field(default_factory=HandEnd)

    def __post_init__(self) -> None:
        self.stream = Stream(self.line, now=0.0)

    def connect(self) -> None:
        self.stream.connected(self.worker)


def pair() -> tuple[Half, Half]:
    halves = Half(), Half()
    for one in halves:
        one.connect()
    return halves


def passed_on(one: Half, other: Half, count: int | None = None) -> None:
    """What one gateway has written reaches the other."""
    other.stream.from_line(one.line.take(count))


def settled(one: Half, other: Half) -> None:
    while one.line.written or other.line.written:
        passed_on(one, other)
        passed_on(other, one)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 1), st.binary(min_size=1, max_size=50)),
        st.tuples(st.just("pass"), st.integers(0, 1), st.integers(1, 40)),
        st.tuples(st.just("end"), st.integers(0, 1), st.just(b"")),
        st.tuples(st.just("full"), st.integers(0, 1), st.booleans()),
    ),
    max_size=40,
)


@settings(max_examples=60)
@given(STEPS)
def test_each_worker_reads_what_the_other_wrote_and_then_its_end(steps: list[tuple[str, int, object]]) -> None:
    halves, sent, ended = pair(), [b"", b""], [False, False]
    for what, number, value in steps:
        one, other = halves[number], halves[1 - number]
        if what == "send" and not ended[number]:
            assert isinstance(value, bytes)
            sent[number] += value
            one.stream.from_worker(value)
        elif what == "pass":
            assert isinstance(value, int)
            passed_on(one, other, value)
        elif what == "end" and not ended[number]:
            ended[number] = True
            one.stream.worker_ends()
        elif what == "full":
            one.stream.worker_is_full(bool(value))
    for one in halves:
        one.stream.worker_is_full(False)
    settled(*halves)
    for number, one in enumerate(halves):
        assert bytes(halves[1 - number].worker.written) == sent[number]
        assert halves[1 - number].worker.has_eof == ended[number]
        assert one.stream.is_over == all(ended) == one.line.is_closed
        assert (one.stream.carried.sent, one.stream.carried.received) == tuple(
            len(sent[way]) for way in (number, 1 - number)
        )
        assert one.stream.why_ended == ""


def test_a_worker_is_read_only_as_far_as_the_other_one_takes() -> None:
    one, other = pair()
    other.stream.worker_is_full(True)
    for _ in range(WINDOW // LONGEST):
        assert one.worker.is_reading
        one.stream.from_worker(bytes(LONGEST))
        settled(one, other)
    assert not one.worker.is_reading                # two megabytes are under way that nobody takes
    other.stream.worker_is_full(False)
    settled(one, other)
    assert one.worker.is_reading
    assert len(other.worker.written) == WINDOW


def test_a_full_connection_pauses_the_worker() -> None:
    one, _ = pair()
    one.stream.line_is_full(True)
    assert not one.worker.is_reading
    one.stream.line_is_full(False)
    assert one.worker.is_reading


def test_signs_of_life_pass_while_a_worker_takes_nothing() -> None:
    one, other = pair()
    other.stream.worker_is_full(True)
    one.stream.from_worker(bytes(WINDOW))
    settled(one, other)
    now = 0.0
    for _ in range(200):
        now += USUAL.alive_seconds
        for half, peer in ((one, other), (other, one)):
            half.stream.tick(now)
            assert bytes(half.line.written) == ALIVE
            passed_on(half, peer)
            peer.stream.heard(now)
    assert not one.stream.is_over
    assert not other.stream.is_over


def test_a_silent_server_ends_the_stream_with_a_reason() -> None:
    one, _ = pair()
    one.stream.tick(USUAL.silence_seconds)
    assert not one.stream.is_over
    one.stream.tick(USUAL.silence_seconds + 1)
    assert one.stream.why_ended == "nothing has come from the other server for 60 s"
    assert one.worker.is_aborted


def test_what_comes_before_the_worker_listens_is_kept_for_it() -> None:
    one, other = Half(), Half()
    one.connect()
    one.stream.from_worker(b"early")
    one.stream.worker_ends()
    passed_on(one, other)
    assert bytes(other.worker.written) == b""
    other.connect()
    assert bytes(other.worker.written) == b"early"
    assert other.worker.has_eof
    assert other.worker.is_reading


def test_the_reason_of_an_end_reaches_the_other_gateway_and_its_worker_sees_a_reset() -> None:
    one, other = pair()
    one.stream.end("the attempt has ended at host 10000")
    passed_on(one, other)
    assert one.stream.why_ended == other.stream.why_ended == "the attempt has ended at host 10000"
    assert one.worker.is_aborted
    assert other.worker.is_aborted


def test_a_worker_that_goes_before_both_ends_is_a_reset_for_the_other() -> None:
    one, other = pair()
    one.stream.worker_is_gone("the worker has ended its connection")
    passed_on(one, other)
    assert other.worker.is_aborted
    assert other.stream.why_ended == "the worker has ended its connection"


def test_a_worker_that_connects_too_late_sees_a_reset() -> None:
    half = Half()
    half.stream.line_is_gone("gone")
    half.connect()
    assert half.worker.is_aborted


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (END + END, "ends its direction twice"),
        (END + data_head(1) + b"x", "data after its end"),
        (credit_frame(1), "more credit than it got"),
        (b"\x00\x00\x00\x00\x00", "unknown kind 0"),
        (error_frame("no more"), "no more"),
        (error_frame(""), "the other server has ended the stream"),
    ],
)
def test_a_gateway_that_breaks_the_rules_ends_its_stream(sent: bytes, why: str) -> None:
    half = Half()
    half.connect()
    half.stream.from_line(sent)
    assert why in half.stream.why_ended
    assert half.line.is_closed
    assert half.worker.is_aborted


def test_a_gateway_that_ignores_credit_ends_its_stream() -> None:
    half = Half()
    half.connect()
    half.stream.worker_is_full(True)
    for _ in range(MOST_UNREAD // LONGEST):
        half.stream.from_line(data_head(LONGEST) + bytes(LONGEST))
    assert not half.stream.is_over
    half.stream.from_line(data_head(1) + b"x")
    assert "that nobody has taken" in half.stream.why_ended


@dataclass(eq=False)
class Pieces(HandEnd):
    """Counts the pieces that are written to it: each takes memory of its own while it waits."""

    pieces: int = 0

    def write(self, data: bytes | memoryview) -> None:
        self.pieces += 1
        super().write(data)


TINY = b"".join(data_head(1) + b"%c" % one for one in b"tiny")


def test_tiny_frames_are_joined() -> None:
    worker = Pieces()
    stream = Stream(HandEnd(), now=0.0)
    stream.from_line(TINY)
    stream.from_line(TINY)
    stream.connected(worker)
    assert (bytes(worker.written), worker.pieces) == (b"tinytiny", 1)
    stream.from_line(TINY + data_head(5000) + bytes(5000) + TINY)
    assert (len(worker.written), worker.pieces) == (5016, 4)      # the large one is not copied
    stream.worker_is_full(True)
    for _ in range(10):
        stream.from_line(TINY)
    assert worker.pieces == 4
    stream.worker_is_full(False)
    assert (len(worker.written), worker.pieces) == (5016 + 40, 5)
    stream.worker_is_full(True)
    stream.from_line(TINY + END)
    assert (bytes(worker.written[-4:]), worker.has_eof) == (b"tiny", True)


def test_frames_beyond_a_number_wait_until_others_had_their_turn() -> None:
    half = Half()
    half.connect()
    assert (half.stream.from_line(ALIVE * (2 * MOST_AT_ONCE) + TINY), half.stream.has_more) == (MOST_AT_ONCE, True)
    assert (half.stream.go_on(), half.stream.has_more) == (MOST_AT_ONCE, True)
    assert bytes(half.worker.written) == b""
    assert (half.stream.go_on(), half.stream.has_more) == (len("tiny"), False)
    assert bytes(half.worker.written) == b"tiny"


def test_frames_are_taken_at_a_rate() -> None:
    pace = FramePace(now=0.0)
    assert pace.spend(0.0, FRAMES_PER_SECOND) == 0.0
    assert pace.spend(0.0, FRAMES_PER_SECOND // 2) == 0.5
    assert pace.spend(0.5, 0) == 0.0
    assert pace.spend(100.0, FRAMES_PER_SECOND + 3) == pytest.approx(3 / FRAMES_PER_SECOND)


class Counts(HandEnd):
    """Counts what is written to it, and keeps nothing."""

    count = 0

    def write(self, data: bytes | memoryview) -> None:
        self.count += len(data)


@dataclass(eq=False)
class Direct(HandEnd):
    """A connection that hands everything over at once."""

    other: Stream | None = None

    def write(self, data: bytes | memoryview) -> None:
        if self.other is not None and not self.is_closed:
            self.other.from_line(bytes(data) if isinstance(data, memoryview) else data)


def test_no_number_of_bytes_ends_a_stream() -> None:
    """More than 32 bits can count pass in one direction."""
    lines = Direct(), Direct()
    one, other = (Stream(line, 0.0) for line in lines)
    lines[0].other, lines[1].other = other, one
    sender, receiver = HandEnd(), Counts()
    one.connected(sender)
    other.connected(receiver)
    piece, pieces = bytes(LONGEST), (1 << 32) // LONGEST + 2
    for _ in range(pieces):
        assert sender.is_reading
        one.from_worker(piece)
    one.worker_ends()
    assert one.carried.sent == other.carried.received == receiver.count == pieces * LONGEST > 1 << 32
    assert receiver.has_eof
    assert not one.is_over
    one.from_line(data_head(5) + b"later")           # the other direction is still open
    assert one.carried.received == 5
