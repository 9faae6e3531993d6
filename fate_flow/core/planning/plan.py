"""What the initiator does next about one job: a view goes in, a plan comes out.

The plan follows from the state alone. So the same view gives the same plan, and a lost action is planned again. A plan
is a tuple of actions; `services/initiator` carries them out in one transaction and sends the commands after its commit.
The rollback of a reservation is a plan, not an exception.

The path of a job: it is `ready` while parties accept it, and `waiting` in the queue. If it is likely to be admitted at
once, other parties are asked to reserve in the request that invites them, and to release that if it is not admitted.
When the queue admits it (`BeginRound`, the ready signal), every seat is checked and asked to reserve. If one refuses,
the others release, and the reservation round ends with a reason to wait. If all hold a reservation, every seat is
started; when all have started, the job is `running`. A job that ends early goes through `stopping`: every seat is told
to stop and drains, and then the job ends. A rerun (rerun.py) makes the job wait again; it has no reservation round
until every party has taken its seat in the next run.
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
    """Return what the initiator does next; the same for the same view."""
    return tuple(_PLANNERS[view.job.status](view))


def _plan_ready(view: JobView) -> Iterator[Action]:
    refused = [seat for seat in view.seats if seat.status is SeatStatus.REFUSED]
    if refused:
        message = "; ".join(f"{seat.party}: {seat.message}" for seat in refused)
        yield from end(view, Reason.PARTY_REFUSED, message, caused_by=str(refused[0].party))
    elif view.job.reason is not None:
        yield from end(view, view.job.reason, view.job.message)
    elif all(seat.status in (SeatStatus.JOINED, SeatStatus.HELD) for seat in view.seats):
        yield MoveJob(JobStatus.WAITING)
        for seat in others(view):
            yield send(view, seat, CommandKind.STATUS, argument=JobStatus.WAITING.value)


_GONE = frozenset({SeatStatus.LEFT, SeatStatus.REFUSED, SeatStatus.UNCONFIRMED})


def _plan_ended(view: JobView) -> Iterator[Action]:
    """Remove a refused submit; make a job that lost a party wait for its return, if its retry rule says so."""
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
