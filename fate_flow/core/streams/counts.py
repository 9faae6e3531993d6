"""How much the streams of an attempt have carried at one party, for the history of the job."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fate_flow.core.model.spec import Party
from fate_flow.core.streams.stream import Carried
from fate_flow.core.text.phrases import counted


@dataclass(frozen=True)
class PortCount:
    """The streams of one port with one other party. `seconds`: how long they were open, added up."""

    name: str
    other: Party
    streams: int = 0
    sent: int = 0                  # bytes of workers here
    received: int = 0
    seconds: float = 0.0

    def with_stream(self, carried: Carried, seconds: float) -> PortCount:
        """Return the count with one more stream."""
        return replace(
            self, streams=self.streams + 1, sent=self.sent + carried.sent, received=self.received + carried.received,
            seconds=self.seconds + seconds,
        )  # fmt: skip

    def __str__(self) -> str:
        return (
            f"port {self.name} with {self.other}: {counted(self.streams, 'stream')}, {self.sent} bytes sent, "
            f"{self.received} received, {self.seconds:.1f} s"
        )
