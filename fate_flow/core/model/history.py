"""What has happened to a job, move by move, as one party saw it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from fate_flow.core.model.spec import Party


class HistoryLevel(Enum):
    """What it was that moved."""

    JOB = "job"                    # the row of one seat; at the initiator's own, the job itself
    SEAT = "seat"                  # what the initiator knows of a party
    TASK = "task"                  # over all its parties
    PARTY_TASK = "party task"
    WORKER = "worker"


@dataclass(frozen=True)
class HistoryEntry:
    """One move: from one status to the next, why, by whom and when. `old` is empty where something began."""

    job_id: str
    level: HistoryLevel
    old: str
    new: str
    at: int                        # milliseconds since the epoch, of the party that wrote it down
    party: Party | None = None     # whose seat, share or worker it is
    task: str = ""
    version: int = 0
    reason: str = ""
    message: str = ""
    caused_by: str = ""
    exit_status: str = ""          # of a worker: `exit code 1`, `signal 9`
    number: int = field(default=0, compare=False)     # in the order of writing
