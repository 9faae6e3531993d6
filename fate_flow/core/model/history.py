"""The history of a job at one party: one entry for each change of a status, for each model that was stored
or read, for the streams of an attempt, and for silences of its parties."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from fate_flow.core.model.spec import Party


class HistoryLevel(Enum):
    """What kind of row changed its status."""

    JOB = "job"                    # the job row of one seat; at the initiator's own seat, the job itself
    SEAT = "seat"                  # the initiator's record of a party
    TASK = "task"                  # the federated status, over all parties
    PARTY_TASK = "party task"
    WORKER = "worker"
    MODEL = "model"                # no status: which model was stored or read, by its digest
    SILENCE = "silence"            # no status: since when a party did not answer its initiator, and again did
    STREAM = "stream"              # no status: what the streams of an attempt with one other party have carried


class Silence(Enum):
    """What an entry of level `silence` says."""

    BEGUN = "does not answer"
    OVER = "answers again"


@dataclass(frozen=True)
class HistoryEntry:
    """One move from a status to the next: why, by whom and when. `old` is empty for the first status."""

    job_id: str
    level: HistoryLevel
    old: str
    new: str
    at: int                        # milliseconds since the epoch, by the clock of the party that recorded it
    party: Party | None = None     # the party of the seat, share or worker
    task: str = ""
    version: int = 0
    reason: str = ""
    message: str = ""
    caused_by: str = ""
    exit_status: str = ""          # of a worker: `exit code 1`, `signal 9`
    number: int = field(default=0, compare=False)     # counts up in the order of writing
