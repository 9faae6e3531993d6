"""A waiting job: its reservation round, in which every party checks, reserves and starts, or nobody does.

When the queue lets it (`BeginRound`, the ready signal) every seat is checked and asked to reserve; refused anywhere,
the others give back and the reservation round ends with a reason to wait; held everywhere, every seat is started.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fate_flow.core.model.job import Blocker, CommandKind, Seat
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.retry import RetryEvent
from fate_flow.core.model.status import JobStatus, SeatStatus
from fate_flow.core.planning.actions import Action, AllRejoined, BeginRound, EndRound, MoveSeat, RenewReservation
from fate_flow.core.planning.plan_stop import stop
from fate_flow.core.planning.replies import NOT_APPROVED
from fate_flow.core.planning.view import JobView, is_here, others, plain_v1_parties, seats_in, send


def plan_waiting(view: JobView) -> Iterator[Action]:
    if view.job.reason is not None:
        yield from stop(view, view.job.reason, view.job.message)
    elif view.job.rerun_signal:
        yield from _plan_rejoin(view)
    elif view.job.ready_owner:
        yield from _plan_round(view)
    elif view.may_begin_round:
        yield BeginRound()
        yield from _ask(view, _next_asked(view, view.seats), view.job.round_number + 1)


def _plan_rejoin(view: JobView) -> Iterator[Action]:
    """A party that does not take its seat again ends the job; one that has not answered is waited for."""
    refused = seats_in(view, SeatStatus.REFUSED)
    if refused:
        text = "; ".join(f"{seat.party}: {seat.message}" for seat in refused)
        yield from stop(view, Reason.PARTY_REFUSED, text, caused_by=str(refused[0].party))
    elif view.job.retry_at <= view.now and all(seat.status is SeatStatus.JOINED for seat in view.seats):
        yield AllRejoined()


def _next_asked(view: JobView, joined: Sequence[Seat]) -> Sequence[Seat]:
    """All parties side by side; the own seats a moment before, since a refusal there spares the others the question.

    Parties whose approval it awaits first, one by one: until they have given it the others would reserve for nothing.
    After a conflict one by one in ascending order, so that two initiators that want the same parties meet at the first
    and not crosswise. Before all others a party for which the job waits and which more capacity would not help: while
    it is too small, or silent, the others would reserve for nothing."""
    unapproved = [seat for seat in joined if seat.blocked_by is Blocker.APPROVAL]
    if unapproved:
        return (min(unapproved, key=_ascending),)
    if view.job.blocked_by in (Blocker.SIZE, Blocker.ANSWER):
        hopeless = [seat for seat in joined if seat.party.party_id == view.job.blocked_on]
        if hopeless:
            return hopeless
    if view.job.conflicts:
        return (min(joined, key=_ascending),)
    return [seat for seat in joined if is_here(view, seat)] or joined


def _ascending(seat: Seat) -> tuple[int, str]:
    return (int(seat.party.party_id), seat.party.role)


def _ask(view: JobView, seats: Sequence[Seat], round_number: int) -> Iterator[Action]:
    for seat in seats:
        yield MoveSeat(seat, SeatStatus.CHECKING)
        revision = {"revision": view.job.revision} if view.job.revision else {}
        yield send(view, seat, CommandKind.CHECK, body={"turn": round_number, "order": view.job.queue_key, **revision})


_ON_ITS_WAY = frozenset({SeatStatus.CHECKING, SeatStatus.APPLYING, SeatStatus.STARTING})


def _plan_round(view: JobView) -> Iterator[Action]:
    refused = [seat for seat in view.seats if seat.status is SeatStatus.JOINED and seat.message]
    is_answered = not any(seat.status in _ON_ITS_WAY for seat in view.seats)
    joined = seats_in(view, SeatStatus.JOINED)
    if refused:
        yield from _roll_back(view, refused, is_answered)
        return
    if view.job.hold is not None and not _has_begun(view):
        yield from _put_back(view, is_answered)
        return
    yield from _renew(view)
    if is_answered and joined:
        yield from _ask(view, _next_asked(view, joined), view.job.round_number)
    elif is_answered:
        yield from _start_seats(view)


def _has_begun(view: JobView) -> bool:
    return any(seat.status in (SeatStatus.STARTING, SeatStatus.STARTED) for seat in view.seats)


def _put_back(view: JobView, is_answered: bool) -> Iterator[Action]:
    """Somebody holds the job in the middle of its turn: nothing starts, and nothing is kept for it."""
    for seat in seats_in(view, SeatStatus.HELD):
        yield MoveSeat(seat, SeatStatus.JOINED)
        yield send(view, seat, CommandKind.RETURN, body={"turn": view.job.round_number, "still_wants": False})
    if is_answered:
        yield EndRound()


def _renew(view: JobView) -> Iterator[Action]:
    """A party gives back what it holds and is not told to start: while others still answer, it is asked again."""
    for seat in seats_in(view, SeatStatus.HELD):
        if seat.renew_at and seat.renew_at <= view.now:
            yield RenewReservation(seat)
            yield send(view, seat, CommandKind.APPLY, body={"turn": view.job.round_number})


def _roll_back(view: JobView, refused: list[Seat], is_answered: bool) -> Iterator[Action]:
    started = seats_in(view, SeatStatus.STARTED)
    if started and plain_v1_parties(view):
        # A hold ran out here while others had started, and those that speak plain v1 end by a stop alone.
        yield from stop(view, Reason.PARTY_REFUSED, _text(refused), caused_by=str(refused[0].party))
        return
    blocking = [*refused, *_not_asked_yet(view)]
    yield from _give_back(view, blocking)
    if not is_answered:
        return
    if started:
        yield from wait_again(view, started)
        yield replace(_wait_for(view, refused, blocking), rejoins=True)
        return
    given_up = _gives_up(view, refused)
    if not given_up:
        yield _wait_for(view, refused, blocking)
    elif seats_in(view, SeatStatus.HELD):
        return                      # what comes back first: the next view has it
    else:
        yield from stop(view, Reason.NO_CAPACITY, f"{_text(refused)} ({given_up})", str(refused[0].party))


def wait_again(view: JobView, seats: Sequence[Seat]) -> Iterator[Action]:
    """Parties whose share runs, without a task that does: they take back what they gave and wait with the others."""
    for seat in seats:
        yield MoveSeat(seat, SeatStatus.JOINING)
        body = {"turn": view.job.round_number}
        yield send(view, seat, CommandKind.STATUS, argument=JobStatus.WAITING.value, body=body)


def _not_asked_yet(view: JobView) -> list[Seat]:
    """Those whose approval is awaited and that this reservation round has not come to."""
    waiting = (seat for seat in view.seats if seat.blocked_by is Blocker.APPROVAL and not seat.message)
    return [replace(seat, message=NOT_APPROVED) for seat in waiting]


def _gives_up(view: JobView, refused: list[Seat]) -> str:
    """Why the job does not wait for cores that a party has not, as text; empty: it waits."""
    if all(seat.blocked_by not in (Blocker.CAPACITY, Blocker.SIZE) for seat in refused):
        return ""                   # nobody said a word about capacity: a party does not answer
    rule, seconds = view.spec.retry, (view.now - view.job.queued) / 1000
    if RetryEvent.NO_CAPACITY not in rule.on_events:
        return "no retry was asked for after a lack of capacity"
    return f"the {rule.duration:g} s for retries are over" if 0 < rule.duration < seconds else ""


def _give_back(view: JobView, refused: list[Seat]) -> Iterator[Action]:
    """What others reserved goes back at once, also while a slow party has not answered yet.

    The reservation round rides along: a return that arrives late, after the next reservation round reserved again,
    returns nothing. So does whether the job still waits for capacity: if so, a party that has let it wait for long
    keeps what it had for it."""
    still_wants = all(seat.blocked_by is Blocker.CAPACITY for seat in refused)
    for seat in seats_in(view, SeatStatus.HELD):
        yield MoveSeat(seat, SeatStatus.JOINED)
        yield send(view, seat, CommandKind.RETURN, body={"turn": view.job.round_number, "still_wants": still_wants})


def _wait_for(view: JobView, refused: list[Seat], blocking: list[Seat]) -> EndRound:
    """Blocked on the first of the parties whose refusal is the hardest to lift."""
    blocked_by = min((seat.blocked_by or Blocker.ANSWER for seat in blocking), key=_HARDEST.index)
    first = min((seat for seat in blocking if (seat.blocked_by or Blocker.ANSWER) is blocked_by), key=_ascending)
    pauses = _PAUSES_FOR_PEOPLE if blocked_by is Blocker.APPROVAL else 1
    return EndRound(
        wait_reason=_text(blocking),
        blocked_on=first.party.party_id,
        blocked_cores=first.asked_cores,
        retry_at=view.now + pauses * view.retry_milliseconds,
        was_conflict=_was_conflict(view, refused),
        blocked_by=blocked_by,
    )


_HARDEST = (Blocker.SIZE, Blocker.APPROVAL, Blocker.ANSWER, Blocker.CAPACITY)
_PAUSES_FOR_PEOPLE = 5      # a party says when it has decided: to ask it is only the net below


def _text(refused: list[Seat]) -> str:
    return "; ".join(f"{seat.party} {seat.message}" for seat in refused)


def _was_conflict(view: JobView, refused: list[Seat]) -> bool:
    """Whether another party had already reserved: those that are asked first have when others are asked."""
    asked_first = _next_asked(view, view.seats)
    return not all(seat in asked_first for seat in refused)


def _start_seats(view: JobView) -> Iterator[Action]:
    """The own seat is started last: its row is the job, and a job is running when every party accepted `start`."""
    held = [seat for seat in others(view) if seat.status is SeatStatus.HELD] or seats_in(view, SeatStatus.HELD)
    for seat in held:
        yield MoveSeat(seat, SeatStatus.STARTING)
        yield send(view, seat, CommandKind.START, body={"turn": view.job.round_number})
