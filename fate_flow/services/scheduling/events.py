"""The events that the scheduler handles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fate_flow.core.model.job import Answer, Command
from fate_flow.core.wire.v1.heartbeat import WayBack
from fate_flow.services.context.pending import CapacityNotice


@dataclass(frozen=True)
class JobChanged:
    """Another process of this server has written something about this job."""

    job_id: str


@dataclass(frozen=True)
class OutboxFilled:
    """Another process of this server has put commands into the outbox."""


@dataclass(frozen=True)
class QueueChanged:
    """Another process of this server has added to the queue, or has freed cores here.

    `informed_party`: the other party that knows of the free cores already, by an answer."""

    informed_party: str = ""


@dataclass(frozen=True)
class WorkerChanged:
    """A worker has changed its state."""

    worker_id: str


@dataclass(frozen=True)
class Answered:
    """A party has answered a command, or the sender has given up on an answer."""

    command: Command
    answer: Answer


@dataclass(frozen=True)
class HeartbeatAnswered:
    """A party has answered a heartbeat.

    `ended`: jobs that are over or unknown there, with the reason; `runs`: by job, the run in the heartbeat.
    `way_back`: its connection to this server, if it is broken; `reports`: reports of shares that could not be sent."""

    party_id: str
    ended: Mapping[str, str] = field(default_factory=dict)
    runs: Mapping[str, int] = field(default_factory=dict)
    way_back: WayBack | None = None
    reports: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class PartySilent:
    """A party has answered nothing for longer than the initiator allows."""

    party_id: str
    seconds: float


@dataclass(frozen=True)
class PartyFails:
    """A party has not answered a request, and nothing for so many seconds."""

    party_id: str
    seconds: float
    error: str


SchedulerEvent = (
    JobChanged | OutboxFilled | QueueChanged | WorkerChanged | Answered | HeartbeatAnswered | PartySilent | PartyFails
    | CapacityNotice
)  # fmt: skip
