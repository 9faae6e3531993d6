"""What happens to a server, as its scheduler is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fate_flow.core.model.job import Answer, Command
from fate_flow.core.model.peer import WayBack
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

    `knower`: the other party that knows it, since it was told in an answer how many are free."""

    informed_party: str = ""


@dataclass(frozen=True)
class WorkerChanged:
    worker_id: str


@dataclass(frozen=True)
class Answered:
    command: Command
    answer: Answer


@dataclass(frozen=True)
class HeartbeatAnswered:
    """`ended`: jobs that are over, or not known, at that party, with the reason; `runs`: which run was asked about.

    `way_back`: what it says of its way to this server; `reports`: on shares, which it could not deliver that way."""

    party_id: str
    ended: Mapping[str, str] = field(default_factory=dict)
    runs: Mapping[str, int] = field(default_factory=dict)
    way_back: WayBack | None = None
    reports: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class PartySilent:
    """A party has not answered anything for longer than the initiator allows."""

    party_id: str
    seconds: float


@dataclass(frozen=True)
class PartyFails:
    """A party has not answered a try, and nothing for so many seconds."""

    party_id: str
    seconds: float
    error: str


SchedulerEvent = (
    JobChanged | OutboxFilled | QueueChanged | WorkerChanged | Answered | HeartbeatAnswered | PartySilent | PartyFails
    | CapacityNotice
)  # fmt: skip
