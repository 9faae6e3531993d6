"""The pairs of parties between which the streams of a job are opened."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from fate_flow.core.model.spec import JobSpec, Party


@dataclass(frozen=True)
class Pair:
    """A worker of `caller` connects to a worker of `to`, at a port of a task."""

    task: str
    port: str
    caller: Party
    to: Party

    def not_reached(self, why: str) -> str:
        """Return what a user reads when `caller` cannot open streams there."""
        return f"port {self.port} of {self.task}: {self.caller} does not reach {self.to}: {why}"


def pairs_from(spec: JobSpec, seats: Collection[Party]) -> Iterator[Pair]:
    """Yield the pairs whose workers at these seats connect, in the order of the job.

    Pairs with a party that the task can do without are left out: that one may be missing altogether."""
    for seat in seats:
        for task in spec.tasks_of(seat):
            for port in task.ports if seat not in task.passed_at else ():
                for other in port.called_by(seat):
                    if other.role not in task.min_available and other not in task.passed_at:
                        yield Pair(task.name, port.name, seat, other)
