"""Handling of the answers of parties to the initiator's commands, by the status of the party's seat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.errors import NO_CAPACITY, NOT_EFFECTIVE, NOT_READY, UNREACHABLE
from fate_flow.core.model.job import Blocker, Command, CommandKind, Seat
from fate_flow.core.model.reasons import Reason, job_status_for
from fate_flow.core.model.status import JobStatus, SeatStatus
from fate_flow.core.planning.actions import InviteAgain, MakeAnew, MoveSeat, NameUnconfirmed, NoteApproval, Plan, Send
from fate_flow.core.wire.v1.endings import JobEnd
from fate_flow.core.wire.v1.initiator_bodies import is_unknown
from fate_flow.core.wire.v1.job_answers import (
    approval_in,
    awaits_approval,
    ended_as_in,
    is_never,
    is_rejected,
    missing_in,
    still_ends,
    why_in,
)
from fate_flow.core.wire.v1.job_bodies import End, is_ahead, read_round
from fate_flow.core.wire.v1.reports import reports_in


@dataclass(frozen=True)
class ReplyOutcome:
    """What follows from an answer: actions, the task reports in it, and a reason to stop the job, if there is one."""

    actions: Plan = ()
    reports: tuple[Mapping[str, Any], ...] = ()
    stop: Reason | None = None
    message: str = ""


def handle_reply(seat: Seat, command: Command, retcode: int, message: str, data: Any) -> ReplyOutcome:
    """Return what follows from the answer to a job command for the seat that it was sent to.

    An answer that no longer fits the seat (late, repeated, of an earlier run) has no effect."""
    handlers = _HANDLERS_AHEAD if is_ahead(command.body) else _HANDLERS
    handler = handlers.get((command.kind, seat.status))
    if handler is None or command.run != seat.run:
        return ReplyOutcome()
    return handler(seat, command, retcode, message, data if isinstance(data, Mapping) else {})


NOT_APPROVED = "has not approved it yet"


def _handle_create(seat: Seat, command: Command, retcode: int, message: str, data: Mapping[str, Any]) -> ReplyOutcome:
    if retcode == 0:
        return ReplyOutcome(
            (MoveSeat(seat, SeatStatus.JOINED, blocked_by=Blocker.APPROVAL if awaits_approval(data) else None),)
        )
    if retcode != UNREACHABLE:
        return ReplyOutcome((MoveSeat(seat, SeatStatus.REFUSED, message),))
    # It is unknown whether the party accepted; it is told to remove what it may have created.
    return refused_afterwards(seat, command, message)


def refused_afterwards(seat: Seat, command: Command, message: str) -> ReplyOutcome:
    """Count the party as refused, and tell it that the job is over, because it may have accepted the job."""
    refused, reason = MoveSeat(seat, SeatStatus.REFUSED, message), Reason.PARTY_REFUSED
    body = End(JobEnd(reason, message), is_submit_failed=True).as_body()
    final = job_status_for(reason).value
    forget = Command(CommandKind.STATUS, command.job_id, seat.party, command.run, argument=final, body=body)
    return ReplyOutcome((refused, Send(forget)))


def _handle_invitation(seat: Seat, _: Command, retcode: int, message: str, __: Mapping[str, Any]) -> ReplyOutcome:
    """Handle the answer to a repeated `create`. If the answer was lost, the next check finds out."""
    if retcode in (0, UNREACHABLE):
        return ReplyOutcome()
    return ReplyOutcome(stop=Reason.PARTY_REFUSED, message=f"{seat.party}: {message}")


def _handle_check(seat: Seat, command: Command, retcode: int, message: str, data: Mapping[str, Any]) -> ReplyOutcome:
    if retcode == 0:
        ready = (*_approved(seat, data), MoveSeat(seat, SeatStatus.APPLYING))
        if read_round(command.body).is_applied_for:
            return ReplyOutcome(ready)
        apply = Command(CommandKind.APPLY, command.job_id, seat.party, command.run, body=command.body)
        return ReplyOutcome((*ready, Send(apply)))
    if retcode == NOT_READY:
        return _not_ready(seat, message, data)
    if retcode == UNREACHABLE:
        return ReplyOutcome((MoveSeat(seat, SeatStatus.JOINED, _waits(retcode, message)),))
    if is_rejected(data):
        return ReplyOutcome(stop=Reason.PARTY_REFUSED, message=f"{seat.party}: {message}")
    if is_unknown(data) and seat.run == 0:      # a later run needs outputs that are gone with the job
        back = MoveSeat(seat, SeatStatus.JOINED, "had removed the job, which is sent again")
        return ReplyOutcome((back, InviteAgain(seat)))
    return ReplyOutcome(stop=Reason.DEPENDENCE_FAILED, message=f"{seat.party}: {message}")


def _approved(seat: Seat, data: Mapping[str, Any]) -> Plan:
    """Return the action that stores the text of the party's approval, if the text is new."""
    why = approval_in(data)
    return (NoteApproval(seat, why),) if why and why != seat.approval else ()


def _not_ready(seat: Seat, message: str, data: Mapping[str, Any]) -> ReplyOutcome:
    if awaits_approval(data):
        forgotten = (NoteApproval(seat, ""),) if seat.approval else ()
        return ReplyOutcome((*forgotten, MoveSeat(seat, SeatStatus.JOINED, NOT_APPROVED, Blocker.APPROVAL)))
    return ReplyOutcome((MoveSeat(seat, SeatStatus.JOINED, _waits(NOT_READY, message)),))


SILENT, UNREADY = "does not answer", "is not ready"
"""How the message of a seat begins, if its party is silent, or says why it cannot reserve now."""


def _waits(retcode: int, message: str) -> str:
    return f"{SILENT if retcode == UNREACHABLE else UNREADY}: {message}"


def _handle_apply(seat: Seat, command: Command, retcode: int, message: str, data: Mapping[str, Any]) -> ReplyOutcome:
    if retcode == 0:
        return ReplyOutcome((MoveSeat(seat, SeatStatus.HELD),))
    if retcode == UNREACHABLE:
        # It is unknown whether the party reserved; it must release what it may hold before it is asked again.
        return ReplyOutcome((MoveSeat(seat, SeatStatus.JOINED, _waits(retcode, message)), _give_back(seat, command)))
    if retcode == NOT_READY:
        return _not_ready(seat, message, data)
    if is_rejected(data):
        return ReplyOutcome(stop=Reason.PARTY_REFUSED, message=f"{seat.party}: {message}")
    why = why_in(data) or message or "refused"
    return ReplyOutcome((MoveSeat(seat, SeatStatus.JOINED, why, _blocker(retcode, data)),))


def _handle_check_ahead(seat: Seat, _: Command, retcode: int, __: str, data: Mapping[str, Any]) -> ReplyOutcome:
    """Handle the answer to a check that was sent with `create`. A party that is not ready is asked again."""
    return ReplyOutcome(_approved(seat, data) if retcode == 0 else ())


def _handle_apply_ahead(seat: Seat, _: Command, retcode: int, __: str, ___: Mapping[str, Any]) -> ReplyOutcome:
    """Handle the answer to an `apply` that was sent with `create`. A party that has not reserved is asked again."""
    return ReplyOutcome((MoveSeat(seat, SeatStatus.HELD),) if retcode == 0 else ())


def _handle_vain_apply(
    seat: Seat, command: Command, retcode: int, _: str, __: Mapping[str, Any]
) -> ReplyOutcome:
    """Handle the answer to an `apply` that was sent with a check that failed: what it may have reserved is released."""
    return ReplyOutcome((_give_back(seat, command),) if retcode in (0, UNREACHABLE) else ())


def _give_back(seat: Seat, apply: Command) -> Send:
    return Send(Command(CommandKind.RETURN, apply.job_id, seat.party, apply.run, body=apply.body))


def _blocker(retcode: int, data: Mapping[str, Any]) -> Blocker:
    """Return why a party refused to reserve. A plain v1 party gives no reason; it refuses for lack of capacity."""
    if is_never(data):
        return Blocker.SIZE
    return Blocker.CAPACITY if retcode == NO_CAPACITY else Blocker.ANSWER


def _handle_renewal(seat: Seat, _: Command, retcode: int, message: str, data: Mapping[str, Any]) -> ReplyOutcome:
    """Handle the answer to a renewal. If it was lost, the renewal is repeated; a refusal ends the reservation round."""
    if retcode in (0, UNREACHABLE):
        return ReplyOutcome()
    why = why_in(data) or message or "refused"
    return ReplyOutcome((MoveSeat(seat, SeatStatus.JOINED, f"lost what it held: {why}", _blocker(retcode, data)),))


def _handle_start(seat: Seat, _: Command, retcode: int, message: str, __: Mapping[str, Any]) -> ReplyOutcome:
    if retcode == 0:
        return ReplyOutcome((MoveSeat(seat, SeatStatus.STARTED),))
    # Its lease has ended: handled like a refusal to reserve.
    return ReplyOutcome((MoveSeat(seat, SeatStatus.JOINED, f"did not start: {message}"),))


def _handle_stop(seat: Seat, _: Command, __: int, ___: str, data: Mapping[str, Any]) -> ReplyOutcome:
    return ReplyOutcome((MoveSeat(seat, SeatStatus.DRAINING),), reports_in(data))


def _handle_rejoin(seat: Seat, command: Command, retcode: int, message: str, data: Mapping[str, Any]) -> ReplyOutcome:
    """Handle the answer to the command that the job waits again.

    A plain v1 party that gets the command a second time answers that it changed nothing; that counts as accepted."""
    if command.argument != JobStatus.WAITING.value:
        return ReplyOutcome()
    if retcode == 0 or (retcode == NOT_EFFECTIVE and seat.is_plain_v1):
        return ReplyOutcome((MoveSeat(seat, SeatStatus.JOINED),))
    if retcode in (NOT_EFFECTIVE, UNREACHABLE):
        return ReplyOutcome()
    if missing := missing_in(data):
        return ReplyOutcome((MakeAnew(seat, missing),))
    return ReplyOutcome((MoveSeat(seat, SeatStatus.REFUSED, message),))


def _handle_parameters(seat: Seat, _: Command, retcode: int, message: str, __: Mapping[str, Any]) -> ReplyOutcome:
    """Stop the job if a party refuses its changed parameters."""
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
        return ReplyOutcome()   # the job has ended since; the command with its end has its own answer
    left = MoveSeat(seat, SeatStatus.LEFT)
    ended_as = ended_as_in(data)
    if ended_as in ("", command.argument):
        return ReplyOutcome((left,))
    return ReplyOutcome((left, NameUnconfirmed(seat.party, ended_as)))


_HANDLERS = {
    (CommandKind.CREATE, SeatStatus.JOINING): _handle_create,
    (CommandKind.CREATE, SeatStatus.JOINED): _handle_invitation,
    (CommandKind.CHECK, SeatStatus.CHECKING): _handle_check,
    (CommandKind.APPLY, SeatStatus.APPLYING): _handle_apply,
    (CommandKind.APPLY, SeatStatus.HELD): _handle_renewal,
    (CommandKind.APPLY, SeatStatus.JOINED): _handle_vain_apply,
    (CommandKind.START, SeatStatus.STARTING): _handle_start,
    (CommandKind.STOP, SeatStatus.STOPPING): _handle_stop,
    (CommandKind.STATUS, SeatStatus.JOINING): _handle_rejoin,
    (CommandKind.PARAMETERS, SeatStatus.JOINING): _handle_parameters_of_rerun,
    (CommandKind.PARAMETERS, SeatStatus.JOINED): _handle_parameters,
    (CommandKind.PARAMETERS, SeatStatus.CHECKING): _handle_parameters,
    (CommandKind.STATUS, SeatStatus.LEAVING): _handle_end,
    (CommandKind.STATUS, SeatStatus.UNCONFIRMED): _handle_end,
}

_HANDLERS_AHEAD = {
    (CommandKind.CHECK, SeatStatus.JOINED): _handle_check_ahead,
    (CommandKind.APPLY, SeatStatus.JOINED): _handle_apply_ahead,
}
"""Of commands that were sent with `create`: once the seat is asked as usual, only the answer to that counts."""


def must_ask_later(seat: Seat, command: Command, retcode: int, data: Any) -> bool:
    """Return whether to repeat the command a little later, because the party still ends an earlier run."""
    is_for_later = command.kind in (CommandKind.STATUS, CommandKind.PARAMETERS)
    if not is_for_later or command.run != seat.run or retcode != NOT_EFFECTIVE:
        return False
    return still_ends(data)
