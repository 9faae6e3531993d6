"""How much the jobs of another party may hold here at once: by its grants, else by its quota.

Own jobs have no limit."""

from __future__ import annotations

from fate_flow.core.access.authority import PARTY_0
from fate_flow.core.access.limits import Grants
from fate_flow.core.model.job import Claim
from fate_flow.core.model.spec import JobSpec
from fate_flow.core.quotas.holding import Held, HoldLimit, Left, sum_of
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.workers.placement import request_at


def is_own(unit: UnitOfWork, initiator: str) -> bool:
    """Return whether a job of this initiator is one of this party."""
    return initiator in (unit.context.party_id, PARTY_0)


def left_for(unit: UnitOfWork, initiator: str) -> Left:
    """Return how much more the jobs of this initiator may hold here, on all engines together."""
    if is_own(unit, initiator):
        return Left()
    grants = unit.grants(initiator)
    return Left(tuple(one for what in Held if (one := _limit(unit, initiator, grants, what)) is not None))


def _limit(unit: UnitOfWork, initiator: str, grants: Grants, what: Held) -> HoldLimit | None:
    granted = granted_of(grants, what)
    total = total_of(unit, what)
    most = unit.context.quotas.most_of(initiator, what, total) if granted is None else granted
    if most is None or (granted is None and most >= total):       # then the engines themselves are the limit
        return None
    is_cores = what is Held.CORES
    held = unit.tx.cores_of_jobs_by(initiator) if is_cores else unit.tx.gpus_of_jobs_by(initiator)
    return HoldLimit(what, most, most - held, granted is not None)


def granted_of(grants: Grants, what: Held) -> int | None:
    """Return how many of them the grants let the jobs of a party hold; None: they do not say."""
    return grants.limits.cores if what is Held.CORES else grants.limits.gpus


def total_of(unit: UnitOfWork, what: Held) -> int:
    """Return how many of them all engines of this party have together."""
    engines = unit.context.engines
    return engines.cores if what is Held.CORES else engines.gpus


def check_quota_of_held(unit: UnitOfWork, spec: JobSpec) -> None:
    """Check that the job asks for no more cores or GPUs than its initiator may hold by its quota. Raises TooMany."""
    initiator = spec.initiator.party_id
    if is_own(unit, initiator):
        return
    grants, asked = unit.grants(initiator), asked_by(unit, spec)
    for what in Held:
        if granted_of(grants, what) is None:
            unit.context.quotas.check_held(initiator, what, what.of(asked), total_of(unit, what))


def asked_by(unit: UnitOfWork, spec: JobSpec) -> Claim:
    """Return what all seats of this party in the job ask for together."""
    requests = (request_at(unit.context, spec, one) for one in spec.parties if one.party_id == unit.context.party_id)
    return sum_of(Claim(one.cores, one.memory, gpus=one.gpus) for one in requests)
