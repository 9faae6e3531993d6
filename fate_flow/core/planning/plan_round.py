"""Plans for a waiting job: its reservation round, in which all parties check, reserve and start, or none does.

When the queue admits the job (`BeginRound`, the ready signal), every seat is checked and asked to reserve. If one
refuses, the others release, and the round ends with a reason to wait. If all have reserved, every seat is started.
A seat may be held before the first round: its party was asked to reserve in the request that invited it.
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
from fate_flow.core.wire.v1.job_bodies import Return, RoundBody


def plan_waiting(view: JobView) -> Iterator[Action]:
    if view.job.reason is not None:
        yield from stop(view, view.job.reason, view.job.message)
    elif view.job.rerun_signal:
        yield from _plan_rejoin(view)
    elif view.job.ready_owner:
        yield from _plan_round(view)
    elif view.may_begin_round:
        yield BeginRound()
        yield from _ask(view, _next_asked(view, seats_in(view, SeatStatus.JOINED)), view.job.round_number + 1)
    elif view.job.wait_reason or view.job.hold is not None:
        yield from _release_early(view)


def _release_early(view: JobView) -> Iterator[Action]:
    """Release what was reserved before the first round: the queue has not admitted the job after all, or a user has put
    it on hold."""
    body = Return(view.job.round_number + 1, still_wants=False).as_body()
    for seat in seats_in(view, SeatStatus.HELD):
        yield MoveSeat(seat, SeatStatus.JOINED)
        yield send(view, seat, CommandKind.RETURN, body=body)


def _plan_rejoin(view: JobView) -> Iterator[Action]:
    """Stop the job if a party refuses to take its seat again; wait for parties that have not answered."""
    refused = seats_in(view, SeatStatus.REFUSED)
    if refused:
        text = "; ".join(f"{seat.party}: {seat.message}" for seat in refused)
        yield from stop(view, Reason.PARTY_REFUSED, text, caused_by=str(refused[0].party))
    elif view.job.retry_at <= view.now and all(seat.status is SeatStatus.JOINED for seat in view.seats):
        yield AllRejoined()


def _next_asked(view: JobView, joined: Sequence[Seat]) -> Sequence[Seat]:
    """Return the seats to ask next: normally this party's own seats first, then all others in parallel.

    The own seats come first because a refusal there saves the requests to the others. Three exceptions, first match:
    1. Parties whose approval is awaited are asked one by one: until they approve, the others would reserve in vain.
    2. A party that was too small or did not answer is asked alone, for the same reason.
    3. After a conflict, parties are asked one by one in ascending order. Then two initiators that want the same
       parties meet at the first one, and do not block each other crosswise."""
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
        asked = RoundBody(round_number, view.job.queue_key, view.job.revision)
        at_once = _applies_at_once(view, seat)
        yield send(view, seat, CommandKind.CHECK, body=replace(asked, is_applied_for=at_once).as_body())
        if at_once:
            yield send(view, seat, CommandKind.APPLY, body=asked.as_body())


def _applies_at_once(view: JobView, seat: Seat) -> bool:
    """Return whether to send check and `apply` together, which saves a round trip: one of our servers refuses both
    for the same reasons. The own party answers a check at once. A party that is likely to refuse the check, or not to
    answer, gets that alone: after an `apply` without an answer, it is told to release what it may have reserved."""
    is_doubtful = seat.blocked_by is Blocker.APPROVAL or view.job.blocked_by in (Blocker.SIZE, Blocker.ANSWER)
    return not (is_here(view, seat) or seat.is_plain_v1 or is_doubtful)


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
    """End the reservation round of a job that a user put on hold: start nothing, and release what is reserved."""
    for seat in seats_in(view, SeatStatus.HELD):
        yield MoveSeat(seat, SeatStatus.JOINED)
        yield send(view, seat, CommandKind.RETURN, body=Return(view.job.round_number, still_wants=False).as_body())
    if is_answered:
        yield EndRound()


def _renew(view: JobView) -> Iterator[Action]:
    """Renew reservations whose lease would end while other parties have not answered yet."""
    for seat in seats_in(view, SeatStatus.HELD):
        if seat.renew_at and seat.renew_at <= view.now:
            yield RenewReservation(seat)
            yield send(view, seat, CommandKind.APPLY, body=RoundBody(view.job.round_number).as_body())


def _roll_back(view: JobView, refused: list[Seat], is_answered: bool) -> Iterator[Action]:
    started = seats_in(view, SeatStatus.STARTED)
    if started and plain_v1_parties(view):
        # A lease ended at one party while others had started, and a plain v1 party can only be stopped.
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
        return                      # first the release of what is held; the next view goes on
    else:
        yield from stop(view, Reason.NO_CAPACITY, f"{_text(refused)} ({given_up})", str(refused[0].party))


def wait_again(view: JobView, seats: Sequence[Seat]) -> Iterator[Action]:
    """Tell started parties, where no task runs, to release their cores and to wait with the others."""
    for seat in seats:
        yield MoveSeat(seat, SeatStatus.JOINING)
        body = RoundBody(view.job.round_number).as_body()
        yield send(view, seat, CommandKind.STATUS, argument=JobStatus.WAITING.value, body=body)


def _not_asked_yet(view: JobView) -> list[Seat]:
    """Return the seats whose approval is awaited and that this reservation round has not asked yet."""
    waiting = (seat for seat in view.seats if seat.blocked_by is Blocker.APPROVAL and not seat.message)
    return [replace(seat, message=NOT_APPROVED) for seat in waiting]


def _gives_up(view: JobView, refused: list[Seat]) -> str:
    """Return text that says why the job does not wait for capacity; empty if it waits."""
    if all(seat.blocked_by not in (Blocker.CAPACITY, Blocker.SIZE) for seat in refused):
        return ""                   # no party lacks capacity: one does not answer, for example
    rule, seconds = view.spec.retry, (view.now - view.job.queued) / 1000
    if RetryEvent.NO_CAPACITY not in rule.on_events:
        return "no retry was asked for after a lack of capacity"
    return f"the {rule.duration:g} s for retries are over" if 0 < rule.duration < seconds else ""


def _give_back(view: JobView, refused: list[Seat]) -> Iterator[Action]:
    """Release what other parties reserved, at once, even if a slow party has not answered yet.

    The command names the reservation round: if it arrives late, after the next round has reserved again, it releases
    nothing. It also says whether the job still waits for capacity: if so, a party that let it wait for long keeps
    the cores for it."""
    still_wants = all(seat.blocked_by is Blocker.CAPACITY for seat in refused)
    for seat in seats_in(view, SeatStatus.HELD):
        yield MoveSeat(seat, SeatStatus.JOINED)
        yield send(view, seat, CommandKind.RETURN, body=Return(view.job.round_number, still_wants).as_body())


def _wait_for(view: JobView, refused: list[Seat], blocking: list[Seat]) -> EndRound:
    """End the round; the job is blocked on the first of the parties whose refusal is the hardest to remove."""
    blocked_by = min((seat.blocked_by or Blocker.ANSWER for seat in blocking), key=_HARDEST.index)
    first = min((seat for seat in blocking if (seat.blocked_by or Blocker.ANSWER) is blocked_by), key=_ascending)
    return EndRound(
        wait_reason=_text(blocking),
        blocked_on=first.party.party_id,
        blocked_cores=first.asks.get(first.short_at, first.asked_cores),
        retry_at=view.now + _pause(view, blocked_by, first),
        was_conflict=_was_conflict(view, refused),
        blocked_by=blocked_by,
        blocked_at=first.short_at,
    )


_HARDEST = (Blocker.SIZE, Blocker.APPROVAL, Blocker.ANSWER, Blocker.CAPACITY)
_PAUSES_FOR_PEOPLE = 5      # a party reports its decision itself; asking again only helps if that report was lost
_MOST_PAUSES = 3            # less than a request stays pending (`workers/elastic.py`), also after a conflict


def _pause(view: JobView, blocked_by: Blocker, first: Seat) -> int:
    """Return after how many milliseconds the job asks again.

    A party that has capacity again says so itself, so that asking again only helps if this was lost: the pause grows
    with the time for which the job has waited. A plain v1 party says nothing."""
    pause = view.retry_milliseconds
    if blocked_by is Blocker.APPROVAL:
        return _PAUSES_FOR_PEOPLE * pause
    if blocked_by is Blocker.CAPACITY and not first.is_plain_v1:
        return max(pause, min((view.now - view.job.queued) // 4, _MOST_PAUSES * pause))
    return pause


def _text(refused: list[Seat]) -> str:
    return "; ".join(f"{seat.party} {seat.message}" for seat in refused)


def _was_conflict(view: JobView, refused: list[Seat]) -> bool:
    """Return whether another party had already reserved: those asked first have, when a later one refuses."""
    asked_first = _next_asked(view, view.seats)
    return not all(seat in asked_first for seat in refused)


def _start_seats(view: JobView) -> Iterator[Action]:
    """Start the other seats, then the own seat: its row is the job, which runs when every party accepted `start`."""
    held = [seat for seat in others(view) if seat.status is SeatStatus.HELD] or seats_in(view, SeatStatus.HELD)
    for seat in held:
        yield MoveSeat(seat, SeatStatus.STARTING)
        started = RoundBody(view.job.round_number, revision=view.job.revision)
        yield send(view, seat, CommandKind.START, body=started.as_body())
