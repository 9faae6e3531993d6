"""What this party says of its engines to the initiators of jobs, if it has several: tags in place of names."""

from __future__ import annotations

from fate_flow.core.access.authority import PARTY_0
from fate_flow.core.model.job import Job
from fate_flow.core.model.spec import JobSpec, Party
from fate_flow.core.planning.queue import Place
from fate_flow.core.quotas.queues import tag_of
from fate_flow.core.wire.v1.job_answers import PlaceState
from fate_flow.services.context.ports import Context
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.workers.holding import left_for
from fate_flow.services.workers.placement import asked_by_engine, requests_at


def tag_here(context: Context, engine: str) -> str:
    """Return the tag of an engine of this party; empty if it has only one, which needs none."""
    return tag_of(context.party_id, engine) if len(tuple(context.engines)) > 1 else ""


def engine_at(context: Context, place: Place) -> str:
    """Return the name of the engine of this party that has the tag; empty for a place of another party."""
    if place.party_id != context.party_id or not place.tag:
        return ""
    return next((name for name in context.engines if tag_here(context, name) == place.tag), "")


def places_of(unit: UnitOfWork, job: Job) -> dict[str, PlaceState]:
    """Return what this seat asks of each engine, and how much of it is free for its initiator, by tag; nothing if this
    party has only one engine, or if the initiator speaks plain v1."""
    found: dict[str, PlaceState] = {}
    left = None
    for name, asked in asked_by_engine(unit, job).items() if not job.is_plain_v1 else ():
        tag, engine = tag_here(unit.context, name), unit.tx.engine(name)
        if tag and engine is not None:
            left = left or left_for(unit, job.initiator.party_id)
            found[tag] = PlaceState(asked.cores, left.cores_of(engine.free_cores))
    return found


def asks_here(context: Context, spec: JobSpec, seat: Party) -> dict[str, int]:
    """Return how many cores a seat of this party reserves on each engine, by tag; nothing if it has only one engine, or
    if the seat is one of another party, which says so itself."""
    if seat.party_id not in (context.party_id, PARTY_0) or not tag_here(context, context.engines.default):
        return {}
    return {tag_here(context, name): one.cores for name, one in requests_at(context, spec, seat).items()}


def free_at_engines(unit: UnitOfWork) -> dict[Place, int]:
    """Return how many cores each engine of this party has free."""
    states = ((name, unit.tx.engine(name)) for name in unit.context.engines)
    own = unit.context.party_id
    return {Place(own, tag_here(unit.context, name)): one.free_cores for name, one in states if one is not None}
