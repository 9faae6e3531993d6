"""What the initiator does next about one job: a view in, a plan out.

The plan is made from the state alone, so asking twice gives the same answer twice, and whatever was lost is asked for
again. A plan is a tuple of actions; the shell carries them out in one transaction and sends the commands after its
commit. Rolling back a reservation is one more plan, not an exception.

The way of a job: `ready` while parties accept; `waiting` in the queue; when the queue lets it (`BeginRound`, the ready
signal) every seat is checked and asked to reserve; refused anywhere, the others give back and the reservation round
ends with a reason to wait; held everywhere, every seat is started; started everywhere, the job is running. A job that
is to end early goes through `stopping`: every seat is told, drains, and only then the job ends. A rerun (rerun.py) has
it wait again; it has no reservation round before every party has taken its seat in the next run.
"""

from __future__ import annotations

from collections.abc import Iterator

from fate_flow.core.model.job import CommandKind
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, SeatStatus
from fate_flow.core.planning.actions import Action, Forget, MoveJob, Plan
from fate_flow.core.planning.party_return import comes_back, plan_return
from fate_flow.core.planning.plan_policy import plan_matches
from fate_flow.core.planning.plan_round import plan_waiting
from fate_flow.core.planning.plan_stop import end, plan_stopping
from fate_flow.core.planning.view import JobView, others, send


def plan_job(view: JobView) -> Plan:
    """What the initiator does next. Asking twice gives the same answer twice."""
    return tuple(_PLANNERS[view.job.status](view))


def _plan_ready(view: JobView) -> Iterator[Action]:
    refused = [seat for seat in view.seats if seat.status is SeatStatus.REFUSED]
    if refused:
        message = "; ".join(f"{seat.party}: {seat.message}" for seat in refused)
        yield from end(view, Reason.PARTY_REFUSED, message, caused_by=str(refused[0].party))
    elif view.job.reason is not None:
        yield from end(view, view.job.reason, view.job.message)
    elif all(seat.status is SeatStatus.JOINED for seat in view.seats):
        yield MoveJob(JobStatus.WAITING)
        for seat in others(view):
            yield send(view, seat, CommandKind.STATUS, argument=JobStatus.WAITING.value)


_GONE = frozenset({SeatStatus.LEFT, SeatStatus.REFUSED, SeatStatus.UNCONFIRMED})


def _plan_ended(view: JobView) -> Iterator[Action]:
    """A submit that was refused leaves nothing behind; a job that lost a party may wait for its return."""
    if comes_back(view):
        yield from plan_return(view)
        return
    is_first = view.job.run == 0 and view.job.round_number == 0
    never_accepted = is_first and view.job.reason is Reason.PARTY_REFUSED
    if never_accepted and all(seat.status in _GONE for seat in view.seats):
        yield Forget()


_PLANNERS = {
    JobStatus.READY: _plan_ready,
    JobStatus.WAITING: plan_waiting,
    JobStatus.RUNNING: plan_matches,
    JobStatus.STOPPING: plan_stopping,
    JobStatus.SUCCESS: _plan_ended,
    JobStatus.FAILED: _plan_ended,
    JobStatus.CANCELED: _plan_ended,
    JobStatus.TIMEOUT: _plan_ended,
}
