"""What a participant decides when an initiator checks, applies for or returns a reservation.

`services/participant/reserving.py` reads the rows and carries the decisions out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from fate_flow.core.model.approval import Approval, Consent
from fate_flow.core.model.errors import NO_CAPACITY, NOT_EFFECTIVE, NOT_READY
from fate_flow.core.model.job import Answer, Claim, EngineState, Hold, Job
from fate_flow.core.model.status import JobStatus
from fate_flow.core.planning.queue import fits, takes_from
from fate_flow.core.quotas.holding import HoldLimit, sum_of
from fate_flow.core.text.phrases import counted
from fate_flow.core.wire.v1.job_answers import (
    ONE_PLACE,
    PlaceState,
    approved_data,
    awaits_data,
    granted_data,
    no_capacity_data,
    places_data,
    rejected_data,
)

# ---------------------------------------------------------------------- whether this party reserves for the job at all


def answer_check(job: Job, revision: int, hold: Hold | None) -> Answer:
    """Answer the dependence check: whether the job could reserve here now. There are no dependencies to install.

    `revision`: that of the initiator's parameters; `hold`: of all new reservations at this party."""
    if job.is_final:
        return Answer(103, f"{job.key} is {job.status.value}")
    return why_not_current(job, revision) or why_not_ready(job, hold) or _ready(job)


def why_not_current(job: Job, revision: int) -> Answer | None:
    """Return the refusal of a command of an initiator whose parameters are newer; None if the row has them."""
    if revision <= job.revision:
        return None
    return Answer(NOT_READY, f"it has parameters of revision {job.revision}, and not yet those of {revision}")


def _ready(job: Job) -> Answer:
    consent = None if job.is_plain_v1 else job.consent
    return Answer(data=approved_data(consent.text)) if consent is not None and consent.is_given else Answer()


def why_not_ready(job: Job, hold: Hold | None) -> Answer | None:
    """Return why this party reserves nothing for the job now, such as a missing approval or a hold; None if it does."""
    if job.holds:
        return None
    if job.consent is not None and not job.consent.is_given:
        return not_approved(job, job.consent)
    return None if hold is None else Answer(NOT_READY, hold.text)


def not_approved(job: Job, consent: Consent) -> Answer:
    if consent.approval is Approval.REJECTED:
        return Answer(103, consent.text, rejected_data())
    data = awaits_data(awaits_approval=is_awaited(job))
    who = "only one of two people" if consent.is_first else "nobody"
    return Answer(NOT_READY, f"{who} at {job.party} has approved job {job.job_id} yet", data)


def is_awaited(job: Job) -> bool:
    """Return whether this party has not decided about the job yet."""
    return job.consent is not None and job.consent.approval is Approval.PENDING


# ---------------------------------------------------------------------- `apply`


def only_renews(job: Job) -> bool:
    """Return whether an `apply` finds the reservation made: it only renews it."""
    return job.holds and job.status in (JobStatus.READY, JobStatus.WAITING, JobStatus.RUNNING)


def why_not_applied(job: Job, revision: int, hold: Hold | None, *, is_ahead: bool = False) -> Answer | None:
    """Return the refusal of an `apply` that does not depend on the capacity; None if there is none.

    It refuses whatever the check refuses: the initiator may send both in one request. `revision`: that of the
    initiator's parameters; `hold`: of all new reservations at this party; `is_ahead`: it came with `create`. One of
    these that comes late reserves nothing."""
    wanted = JobStatus.READY if is_ahead else JobStatus.WAITING
    if job.status is not wanted:
        return Answer(103, f"{job.key} is {job.status.value}, not {wanted.value}")
    return why_not_current(job, revision) or why_not_ready(job, hold)


@dataclass(frozen=True)
class PendingHead:
    """The seat at the head of the pending requests at this party."""

    job: Job
    needed: Claim        # what all seats of its job here still have to reserve on this engine


@dataclass(frozen=True)
class ApplyThere:
    """One engine on which a job reserves: what it has, what the job asks of it, and who is at the head there."""

    engine: EngineState
    asked: Claim
    head: PendingHead | None


@dataclass(frozen=True)
class ApplyView:
    """What a participant knows when a job applies for capacity that it does not hold yet."""

    job: Job
    order: int | None            # the job's place in its initiator's queue, as the command states it
    places: tuple[ApplyThere, ...]     # each registered engine on which it reserves
    most_passes: int             # how often a head may be passed


@dataclass(frozen=True)
class StandBehind:
    """Refuse the job, because the capacity is kept for the head. The request becomes pending."""

    why: str
    engine: str          # of which the head waits for capacity


@dataclass(frozen=True)
class Reserve:
    """Reserve, if the capacity suffices; `passed`: the heads that the job passes, and that count it."""

    passed: tuple[Job, ...] = ()


def plan_apply(view: ApplyView) -> StandBehind | Reserve:
    """Decide whether the job may take capacity before the heads of the pending requests."""
    passed = {}
    for engine, head in _who_would_be_blocked(view):
        if head.pending.passes >= view.most_passes:
            # The text does not name the older job, because it may belong to a third party.
            passes = counted(head.pending.passes, "time")
            return StandBehind(f"keeps its capacity for an older job, which has been passed there {passes}", engine)
        passed[head.key] = head
    return Reserve(tuple(passed.values()))


def _who_would_be_blocked(view: ApplyView) -> Iterator[tuple[str, Job]]:
    """Yield the engines and the seats at the heads of the pending requests here from which this job takes capacity.

    There is none if this job does not fit on all its engines. A head does not count if this job waits for longer, if
    the head could not be served even by an idle engine, or if both have the same initiator and its queue has this job
    first."""
    if not all(fits(there.asked, there.engine.free) for there in view.places):
        return
    for there in view.places:
        if there.head is not None and not _goes_before(view, there.head.job):
            needed = there.head.needed
            if fits(needed, there.engine.in_all) and takes_from(there.asked, needed, there.engine.free):
                yield there.engine.name, there.head.job


def _goes_before(view: ApplyView, head: Job) -> bool:
    job, order = view.job, view.order
    if job.job_id == head.job_id:
        return True
    if job.pending.since and (job.pending.since, job.job_id) < (head.pending.since, head.job_id):
        return True
    return order is not None and order < head.queue_key and job.initiator.party_id == head.initiator.party_id


def still_needed(seats: Iterable[Job], default: str) -> dict[str, Claim]:
    """Return what the seats of one job at this party still have to reserve together on each engine; `default`: the name
    of the default one."""
    return by_engine((seat for seat in seats if not seat.holds and not seat.is_final), default)


def by_engine(seats: Iterable[Job], default: str) -> dict[str, Claim]:
    """Return what all these seats ask for together on each engine."""
    found: dict[str, list[Claim]] = {}
    for seat in seats:
        for engine, claim in seat.asked.by_engine(default).items():
            found.setdefault(engine, []).append(claim)
    return {engine: sum_of(claims) for engine, claims in found.items()}


def granted(job: Job, free_cores: int, lease_milliseconds: int, places: Mapping[str, PlaceState] = ONE_PLACE) -> Answer:
    """Answer an `apply` that reserved; `free_cores`: for the initiator, after it; `places`: the same by engine."""
    data = granted_data(job.asked.cores, job.asked.memory, free_cores, lease_milliseconds / 1000)
    return Answer(data={**data, **places_data(places)})


# ---------------------------------------------------------------------- too little capacity


def no_engine() -> Answer:
    return Answer(103, "no computing engine is registered", no_capacity_data("has no computing engine"))


@dataclass(frozen=True)
class Shortage:
    """Why the capacity does not suffice; `is_lasting`: not even an idle engine would do, so the job does not wait;
    `short_at`: the tag of the engine, if there are several."""

    why: str
    is_lasting: bool = False
    short_at: str = ""


def shortage(asked: Claim, of_job: Claim, engine: EngineState, *, is_own: bool, names_it: bool = False) -> Shortage:
    """Return what the engine has too little of for what a seat asks of it.

    `of_job`: what all seats of the job at this party ask of it; `is_own`: the initiator is a seat of this party. Other
    parties may learn the number of cores, because initiators plan their queues by it, and that of GPUs, which they ask
    for in the same way. They do not plan by memory, so only this party's own users learn its size, and which engine it
    is (`names_it`: there are several)."""
    where = f" on engine {engine.name}" if is_own and names_it else ""
    why = _shortage_text(asked, engine, where, is_own=is_own)
    if fits(of_job, engine.in_all):
        return Shortage(why)
    return Shortage(f"{why}: the job asks for more than it has in all", is_lasting=True)


def _shortage_text(asked: Claim, engine: EngineState, where: str, *, is_own: bool) -> str:
    if engine.free_cores < asked.cores:
        return f"has {engine.free_cores} of {engine.cores} cores free{where}, {asked.cores} asked"
    if engine.free.gpus < asked.gpus:
        return f"has {engine.free.gpus} of {counted(engine.gpus, 'GPU')} free{where}, {asked.gpus} asked"
    if is_own:
        return f"has {engine.free.memory} of {engine.memory} MB of memory free{where}, {asked.memory} asked"
    return f"has too little memory free, {asked.memory} MB asked"


def beyond_limit(why: str, seats: Iterable[Job], limit: HoldLimit) -> Shortage:
    """Return what the job lacks whose initiator may hold no more here at once than the limit says."""
    return Shortage(why, is_lasting=limit.what.of(sum_of(seat.asked for seat in seats)) > limit.most)


def not_reserved(
    job: Job, found: Shortage, free_cores: int, *, is_coming: bool = False, quota: str = "",
    places: Mapping[str, PlaceState] = ONE_PLACE,
) -> Answer:
    """Answer an `apply` that reserved nothing; `is_coming`: elastic workers end to make room for the job; `quota`: the
    key of the quota that is the reason; `places`: the engines of the job, by tag."""
    why = f"{found.why}; elastic workers are giving theirs back" if is_coming else found.why
    data = no_capacity_data(why, free_cores, never=found.is_lasting, quota=quota)
    data |= places_data(places, found.short_at)
    return Answer(NO_CAPACITY, f"apply for job {job.job_id} resource failed", data)


# ---------------------------------------------------------------------- `return`


def why_not_returned(job: Job) -> Answer | None:
    """Return the refusal of a `return`; None if the reservation can be released. A running job releases its reservation
    when it ends."""
    if job.status is JobStatus.RUNNING:
        return Answer(NOT_EFFECTIVE, f"{job.key} is running: its end returns what it holds")
    return None


def stays_pending(job: Job, still_wants: bool | None) -> bool | None:
    """Return whether a request whose reservation was released stays pending; None: it is left as it is.

    `still_wants`: the job still waits for capacity at another party, as the command states it; False: it waits for
    something else; None: the command states nothing."""
    return still_wants if job.pending.since else None
