"""The maintenance of a server of a test: it runs, and time passes, when the test says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fate_flow.services.context.ports import Rules
from fate_flow.services.context.stopwatch import Stopwatch
from fate_flow.services.initiator.initiator import Coordinator
from fate_flow.services.participant.participant import Participant
from fate_flow.services.upkeep.maintenance import Maintenance
from fate_flow.services.workers.watch import WorkerWatch
from tests.kit.services.hand_server import HandServer

RULES = Rules(
    hold=60_000, ready=120_000, initiator_silence=120_000, party_silence=90_000, resource_waiting=300_000
)


class Watched:
    """A server whose maintenance is run by hand; `after` lets time pass on its monotonic clock, `step` sets the
    other."""

    def __init__(self, server: HandServer) -> None:
        self.server = server
        self.seconds = 1_000.0
        self.maintenance = Maintenance(
            Coordinator(Participant(), "owner"), WorkerWatch(), Stopwatch(lambda: self.seconds)
        )

    def run(self) -> None:
        with self.server.unit() as unit:
            self.maintenance.run(unit)
            self.server.settle(unit)

    def after(self, seconds: float) -> None:
        self.seconds += seconds
        self.server.now += int(seconds * 1000)
        self.server.steady = round(self.seconds * 1000) - 1_000_000
        self.run()

    def step(self, hours: int) -> None:
        """Somebody sets the clock on the wall."""
        self.server.now += hours * 3_600_000

    def do(self, act: Callable[..., None], *arguments: Any) -> None:
        with self.server.unit() as unit:
            act(unit, *arguments)

    def record_heartbeat(self) -> None:
        with self.server.store.transaction() as tx:
            tx.record_heartbeat("9999")
