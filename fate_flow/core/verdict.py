"""What the answer of a party means for its seat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fate_flow.core.actions import InviteAgain, MakeAnew, MoveSeat, NameUnconfirmed, NoteApproval, Plan, Send
from fate_flow.core.approval import APPROVAL, APPROVED, AWAITS, IS_REJECTED
from fate_flow.core.job import NO_ROOM, NOT_EFFECTIVE, NOT_READY, UNREACHABLE, Command, CommandKind, Lack, Seat
from fate_flow.core.reasons import Reason, job_status_for
from fate_flow.core.status import JobStatus, SeatStatus
from fate_flow.core.text import plain


@dataclass(frozen=True)
class Verdict:
    """What an answer means: actions, task news that came with it, and whether the job has to end for it."""

    actions: Plan = ()
    reports: tuple[Mapping[str, Any], ...] = ()
    stop: Reason | None = None
    message: str = ""


def judge_answer(seat: Seat, command: Command, retcode: int, message: str, data: Any) -> Verdict:
    """What the answer to a job command means for the seat it went to.

    An answer that no longer fits the seat (late, repeated, of an earlier run) means nothing."""
    judge = _JUDGES.get((command.kind, seat.status))
    if judge is None or command.run != seat.run:
        return Verdict()
    return judge(seat, command, retcode, message, data if isinstance(data, Mapping) else {})


NOT_APPROVED = "has not approved it yet"


def _judge_create(seat: Seat, command: Command, retcode: int, message: str, data: Mapping[str, Any]) -> Verdict:
    if retcode == 0:
        return Verdict((MoveSeat(seat, SeatStatus.JOINED, lacks=Lack.APPROVAL if _is_pending(data) else None),))
    if retcode != UNREACHABLE:
        return Verdict((MoveSeat(seat, SeatStatus.REFUSED, message),))
    # Nobody knows whether it accepted; what it may have made is to go.
    return refused_afterwards(seat, command, message)


def refused_afterwards(seat: Seat, command: Command, message: str) -> Verdict:
    """The party takes no part in the job, which it may have accepted: it is told that the job is over."""
    refused, reason = MoveSeat(seat, SeatStatus.REFUSED, message), Reason.PARTY_REFUSED
    body = {"reason": reason.value, "message": message, "tag": "submit_failed"}
    final = job_status_for(reason).value
    forget = Command(CommandKind.STATUS, command.job_id, seat.party, command.run, argument=final, body=body)
    return Verdict((refused, Send(forget)))


def _judge_invitation(seat: Seat, _: Command, retcode: int, message: str, __: Mapping[str, Any]) -> Verdict:
    """An answer to `create` that was sent once more; a lost one shows by the next check."""
    if retcode in (0, UNREACHABLE):
        return Verdict()
    return Verdict(stop=Reason.PARTY_REFUSED, message=f"{seat.party}: {message}")


def _judge_check(seat: Seat, command: Command, retcode: int, message: str, data: Mapping[str, Any]) -> Verdict:
    if retcode == 0:
        apply = Command(CommandKind.APPLY, command.job_id, seat.party, command.run, body=command.body)
        return Verdict((*_approved(seat, data), MoveSeat(seat, SeatStatus.APPLYING), Send(apply)))
    if retcode == NOT_READY:
        return _not_ready(seat, message, data)
    if retcode == UNREACHABLE:
        return Verdict((MoveSeat(seat, SeatStatus.JOINED, _waits(retcode, message)),))
    if data.get(IS_REJECTED) is True:
        return Verdict(stop=Reason.PARTY_REFUSED, message=f"{seat.party}: {message}")
    if data.get("is_unknown") is True and seat.run == 0:      # what a later run builds on is gone with the rest
        back = MoveSeat(seat, SeatStatus.JOINED, "had removed the job, which is sent again")
        return Verdict((back, InviteAgain(seat)))
    return Verdict(stop=Reason.DEPENDENCE_FAILED, message=f"{seat.party}: {message}")


def _approved(seat: Seat, data: Mapping[str, Any]) -> Plan:
    """What people of the party have said to the job, once."""
    words = plain(data.get(APPROVED), _LONGEST_APPROVAL)
    return (NoteApproval(seat, words),) if words and words != seat.approval else ()


_LONGEST_APPROVAL = 700      # what a party takes from who approves, and who that is


def _not_ready(seat: Seat, message: str, data: Mapping[str, Any]) -> Verdict:
    if _is_pending(data):
        forgotten = (NoteApproval(seat, ""),) if seat.approval else ()
        return Verdict((*forgotten, MoveSeat(seat, SeatStatus.JOINED, NOT_APPROVED, Lack.APPROVAL)))
    return Verdict((MoveSeat(seat, SeatStatus.JOINED, _waits(NOT_READY, message)),))


def _is_pending(data: Mapping[str, Any]) -> bool:
    return data.get(AWAITS) == APPROVAL


def _waits(retcode: int, message: str) -> str:
    return f"does not answer: {message}" if retcode == UNREACHABLE else f"is not ready: {message}"


def _judge_apply(seat: Seat, command: Command, retcode: int, message: str, data: Mapping[str, Any]) -> Verdict:
    if retcode == 0:
        return Verdict((MoveSeat(seat, SeatStatus.HELD),))
    if retcode == UNREACHABLE:
        # Nobody knows whether it reserved; what it may hold is to go back before it is asked again.
        give_back = Command(CommandKind.RETURN, command.job_id, seat.party, command.run, body=command.body)
        return Verdict((MoveSeat(seat, SeatStatus.JOINED, _waits(retcode, message)), Send(give_back)))
    if retcode == NOT_READY:
        return _not_ready(seat, message, data)
    if data.get(IS_REJECTED) is True:
        return Verdict(stop=Reason.PARTY_REFUSED, message=f"{seat.party}: {message}")
    words = plain(data.get("why"), 500) or message or "refused"
    return Verdict((MoveSeat(seat, SeatStatus.JOINED, words, _lack(retcode, data)),))


def _lack(retcode: int, data: Mapping[str, Any]) -> Lack:
    """What a party lacks that refused to reserve; a plain v1 one does not say, and refuses for want of room."""
    if data.get("never") is True:
        return Lack.SIZE
    return Lack.ROOM if retcode == NO_ROOM else Lack.ANSWER


def _judge_renewal(seat: Seat, _: Command, retcode: int, message: str, data: Mapping[str, Any]) -> Verdict:
    """What was not heard is asked again; a party that holds nothing any more and has no room ends the turn."""
    if retcode in (0, UNREACHABLE):
        return Verdict()
    words = plain(data.get("why"), 500) or message or "refused"
    return Verdict((MoveSeat(seat, SeatStatus.JOINED, f"lost what it held: {words}", _lack(retcode, data)),))


def _judge_start(seat: Seat, _: Command, retcode: int, message: str, __: Mapping[str, Any]) -> Verdict:
    if retcode == 0:
        return Verdict((MoveSeat(seat, SeatStatus.STARTED),))
    # What it held has run out: as if it had refused to reserve.
    return Verdict((MoveSeat(seat, SeatStatus.JOINED, f"did not start: {message}"),))


def _judge_stop(seat: Seat, _: Command, __: int, ___: str, data: Mapping[str, Any]) -> Verdict:
    tasks = data.get("tasks")
    reports = tuple(one for one in tasks if isinstance(one, Mapping)) if isinstance(tasks, list) else ()
    return Verdict((MoveSeat(seat, SeatStatus.DRAINING),), reports)


LACKS = "lacks"
"""In the data of an answer to the news that a run begins: the tasks of which the party has not kept its share."""


def _judge_rejoin(seat: Seat, command: Command, retcode: int, message: str, data: Mapping[str, Any]) -> Verdict:
    """A plain v1 party that is told a second time has nothing to change, and says that it changes nothing."""
    if command.argument != JobStatus.WAITING.value:
        return Verdict()
    if retcode == 0 or (retcode == NOT_EFFECTIVE and seat.legacy):
        return Verdict((MoveSeat(seat, SeatStatus.JOINED),))
    if retcode in (NOT_EFFECTIVE, UNREACHABLE):
        return Verdict()
    lacks = data.get(LACKS)
    if isinstance(lacks, list) and lacks:
        return Verdict((MakeAnew(seat, tuple(one for one in lacks if isinstance(one, str))),))
    return Verdict((MoveSeat(seat, SeatStatus.REFUSED, message),))


def _judge_parameters(seat: Seat, _: Command, retcode: int, message: str, __: Mapping[str, Any]) -> Verdict:
    """A party that does not agree to them takes no part in the job that waits with them."""
    if retcode in (0, NOT_EFFECTIVE, UNREACHABLE):
        return Verdict()
    return Verdict(stop=Reason.PARTY_REFUSED, message=f"{seat.party}: {message}")


def _judge_parameters_of_rerun(
    seat: Seat, _: Command, retcode: int, message: str, __: Mapping[str, Any]
) -> Verdict:
    if retcode in (0, NOT_EFFECTIVE, UNREACHABLE):
        return Verdict()
    return Verdict((MoveSeat(seat, SeatStatus.REFUSED, message),))


def _judge_end(seat: Seat, command: Command, _: int, __: str, data: Mapping[str, Any]) -> Verdict:
    if command.argument == JobStatus.WAITING.value:
        return Verdict()        # that it was to wait is overtaken; how it ended has an answer of its own
    left = MoveSeat(seat, SeatStatus.LEFT)
    ended_as = plain(data.get("ended_as"), 20)
    if ended_as in ("", command.argument):
        return Verdict((left,))
    return Verdict((left, NameUnconfirmed(seat.party, ended_as)))


_JUDGES = {
    (CommandKind.CREATE, SeatStatus.JOINING): _judge_create,
    (CommandKind.CREATE, SeatStatus.JOINED): _judge_invitation,
    (CommandKind.CHECK, SeatStatus.CHECKING): _judge_check,
    (CommandKind.APPLY, SeatStatus.APPLYING): _judge_apply,
    (CommandKind.APPLY, SeatStatus.HELD): _judge_renewal,
    (CommandKind.START, SeatStatus.STARTING): _judge_start,
    (CommandKind.STOP, SeatStatus.STOPPING): _judge_stop,
    (CommandKind.STATUS, SeatStatus.JOINING): _judge_rejoin,
    (CommandKind.PARAMETERS, SeatStatus.JOINING): _judge_parameters_of_rerun,
    (CommandKind.PARAMETERS, SeatStatus.JOINED): _judge_parameters,
    (CommandKind.PARAMETERS, SeatStatus.CHECKING): _judge_parameters,
    (CommandKind.STATUS, SeatStatus.LEAVING): _judge_end,
    (CommandKind.STATUS, SeatStatus.UNCONFIRMED): _judge_end,
}


STILL_ENDS = "still_ends"
"""In the data of an answer: the party takes no news of this run while its share of an earlier one has not ended."""


def is_put_off(seat: Seat, command: Command, retcode: int, data: Any) -> bool:
    """Whether a party that still ends an earlier run is to be asked the same again, a little later."""
    is_for_later = command.kind in (CommandKind.STATUS, CommandKind.PARAMETERS)
    if not is_for_later or command.run != seat.run or retcode != NOT_EFFECTIVE:
        return False
    return isinstance(data, Mapping) and bool(data.get(STILL_ENDS))
