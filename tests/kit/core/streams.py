"""The ends of a stream without sockets: what is written to them is kept until a test passes it on."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(eq=False)
class HandEnd:
    """An end that takes everything, and remembers what was asked of it."""

    written: bytearray = field(default_factory=bytearray)
    is_reading: bool = False
    has_eof: bool = False
    is_closed: bool = False
    is_aborted: bool = False

    def write(self, data: bytes | memoryview) -> None:
        if not self.is_closed:
            self.written += data

    def write_eof(self) -> None:
        self.has_eof = True

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True

    def take(self, count: int | None = None) -> bytes:
        """Return what was written, at most so much, and forget it."""
        taken = bytes(self.written[:count])
        del self.written[: len(taken)]
        return taken
