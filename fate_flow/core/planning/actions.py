"""The actions of a plan. `services/initiator` carries them out in the transaction that stores what led to them."""

from __future__ import annotations

from dataclasses import dataclass

from fate_flow.core.model.job import Blocker, Command, Seat, TaskKey
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.retry import UNTRIED, Tries
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus, SeatStatus, TaskStatus


@dataclass(frozen=True)
class MoveJob:
    """Give the job, that is, the initiator's own row of it, a new status."""

    new: JobStatus
    reason: Reason | None = None
    message: str = ""
    target: JobStatus | None = None
    stop_by: int = 0
    unconfirmed: tuple[str, ...] = ()
    caused_by: str = ""              # the party that gave the reason, if it is known
    exit_code: int | None = None     # of the worker that is the cause, if one is
    missing: tuple[str, ...] = ()    # after a partial success: the missing parties


@dataclass(frozen=True)
class MoveSeat:
    """Give a seat a new status."""

    seat: Seat
    new: SeatStatus
    message: str = ""
    blocked_by: Blocker | None = None  # after a refusal


@dataclass(frozen=True)
class RenewReservation:
    """Note that a seat's reservation is renewed, so that its lease does not end while other parties are still asked."""

    seat: Seat


@dataclass(frozen=True)
class NoteApproval:
    """Store the text with which the party of the seat approved the job; empty: it must approve it again."""

    seat: Seat
    text: str


@dataclass(frozen=True)
class MoveTask:
    """Give a task a new federated status, in the rows of all its parties."""

    name: str
    version: int
    old: TaskStatus
    new: TaskStatus
    reason: Reason | None = None
    message: str = ""
    policy: str = ""                 # the action of a policy that follows when the task has drained
    caused_by: str = ""              # the party that is the cause
    exit_code: int | None = None     # at an end: of the worker that is the cause, if it is known
    begins_again: bool = False       # at a stop: the task begins again when it has drained, as far as is known now


@dataclass(frozen=True)
class Why:
    """Why a new version begins, for the history: how the last version ended, or what a user or a policy decided."""

    reason: Reason | None = None
    message: str = ""
    caused_by: str = ""


NO_WHY = Why()


@dataclass(frozen=True)
class NewVersion:
    """Start the task again at all parties, with a new version and incarnation."""

    name: str
    version: int
    incarnation: str
    auto_retries: int
    retry_at: int
    tries: Tries = UNTRIED
    why: Why = NO_WHY


@dataclass(frozen=True)
class BeginAgain:
    """Move the ended job back to `waiting`, in its next run. `wait_reason` holds until every party knows of the run."""

    wait_reason: str
    is_loss: bool = False            # it lost a party, and waits for its return


@dataclass(frozen=True)
class Rejoin:
    """Move the seat to `joining` in the next run."""

    seat: Seat


@dataclass(frozen=True)
class AllRejoined:
    """Release a job of a new run to the queue: every party knows of the run, and `retry_at` has come."""


@dataclass(frozen=True)
class RequeueJob:
    """Move the running job back to `waiting`, without cores, until `retry_at` (steady time)."""

    wait_reason: str
    retry_at: int


@dataclass(frozen=True)
class Send:
    """Send a command after the commit."""

    command: Command


@dataclass(frozen=True)
class LetBegin:
    """Note that the gathered share of this command may begin, and send the command."""

    share: TaskKey
    command: Command


@dataclass(frozen=True)
class BeginRound:
    """Set the ready signal, count up the reservation rounds, and clear the refusals of the last one."""


@dataclass(frozen=True)
class EndRound:
    """Reset the ready signal. The job waits on for what `wait_reason` says; if that is empty, it runs."""

    wait_reason: str = ""
    blocked_on: str = ""
    blocked_cores: int = 0
    retry_at: int = 0
    was_conflict: bool = False       # another party had already reserved
    blocked_by: Blocker | None = None  # why `blocked_on` did not reserve
    blocked_at: str = ""   # the tag of the engine of `blocked_on`, if that party has several
    rejoins: bool = False  # some parties had started: no reservation round until they, too, wait again


@dataclass(frozen=True)
class ForceStop:
    """Note that the workers that drain are being killed; the job ends at `stop_by` (steady time) at the latest."""

    stop_by: int


@dataclass(frozen=True)
class Arm:
    """Set the timer of a policy event: its policy acts at steady time `at`. An existing timer stays as it is."""

    key: str
    at: int


@dataclass(frozen=True)
class Disarm:
    """Remove the timer of a policy event that no longer holds."""

    key: str


@dataclass(frozen=True)
class LoseShares:
    """Go on without this party: its shares of unfinished tasks are lost."""

    party: Party
    message: str


@dataclass(frozen=True)
class RestartJob:
    """Begin to restart all tasks for a policy; they start again when those that run have ended."""

    message: str
    caused_by: str = ""


@dataclass(frozen=True)
class Restarted:
    """End the restart of all tasks: nothing runs any more, and the new versions begin."""


@dataclass(frozen=True)
class Progress:
    """Set the progress of the job."""

    percent: int


@dataclass(frozen=True)
class Forget:
    """Remove all rows and files of a refused submit."""


@dataclass(frozen=True)
class InviteAgain:
    """Send `create` again: the party removed the job, because it did not hear in time that all had accepted it."""

    seat: Seat


@dataclass(frozen=True)
class MakeAnew:
    """Run these tasks again in the run that begins: the party of the seat has not kept its shares of them."""

    seat: Seat
    names: tuple[str, ...]


@dataclass(frozen=True)
class NameUnconfirmed:
    """Record that a party had ended the job by itself with another status. Both sides keep their status."""

    party: Party
    ended_as: str


Action = (
    MoveJob | MoveSeat | RenewReservation | NoteApproval | MoveTask | NewVersion | BeginAgain | Rejoin | AllRejoined
    | RequeueJob | Send | BeginRound | EndRound | ForceStop | Progress | Forget | NameUnconfirmed | InviteAgain
    | MakeAnew | Arm | Disarm | LoseShares | RestartJob | Restarted
    | LetBegin
)  # fmt: skip


Plan = tuple[Action, ...]
