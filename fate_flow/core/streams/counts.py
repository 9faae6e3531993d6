"""How much the streams of an attempt have carried at one party, for the history of the job and the record."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fate_flow.core.model.spec import Party
from fate_flow.core.streams.stream import Carried
from fate_flow.core.text.phrases import counted

MOST_DIGESTS = 200
"""Of the streams of one port with one other party: how many streams workers open is up to them."""

Bytes = tuple[int, str]
"""How many bytes one stream has carried in one direction, and their SHA-256 in hex."""


@dataclass(frozen=True)
class PortCount:
    """The streams of one port with one other party. `seconds`: how long they were open, added up. `sent_each` and
    `received_each`: of each stream whose digests were kept."""

    name: str
    other: Party
    streams: int = 0
    sent: int = 0                  # bytes of workers here
    received: int = 0
    seconds: float = 0.0
    sent_each: tuple[Bytes, ...] = ()
    received_each: tuple[Bytes, ...] = ()

    def with_stream(self, carried: Carried, seconds: float) -> PortCount:
        """Return the count with one more stream."""
        count = replace(
            self, streams=self.streams + 1, sent=self.sent + carried.sent, received=self.received + carried.received,
            seconds=self.seconds + seconds,
        )  # fmt: skip
        if carried.digests is None or len(self.sent_each) >= MOST_DIGESTS:
            return count
        of_sent, of_received = carried.digests
        return replace(
            count, sent_each=(*self.sent_each, (carried.sent, of_sent)),
            received_each=(*self.received_each, (carried.received, of_received)),
        )  # fmt: skip

    def __str__(self) -> str:
        return (
            f"port {self.name} with {self.other}: {counted(self.streams, 'stream')}, {self.sent} bytes sent, "
            f"{self.received} received, {self.seconds:.1f} s"
        )
