"""What a plan consists of: the shell carries each action out in the transaction that stores what led to it."""

from __future__ import annotations

from dataclasses import dataclass

from fate_flow.core.model.job import Blocker, Command, Seat
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.retry import UNTRIED, Tries
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus, SeatStatus, TaskStatus


@dataclass(frozen=True)
class MoveJob:
    """The job, and with it the initiator's own row, takes a new status."""

    new: JobStatus
    reason: Reason | None = None
    message: str = ""
    target: JobStatus | None = None
    stop_by: int = 0
    unconfirmed: tuple[str, ...] = ()
    caused_by: str = ""              # the party that gave the reason, where it is known
    exit_code: int | None = None     # of the worker that is the cause, where one is
    missing: tuple[str, ...] = ()    # of a success: the parties that it is one without


@dataclass(frozen=True)
class MoveSeat:
    seat: Seat
    new: SeatStatus
    message: str = ""
    blocked_by: Blocker | None = None  # of a refusal


@dataclass(frozen=True)
class RenewReservation:
    """What a seat holds is asked for again, so that its lease does not run out while others are still asked."""

    seat: Seat


@dataclass(frozen=True)
class NoteApproval:
    """The party of the seat has approved the job with these words; none: it has to approve it once more."""

    seat: Seat
    text: str


@dataclass(frozen=True)
class MoveTask:
    """The federated status of a task, in the rows of all its parties."""

    name: str
    version: int
    old: TaskStatus
    new: TaskStatus
    reason: Reason | None = None
    message: str = ""
    policy: str = ""                 # what a policy has decided that is carried out once it has drained
    caused_by: str = ""              # the party that is the cause of it
    exit_code: int | None = None     # of an end: that of the worker that is the cause, where it is known


@dataclass(frozen=True)
class Why:
    """What a new version follows on, for the history: how the last one ended, or what somebody has decided."""

    reason: Reason | None = None
    message: str = ""
    caused_by: str = ""

    def as_body(self) -> dict[str, str]:
        """As another party is told."""
        reason = {"reason": self.reason.value} if self.reason else {}
        return {**reason, "message": self.message, "caused_by": self.caused_by}


NO_WHY = Why()


@dataclass(frozen=True)
class NewVersion:
    """The task begins again everywhere under a new version and incarnation."""

    name: str
    version: int
    incarnation: str
    auto_retries: int
    retry_at: int
    tries: Tries = UNTRIED
    why: Why = NO_WHY


@dataclass(frozen=True)
class BeginAgain:
    """The ended job waits again, in its next run; until every party knows it waits for what `wait_reason` says."""

    wait_reason: str
    is_loss: bool = False            # it has lost a party, and waits for its return


@dataclass(frozen=True)
class Rejoin:
    """The party of the seat is to take part in the next run."""

    seat: Seat


@dataclass(frozen=True)
class AllRejoined:
    """Every party knows that the job waits again, and it is time: the queue may give it a reservation round."""


@dataclass(frozen=True)
class RequeueJob:
    """The running job gives its cores back and waits, for what `wait_reason` says, until `retry_at` (steady time)."""

    wait_reason: str
    retry_at: int


@dataclass(frozen=True)
class Send:
    command: Command


@dataclass(frozen=True)
class BeginRound:
    """Set the ready signal, count up the reservation rounds and forget what the last one was refused."""


@dataclass(frozen=True)
class EndRound:
    """Reset the ready signal; the job goes on waiting for what `wait_reason` says, or runs when it is empty."""

    wait_reason: str = ""
    blocked_on: str = ""
    blocked_cores: int = 0
    retry_at: int = 0
    was_conflict: bool = False       # another party had already reserved
    blocked_by: Blocker | None = None  # what `blocked_on` lacks
    rejoins: bool = False  # some parties had started: no reservation round until they too say that they wait again


@dataclass(frozen=True)
class ForceStop:
    """The request to kill what drains is being carried out: nobody is waited for beyond `stop_by` (steady time)."""

    stop_by: int


@dataclass(frozen=True)
class Arm:
    """A policy acts at this steady time on what has happened, unless that is overtaken; the first time stands."""

    key: str
    at: int


@dataclass(frozen=True)
class Disarm:
    """What had happened has been overtaken: no policy acts on it."""

    key: str


@dataclass(frozen=True)
class LoseShares:
    """The job goes on without this party: its shares of what is not over are lost."""

    party: Party
    message: str


@dataclass(frozen=True)
class RestartJob:
    """A policy has all tasks begin again, once those that run have ended."""

    message: str
    caused_by: str = ""


@dataclass(frozen=True)
class Restarted:
    """Nothing runs any more: the new versions begin."""


@dataclass(frozen=True)
class Progress:
    percent: int


@dataclass(frozen=True)
class Forget:
    """Nothing of a refused submit stays: rows and files go."""


@dataclass(frozen=True)
class InviteAgain:
    """A party has removed the job, since it did not hear in time that all had accepted it: it is sent once more."""

    seat: Seat


@dataclass(frozen=True)
class MakeAnew:
    """The party of the seat has not kept its share of these tasks: the run that begins makes them again."""

    seat: Seat
    names: tuple[str, ...]


@dataclass(frozen=True)
class NameUnconfirmed:
    """A party had ended the job by itself, and otherwise than the initiator: both keep their word, and this says so."""

    party: Party
    ended_as: str


Action = (
    MoveJob | MoveSeat | RenewReservation | NoteApproval | MoveTask | NewVersion | BeginAgain | Rejoin | AllRejoined
    | RequeueJob | Send | BeginRound | EndRound | ForceStop | Progress | Forget | NameUnconfirmed | InviteAgain
    | MakeAnew | Arm | Disarm | LoseShares | RestartJob | Restarted
)  # fmt: skip


Plan = tuple[Action, ...]
