"""Reservations at this party: the check before, `apply` and `return`.

What they decide is in `core/planning/participant/reservation.py`.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

from fate_flow.core.access.authority import party_id_of
from fate_flow.core.model.job import Answer, Claim, Command, EngineState, Job
from fate_flow.core.model.resources import name_in_fate
from fate_flow.core.planning.participant.reservation import (
    ApplyThere,
    ApplyView,
    PendingHead,
    Shortage,
    StandBehind,
    answer_check,
    beyond_limit,
    by_engine,
    granted,
    no_engine,
    not_reserved,
    only_renews,
    plan_apply,
    shortage,
    stays_pending,
    still_needed,
    why_not_applied,
    why_not_returned,
)
from fate_flow.core.planning.queue import fits
from fate_flow.core.quotas.holding import Held, Left, sum_of
from fate_flow.core.wire.v1.job_answers import left_data, places_data
from fate_flow.core.wire.v1.job_bodies import RoundBody, read_return, read_round
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.ports import Rules
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.participant.ends import note_resource, release
from fate_flow.services.participant.rows import OK, place_of
from fate_flow.services.workers.elastic import head_of_pending, reclaim_capacity, reclaim_from
from fate_flow.services.workers.holding import left_for
from fate_flow.services.workers.placement import asked_by_engine, engine_for
from fate_flow.services.workers.places import places_of, tag_here


def check(unit: UnitOfWork, command: Command, job: Job) -> Answer:
    return answer_check(job, read_round(command.body).revision, unit.tx.intake_hold())


def apply(unit: UnitOfWork, command: Command, job: Job) -> Answer:
    asked = read_round(command.body)
    return _apply_ahead(unit, job, asked) if asked.is_ahead else _apply(unit, job, asked)


def _apply_ahead(unit: UnitOfWork, job: Job, asked: RoundBody) -> Answer:
    """Reserve for a job that not all have accepted yet. If that is not possible now, nothing is left of the try: the
    initiator applies when it is the job's turn, and only then does its request become pending."""
    try:
        with unit.part():
            answer = _apply(unit, job, asked)
            if not answer.is_ok:
                raise _NotNow
    except _NotNow:
        pass
    return answer


class _NotNow(Exception):
    """The party does not reserve now."""


def _apply(unit: UnitOfWork, job: Job, asked: RoundBody) -> Answer:
    round_number = job.claim.round_number if asked.round_number is None else asked.round_number
    if only_renews(job):
        unit.tx.renew_claim(job.key, round_number)
        return _granted(unit, job, job.claim.engine)
    refusal = why_not_applied(job, asked.revision, unit.tx.intake_hold(), is_ahead=asked.is_ahead)
    if refusal is not None:
        return refusal
    missing = next((one for one in asked_by_engine(unit, job) if one not in unit.context.engines), None)
    if missing is not None:
        return _without_engine(unit, job, missing)
    left = left_for(unit, job.initiator.party_id)
    if not left.admits(job.asked):
        return _beyond_limit(unit, job, left, asked.order)
    step = plan_apply(_view_of(unit, job, asked.order))
    if isinstance(step, StandBehind):
        return _stand_behind(unit, job, step, asked.order)
    for passed in step.passed:      # before the rows of engines are written: rows of jobs first, as in `reserve`
        unit.tx.count_bypass(passed.key)
    try:
        with unit.part() if left.limits else nullcontext():
            is_reserved = _reserve(unit, job, round_number, is_limited=bool(left.limits))
    except _HoldsTooMuch as error:
        return _beyond_limit(unit, job, error.left, asked.order)
    return _granted(unit, job, engine_for(unit, job)) if is_reserved else _short(unit, job, asked.order)


class _HoldsTooMuch(Exception):
    """The jobs of the initiator would hold more than they may; `left`: before the reservation."""

    def __init__(self, left: Left) -> None:
        super().__init__()
        self.left = left


def _reserve(unit: UnitOfWork, job: Job, round_number: int, *, is_limited: bool) -> bool:
    """Reserve; False if the capacity does not suffice. Raises _HoldsTooMuch."""
    token, asked = unit.context.fresh_id(), job.asked
    if not unit.tx.reserve(
        job.key, engine_for(unit, job), asked.cores, asked.memory, token, round_number, unit.now, asked.gpus,
        asked.elsewhere,
    ):
        return False
    # On MySQL, another process may have reserved for the same initiator since. Now the row of the engine is locked.
    left = left_for(unit, job.initiator.party_id).before(asked) if is_limited else Left()
    if not left.admits(asked):
        raise _HoldsTooMuch(left)
    return True


def _beyond_limit(unit: UnitOfWork, job: Job, left: Left, order: int | None) -> Answer:
    """Refuse a job whose initiator may hold no more. Its request becomes pending: it is told when it may, and
    until then nothing is kept for it (`head_of_pending`)."""
    engine, initiator = _engine_of(unit, job), job.initiator.party_id
    if engine is None:
        return no_engine()
    _note_refusal(unit, job)
    limit = left.refusing(job.asked)
    assert limit is not None, "it is refused by a limit"
    what = limit.what
    why = (
        f"has granted party {initiator} no more {what.noun}s at once" if limit.is_granted
        else unit.context.quotas.too_few_left(initiator, what, max(0, limit.left), what.of(job.asked))
    )
    found, quota = beyond_limit(why, unit.tx.jobs_here(job.job_id), limit), "" if limit.is_granted else what.share
    free_cores = left.cores_of(engine.free_cores)
    if found.is_lasting:
        unit.tx.forget_pending(job.key)
        return not_reserved(job, found, free_cores, quota=quota, places=places_of(unit, job))
    unit.tx.pending(job.key, unit.steady, order)
    missing = what.of(sum_of(needed_here(unit, job).values())) - limit.left
    is_coming = reclaim_from(unit, initiator, Claim(missing) if what is Held.CORES else Claim(gpus=missing))
    return not_reserved(job, found, free_cores, is_coming=is_coming, quota=quota, places=places_of(unit, job))


def _view_of(unit: UnitOfWork, job: Job, order: int | None) -> ApplyView:
    places = []
    for name, asked in asked_by_engine(unit, job).items():
        engine, head = unit.tx.engine(name), head_of_pending(unit, name)
        if engine is not None:
            pending = None if head is None else PendingHead(head, needed_here(unit, head).get(name, Claim()))
            places.append(ApplyThere(engine, asked, pending))
    return ApplyView(job, order, tuple(places), unit.context.rules.queue_passes)


def _engine_of(unit: UnitOfWork, job: Job) -> EngineState | None:
    return unit.tx.engine(engine_for(unit, job))


def _without_engine(unit: UnitOfWork, job: Job, engine: str) -> Answer:
    """Refuse a job whose engine was taken out of the configuration; only this party's own users learn which one."""
    why = unit.why_no_engine(engine) if _is_own(unit, job) else "cannot run the job now"
    return not_reserved(job, Shortage(why), 0)


def _is_own(unit: UnitOfWork, job: Job) -> bool:
    own = unit.context.party_id
    return party_id_of(job.initiator, own) == own


def needed_here(unit: UnitOfWork, job: Job) -> dict[str, Claim]:
    """Return what all seats of the job here still have to reserve on each engine."""
    return still_needed(unit.tx.jobs_here(job.job_id), unit.context.engines.default)


def _stand_behind(unit: UnitOfWork, job: Job, step: StandBehind, order: int | None) -> Answer:
    unit.tx.pending(job.key, unit.steady, order)
    _note_refusal(unit, job)
    found = Shortage(step.why, short_at=tag_here(unit.context, step.engine))
    return not_reserved(job, found, 0, places=places_of(unit, job))


def _granted(unit: UnitOfWork, job: Job, engine_name: str) -> Answer:
    engine = unit.tx.engine(engine_name)
    assert engine is not None, "a reservation needs an engine"
    note_resource(unit, job, "apply", job.asked, engine)
    return granted(job, _free_for(unit, job, engine), hold_of(unit.context.rules, job), places_of(unit, job))


def _free_for(unit: UnitOfWork, job: Job, engine: EngineState) -> int:
    """Return how many cores are free for the initiator of the job; its queue plans with that."""
    return left_for(unit, job.initiator.party_id).cores_of(engine.free_cores)


def hold_of(rules: Rules, job: Job) -> int:
    """Return for how many milliseconds this party keeps the reservation of a job that does not start."""
    return rules.plain_hold if job.is_plain_v1 else rules.hold


def _short(unit: UnitOfWork, job: Job, order: int | None) -> Answer:
    lacking = _lacking(unit, job)
    if not lacking:
        return no_engine()
    _note_refusal(unit, job)
    of_job, several = by_engine(unit.tx.jobs_here(job.job_id), unit.context.engines.default), unit.context.engines
    found = [
        replace(
            shortage(asked, of_job[engine.name], engine, is_own=_is_own(unit, job), names_it=len(tuple(several)) > 1),
            short_at=tag_here(unit.context, engine.name),
        )
        for engine, asked in lacking
    ]  # fmt: skip
    hardest = next((one for one in found if one.is_lasting), found[0])
    first = lacking[found.index(hardest)][0]
    if hardest.is_lasting:
        unit.tx.forget_pending(job.key)
        return not_reserved(job, hardest, first.free_cores, places=places_of(unit, job))
    unit.tx.pending(job.key, unit.steady, order)
    needed = needed_here(unit, job)
    is_coming = reclaim_capacity(unit, [(engine, needed[engine.name]) for engine, _ in lacking])
    return not_reserved(job, hardest, first.free_cores, is_coming=is_coming, places=places_of(unit, job))


def _lacking(unit: UnitOfWork, job: Job) -> list[tuple[EngineState, Claim]]:
    """Return the engines that have too little for the job, with what it asks of each. If each has enough by now, since
    another process has just released something: the first one."""
    asked = [(unit.tx.engine(name), claim) for name, claim in asked_by_engine(unit, job).items()]
    known = [(engine, claim) for engine, claim in asked if engine is not None]
    return [(engine, claim) for engine, claim in known if not fits(claim, engine.free)] or known[:1]


def _note_refusal(unit: UnitOfWork, job: Job) -> None:
    engine = name_in_fate(engine_for(unit, job))
    unit.note(Event.RESOURCE_ENGINE_FAILED, job_id=job.job_id, operation="apply", engine=engine, **place_of(job))
    unit.note(
        Event.RESOURCE_FAILED, job_id=job.job_id, operation="apply", cores=job.asked.cores, memory=job.asked.memory,
        **place_of(job),
    )  # fmt: skip


def give_back(unit: UnitOfWork, command: Command, job: Job) -> Answer:
    """Release a reservation that was not started."""
    refusal = why_not_returned(job)
    if refusal is not None:
        return refusal
    asked = read_return(command.body)
    if release(unit, job, asked.round_number):
        _keep_or_forget_pending(unit, job, stays_pending(job, asked.still_wants))
    return what_is_left(unit, job)


def _keep_or_forget_pending(unit: UnitOfWork, job: Job, is_kept: bool | None) -> None:
    if is_kept is True:
        unit.tx.pending(job.key, unit.steady)
    elif is_kept is False:
        unit.tx.forget_pending(job.key)


def what_is_left(unit: UnitOfWork, job: Job) -> Answer:
    """Answer after a release with the number of free cores, so that the initiator asks for no more than these."""
    engine = _engine_of(unit, job)
    unit.inform(job.initiator.party_id)
    if engine is None:
        return OK
    return Answer(data={**left_data(_free_for(unit, job, engine)), **places_data(places_of(unit, job))})
