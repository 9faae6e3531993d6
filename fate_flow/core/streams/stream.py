"""One stream: bytes of a worker here and a worker of another party, between a socket and a connection of two gateways.

Nothing here waits or reads a clock, so the same code runs in the gateway and in its tests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Protocol

from fate_flow.core.streams.frames import (
    ALIVE,
    END,
    LONGEST,
    MOST_UNREAD,
    WINDOW,
    BadFrame,
    Frame,
    FrameReader,
    Kind,
    credit_frame,
    data_head,
    error_frame,
)

_RETURNED_AT_ONCE = WINDOW // 8
_SMALL = 4096
"""Fewer bytes are joined before they are written: each piece that waits for a worker costs more than it has."""
MOST_AT_ONCE = 1000
"""Frames that are taken before others have their turn: some milliseconds."""


@dataclass(frozen=True)
class SignsOfLife:
    """`alive_seconds`: the longest time in which a gateway sends nothing on a stream. `silence_seconds`: a stream ends
    when nothing has come from the other gateway for so long."""

    alive_seconds: float = 15.0
    silence_seconds: float = 60.0


USUAL = SignsOfLife()


class End(Protocol):
    """One of the two ends of a stream: the worker's socket, or the connection to the other gateway."""

    def write(self, data: bytes | memoryview) -> None:
        """Send this, now or later. Nothing happens after `close` or `abort`."""
        ...

    def write_eof(self) -> None:
        """Send no more after what was written."""
        ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        """End the connection after everything was sent."""
        ...

    def abort(self) -> None:
        """End the connection at once: what is at the other end of the worker's socket sees a reset."""
        ...


class Carried:
    """What a stream has carried: bytes from the worker here, and to it, with the SHA-256 of each if it
    `keeps_digests`."""

    def __init__(self, *, keeps_digests: bool = False) -> None:
        self.sent = self.received = 0
        self._of_sent = hashlib.sha256() if keeps_digests else None
        self._of_received = hashlib.sha256() if keeps_digests else None

    def add_sent(self, data: bytes) -> None:
        self.sent += len(data)
        if self._of_sent is not None:
            self._of_sent.update(data)

    def add_received(self, data: bytes | memoryview) -> None:
        self.received += len(data)
        if self._of_received is not None:
            self._of_received.update(data)

    @property
    def directions(self) -> tuple[tuple[int, str], tuple[int, str]]:
        """How many bytes were sent, and received, each with their digest in hex; empty if it is not kept."""
        of_sent, of_received = (one.hexdigest() if one else "" for one in (self._of_sent, self._of_received))
        return (self.sent, of_sent), (self.received, of_received)


@dataclass(eq=False)
class Stream:
    """Carries bytes from `worker` to `line`, and back. `worker` is None until it is connected."""

    line: End
    now: float
    worker: End | None = None
    signs: SignsOfLife = USUAL
    carried: Carried = field(default_factory=Carried)
    why_ended: str = ""                # empty while it is open, and if both sides ended it as they should
    is_over: bool = False

    def __post_init__(self) -> None:
        self._frames = FrameReader()
        self._credit = WINDOW
        self._left: Iterator[Frame] = iter(())   # what has come and was not taken
        self.has_more = False          # whether that may have frames
        self._held = bytearray()       # for the worker, and not written to it yet
        self._unread = 0               # bytes that are here, those of `_held` too, and that the worker has not taken
        self._worker_is_full = False
        self._line_is_full = False
        self._worker_has_ended = False
        self._peer_has_ended = False
        self._wrote_at = self._heard_at = self.now

    # ------------------------------------------------------------------ the worker

    def connected(self, worker: End) -> None:
        """Use this end as the worker from now on."""
        if self.is_over:
            worker.abort()
            return
        self.worker = worker
        self._pass_on()
        if self._peer_has_ended:
            worker.write_eof()
        if not self._worker_is_full:
            self._return_credit()
        self._pace()

    def from_worker(self, data: bytes) -> None:
        self.carried.add_sent(data)
        self._credit -= len(data)
        for start in range(0, len(data), LONGEST):
            piece = data[start : start + LONGEST]
            self._write(data_head(len(piece)) + piece)
        self._pace()

    def worker_ends(self) -> None:
        """The worker sends no more; it may still read."""
        self._worker_has_ended = True
        self._write(END)
        self._finish_if_done()

    @property
    def is_draining(self) -> bool:
        """Whether there may be bytes of a worker that has ended which the other side has not got: it said all that it
        had to say, or it was not read to its end because the other worker does not keep up."""
        is_held_up = self._credit <= 0 or self._line_is_full
        return not self.is_over and self.worker is not None and (self._worker_has_ended or is_held_up)

    def worker_is_full(self, is_full: bool) -> None:
        """Note whether what was written to the worker waits."""
        self._worker_is_full = is_full
        if not is_full:
            self._return_much()
            self._pass_on_if_it_fits()

    def worker_is_gone(self, why: str) -> None:
        """The worker's socket is closed. That both directions had ended before is no error."""
        if not (self._worker_has_ended and self._peer_has_ended):
            self.end(why)

    # ------------------------------------------------------------------ the other gateway

    def from_line(self, data: bytes) -> int:
        """Take the frames that have come; return how many. If there are more than `MOST_AT_ONCE`, `go_on` takes those
        that are left."""
        self._left = chain(self._left, self._frames.read(data)) if self.has_more else self._frames.read(data)
        return self.go_on()

    def go_on(self) -> int:
        """Take some of the frames that have come and were not taken, if it `has_more`; return how many."""
        count = 0
        try:
            for frame in islice(self._left, MOST_AT_ONCE):
                if self.is_over:
                    break
                count += 1
                self._take(frame.kind, frame.content, frame.credit if frame.kind is Kind.CREDIT else 0)
        except BadFrame as error:
            self.end(str(error))
        self.has_more = count == MOST_AT_ONCE and not self.is_over
        if self._held:
            self._pass_on_if_it_fits()
        return count

    def heard(self, now: float) -> None:
        self._heard_at = now

    def line_is_full(self, is_full: bool) -> None:
        """Note whether what was written to the connection waits."""
        self._line_is_full = is_full
        self._pace()

    def line_is_gone(self, why: str) -> None:
        self._stop(why)

    def _take(self, kind: Kind, content: bytes | memoryview, credit: int) -> None:
        if kind is Kind.DATA:
            self._to_worker(content)
        elif kind is Kind.CREDIT:
            self._credit += credit
            if self._credit > WINDOW:
                raise BadFrame("the other server returns more credit than it got")
            self._pace()
        elif kind is Kind.END:
            if self._peer_has_ended:
                raise BadFrame("the other server ends its direction twice")
            self._peer_has_ended = True
            if self.worker is not None:
                self._pass_on()
                self.worker.write_eof()
            self._finish_if_done()
        elif kind is Kind.ERROR:
            self._stop(bytes(content).decode("utf-8", "replace") or "the other server has ended the stream")

    def _to_worker(self, content: bytes | memoryview) -> None:
        if self._peer_has_ended:
            raise BadFrame("the other server sends data after its end")
        self.carried.add_received(content)
        self._unread += len(content)
        if self._unread > MOST_UNREAD:
            raise BadFrame(f"the other server sends more than {MOST_UNREAD} bytes that nobody has taken")
        if self.worker is None or len(content) < _SMALL:
            self._held += content
            return
        if self._held:
            self._pass_on()
        self.worker.write(content)
        if self._unread >= _RETURNED_AT_ONCE:
            self._return_much()

    def _pass_on_if_it_fits(self) -> None:
        if self._held and not self._worker_is_full and not self.is_over:
            self._pass_on()
            self._return_much()

    def _pass_on(self) -> None:
        """Write to the worker what is held for it."""
        if self._held and self.worker is not None:
            held, self._held = self._held, bytearray()
            self.worker.write(memoryview(held))

    # ------------------------------------------------------------------ both

    def tick(self, now: float) -> None:
        """Send a sign of life if it is time; end the stream if the other gateway gives none."""
        if self.is_over:
            return
        if now - self._heard_at > self.signs.silence_seconds:
            self.end(f"nothing has come from the other server for {self.signs.silence_seconds:g} s")
        elif now - self._wrote_at >= self.signs.alive_seconds:
            self._wrote_at = now
            self._write(ALIVE)

    def end(self, why: str) -> None:
        """End the stream here, and tell the other gateway why."""
        if not self.is_over:
            self._write(error_frame(why))
            self._stop(why)

    def _stop(self, why: str) -> None:
        if self.is_over:
            return
        self.is_over, self.why_ended = True, why
        if self.worker is not None:
            self.worker.abort()
        self.line.close()

    def _finish_if_done(self) -> None:
        if self._worker_has_ended and self._peer_has_ended and not self.is_over:
            self.is_over = True
            if self.worker is not None:
                self.worker.close()
            self.line.close()

    def _return_much(self) -> None:
        if not self._worker_is_full and self._unread - len(self._held) >= _RETURNED_AT_ONCE:
            self._return_credit()

    def _return_credit(self) -> None:
        count = self._unread - len(self._held)
        if self.worker is not None and count and not self.is_over:
            self._unread -= count
            self._write(credit_frame(count))

    def _pace(self) -> None:
        """Read from the worker only what can be passed on."""
        if self.worker is None or self._worker_has_ended or self.is_over:
            return
        if self._credit > 0 and not self._line_is_full:
            self.worker.resume_reading()
        else:
            self.worker.pause_reading()

    def _write(self, data: bytes) -> None:
        if not self.is_over:
            self.line.write(data)
