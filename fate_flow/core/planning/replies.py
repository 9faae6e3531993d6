"""What the answer of a party means for its seat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.approval import APPROVAL, APPROVED, AWAITS, IS_REJECTED
from fate_flow.core.model.job import (
    NO_CAPACITY,
    NOT_EFFECTIVE,
    NOT_READY,
    UNREACHABLE,
    Blocker,
    Command,
    CommandKind,
    Seat,
)
from fate_flow.core.model.reasons import Reason, job_status_for
from fate_flow.core.model.status import JobStatus, SeatStatus
from fate_flow.core.planning.actions import InviteAgain, MakeAnew, MoveSeat, NameUnconfirmed, NoteApproval, Plan, Send
from fate_flow.core.text.phrases import sanitized


@dataclass(frozen=True)
class ReplyOutcome:
    """What an answer means: actions, reports of tasks that came with it, and whether the job has to end for it."""

    actions: Plan = ()
    reports: tuple[Mapping[str, Any], ...] = ()
    stop: Reason | None = None
    message: str = ""


def handle_reply(seat: Seat, command: Command, retcode: int, message: str, data: Any) -> ReplyOutcome:
    """What the answer to a job command means for the seat it went to.

    An answer that no longer fits the seat (late, repeated, of an earlier run) means nothing."""
    handler = _HANDLERS.get((command.kind, seat.status))
    if handler is None or command.run != seat.run:
        return ReplyOutcome()
    return handler(seat, command, retcode, message, data if isinstance(data, Mapping) else {})


NOT_APPROVED = "has not approved it yet"


def _handle_create(seat: Seat, command: Command, retcode: int, message: str, data: Mapping[str, Any]) -> ReplyOutcome:
    if retcode == 0:
        return ReplyOutcome(
            (MoveSeat(seat, SeatStatus.JOINED, blocked_by=Blocker.APPROVAL if _is_pending(data) else None),)
        )
    if retcode != UNREACHABLE:
        return ReplyOutcome((MoveSeat(seat, SeatStatus.REFUSED, message),))
    # Nobody knows whether it accepted; what it may have made is to go.
    return refused_afterwards(seat, command, message)


def refused_afterwards(seat: Seat, command: Command, message: str) -> ReplyOutcome:
    """The party takes no part in the job, which it may have accepted: it is told that the job is over."""
    refused, reason = MoveSeat(seat, SeatStatus.REFUSED, message), Reason.PARTY_REFUSED
    body = {"reason": reason.value, "message": message, "tag": "submit_failed"}
    final = job_status_for(reason).value
    forget = Command(CommandKind.STATUS, command.job_id, seat.party, command.run, argument=final, body=body)
    return ReplyOutcome((refused, Send(forget)))


def _handle_invitation(seat: Seat, _: Command, retcode: int, message: str, __: Mapping[str, Any]) -> ReplyOutcome:
    """An answer to `create` that was sent once more; a lost one shows by the next check."""
    if retcode in (0, UNREACHABLE):
        return ReplyOutcome()
    return ReplyOutcome(stop=Reason.PARTY_REFUSED, message=f"{seat.party}: {message}")


def _handle_check(seat: Seat, command: Command, retcode: int, message: str, data: Mapping[str, Any]) -> ReplyOutcome:
    if retcode == 0:
        apply = Command(CommandKind.APPLY, command.job_id, seat.party, command.run, body=command.body)
        return ReplyOutcome((*_approved(seat, data), MoveSeat(seat, SeatStatus.APPLYING), Send(apply)))
    if retcode == NOT_READY:
        return _not_ready(seat, message, data)
    if retcode == UNREACHABLE:
        return ReplyOutcome((MoveSeat(seat, SeatStatus.JOINED, _waits(retcode, message)),))
    if data.get(IS_REJECTED) is True:
        return ReplyOutcome(stop=Reason.PARTY_REFUSED, message=f"{seat.party}: {message}")
    if data.get("is_unknown") is True and seat.run == 0:      # what a later run builds on is gone with the rest
        back = MoveSeat(seat, SeatStatus.JOINED, "had removed the job, which is sent again")
        return ReplyOutcome((back, InviteAgain(seat)))
    return ReplyOutcome(stop=Reason.DEPENDENCE_FAILED, message=f"{seat.party}: {message}")


def _approved(seat: Seat, data: Mapping[str, Any]) -> Plan:
    """What people of the party have said to the job, once."""
    why = sanitized(data.get(APPROVED), _LONGEST_APPROVAL)
    return (NoteApproval(seat, why),) if why and why != seat.approval else ()


_LONGEST_APPROVAL = 700      # what a party takes from who approves, and who that is


def _not_ready(seat: Seat, message: str, data: Mapping[str, Any]) -> ReplyOutcome:
    if _is_pending(data):
        forgotten = (NoteApproval(seat, ""),) if seat.approval else ()
        return ReplyOutcome((*forgotten, MoveSeat(seat, SeatStatus.JOINED, NOT_APPROVED, Blocker.APPROVAL)))
    return ReplyOutcome((MoveSeat(seat, SeatStatus.JOINED, _waits(NOT_READY, message)),))


def _is_pending(data: Mapping[str, Any]) -> bool:
    return data.get(AWAITS) == APPROVAL


def _waits(retcode: int, message: str) -> str:
    return f"does not answer: {message}" if retcode == UNREACHABLE else f"is not ready: {message}"


def _handle_apply(seat: Seat, command: Command, retcode: int, message: str, data: Mapping[str, Any]) -> ReplyOutcome:
    if retcode == 0:
        return ReplyOutcome((MoveSeat(seat, SeatStatus.HELD),))
    if retcode == UNREACHABLE:
        # Nobody knows whether it reserved; what it may hold is to go back before it is asked again.
        give_back = Command(CommandKind.RETURN, command.job_id, seat.party, command.run, body=command.body)
        return ReplyOutcome((MoveSeat(seat, SeatStatus.JOINED, _waits(retcode, message)), Send(give_back)))
    if retcode == NOT_READY:
        return _not_ready(seat, message, data)
    if data.get(IS_REJECTED) is True:
        return ReplyOutcome(stop=Reason.PARTY_REFUSED, message=f"{seat.party}: {message}")
    why = sanitized(data.get("why"), 500) or message or "refused"
    return ReplyOutcome((MoveSeat(seat, SeatStatus.JOINED, why, _blocker(retcode, data)),))


def _blocker(retcode: int, data: Mapping[str, Any]) -> Blocker:
    """What a party lacks that refused to reserve; a plain v1 one does not say, and refuses for want of capacity."""
    if data.get("never") is True:
        return Blocker.SIZE
    return Blocker.CAPACITY if retcode == NO_CAPACITY else Blocker.ANSWER


def _handle_renewal(seat: Seat, _: Command, retcode: int, message: str, data: Mapping[str, Any]) -> ReplyOutcome:
    """What was not heard is asked again; a party that holds nothing any more and has no capacity ends the reservation
    round."""
    if retcode in (0, UNREACHABLE):
        return ReplyOutcome()
    why = sanitized(data.get("why"), 500) or message or "refused"
    return ReplyOutcome((MoveSeat(seat, SeatStatus.JOINED, f"lost what it held: {why}", _blocker(retcode, data)),))


def _handle_start(seat: Seat, _: Command, retcode: int, message: str, __: Mapping[str, Any]) -> ReplyOutcome:
    if retcode == 0:
        return ReplyOutcome((MoveSeat(seat, SeatStatus.STARTED),))
    # What it held has run out: as if it had refused to reserve.
    return ReplyOutcome((MoveSeat(seat, SeatStatus.JOINED, f"did not start: {message}"),))


def _handle_stop(seat: Seat, _: Command, __: int, ___: str, data: Mapping[str, Any]) -> ReplyOutcome:
    tasks = data.get("tasks")
    reports = tuple(one for one in tasks if isinstance(one, Mapping)) if isinstance(tasks, list) else ()
    return ReplyOutcome((MoveSeat(seat, SeatStatus.DRAINING),), reports)


MISSING_SHARES = "lacks"
"""In the data of an answer to the message that a run begins: the tasks of which the party has not kept its share."""


def _handle_rejoin(seat: Seat, command: Command, retcode: int, message: str, data: Mapping[str, Any]) -> ReplyOutcome:
    """A plain v1 party that is told a second time has nothing to change, and says that it changes nothing."""
    if command.argument != JobStatus.WAITING.value:
        return ReplyOutcome()
    if retcode == 0 or (retcode == NOT_EFFECTIVE and seat.is_plain_v1):
        return ReplyOutcome((MoveSeat(seat, SeatStatus.JOINED),))
    if retcode in (NOT_EFFECTIVE, UNREACHABLE):
        return ReplyOutcome()
    blocked_by = data.get(MISSING_SHARES)
    if isinstance(blocked_by, list) and blocked_by:
        return ReplyOutcome((MakeAnew(seat, tuple(one for one in blocked_by if isinstance(one, str))),))
    return ReplyOutcome((MoveSeat(seat, SeatStatus.REFUSED, message),))


def _handle_parameters(seat: Seat, _: Command, retcode: int, message: str, __: Mapping[str, Any]) -> ReplyOutcome:
    """A party that does not agree to them takes no part in the job that waits with them."""
    if retcode in (0, NOT_EFFECTIVE, UNREACHABLE):
        return ReplyOutcome()
    return ReplyOutcome(stop=Reason.PARTY_REFUSED, message=f"{seat.party}: {message}")


def _handle_parameters_of_rerun(
    seat: Seat, _: Command, retcode: int, message: str, __: Mapping[str, Any]
) -> ReplyOutcome:
    if retcode in (0, NOT_EFFECTIVE, UNREACHABLE):
        return ReplyOutcome()
    return ReplyOutcome((MoveSeat(seat, SeatStatus.REFUSED, message),))


def _handle_end(seat: Seat, command: Command, _: int, __: str, data: Mapping[str, Any]) -> ReplyOutcome:
    if command.argument == JobStatus.WAITING.value:
        return ReplyOutcome()   # that it was to wait is overtaken; how it ended has an answer of its own
    left = MoveSeat(seat, SeatStatus.LEFT)
    ended_as = sanitized(data.get("ended_as"), 20)
    if ended_as in ("", command.argument):
        return ReplyOutcome((left,))
    return ReplyOutcome((left, NameUnconfirmed(seat.party, ended_as)))


_HANDLERS = {
    (CommandKind.CREATE, SeatStatus.JOINING): _handle_create,
    (CommandKind.CREATE, SeatStatus.JOINED): _handle_invitation,
    (CommandKind.CHECK, SeatStatus.CHECKING): _handle_check,
    (CommandKind.APPLY, SeatStatus.APPLYING): _handle_apply,
    (CommandKind.APPLY, SeatStatus.HELD): _handle_renewal,
    (CommandKind.START, SeatStatus.STARTING): _handle_start,
    (CommandKind.STOP, SeatStatus.STOPPING): _handle_stop,
    (CommandKind.STATUS, SeatStatus.JOINING): _handle_rejoin,
    (CommandKind.PARAMETERS, SeatStatus.JOINING): _handle_parameters_of_rerun,
    (CommandKind.PARAMETERS, SeatStatus.JOINED): _handle_parameters,
    (CommandKind.PARAMETERS, SeatStatus.CHECKING): _handle_parameters,
    (CommandKind.STATUS, SeatStatus.LEAVING): _handle_end,
    (CommandKind.STATUS, SeatStatus.UNCONFIRMED): _handle_end,
}


STILL_ENDS = "still_ends"
"""In the data of an answer: the party takes no message about this run while its share of an earlier one has not
ended."""


def must_ask_later(seat: Seat, command: Command, retcode: int, data: Any) -> bool:
    """Whether a party that still ends an earlier run is to be asked the same again, a little later."""
    is_for_later = command.kind in (CommandKind.STATUS, CommandKind.PARAMETERS)
    if not is_for_later or command.run != seat.run or retcode != NOT_EFFECTIVE:
        return False
    return isinstance(data, Mapping) and bool(data.get(STILL_ENDS))
