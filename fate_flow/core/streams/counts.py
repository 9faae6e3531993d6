"""How much the streams of an attempt have carried at one party, for the history of the job and the record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from fate_flow.core.model.spec import Party
from fate_flow.core.streams.stream import Carried
from fate_flow.core.text.phrases import counted

MOST_DIGESTS = 200
"""Of the streams of one port with one other party, in each direction: how many streams workers open is up to them."""

Bytes = tuple[int, str]
"""How many bytes one stream has carried in one direction, and their SHA-256 in hex."""


@dataclass(frozen=True)
class PortCount:
    """The streams of one port with one other party. `seconds`: how long they were open, added up. `sent_each` and
    `received_each`: of the 200 streams that have carried most in this direction, of those whose digests were kept, in
    ascending order."""

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
        sent, received = (((size, digest),) if digest else () for size, digest in carried.directions)
        return self.with_count(
            PortCount(self.name, self.other, 1, carried.sent, carried.received, seconds, sent, received)
        )

    def with_count(self, more: PortCount) -> PortCount:
        """Return the count of both together."""
        return replace(
            self, streams=self.streams + more.streams, sent=self.sent + more.sent,
            received=self.received + more.received, seconds=self.seconds + more.seconds,
            sent_each=_largest(self.sent_each, more.sent_each),
            received_each=_largest(self.received_each, more.received_each),
        )  # fmt: skip

    def __str__(self) -> str:
        return (
            f"port {self.name} with {self.other}: {counted(self.streams, 'stream')}, {self.sent} bytes sent, "
            f"{self.received} received, {self.seconds:.1f} s"
        )


def by_port(counts: Iterable[PortCount]) -> tuple[PortCount, ...]:
    """Return one count for each port and other party."""
    found: dict[tuple[str, Party], PortCount] = {}
    for one in counts:
        key = one.name, one.other
        found[key] = found[key].with_count(one) if key in found else one
    return tuple(found.values())


def _largest(some: tuple[Bytes, ...], others: tuple[Bytes, ...]) -> tuple[Bytes, ...]:
    return tuple(sorted((*some, *others))[-MOST_DIGESTS:])
