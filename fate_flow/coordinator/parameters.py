"""Other parameters for a job that has not begun, or is over: at its initiator, and at each of its parties.

The initiator counts its changes (`f_revision`). It tells every party at once, and once more with the rerun itself, so
that a party which has missed the news takes parameters and run together or not at all; a waiting job has no turn at a
party that lacks a revision. A plain v1 party is told before the rerun, in the order in which it is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fate_flow.audit.events import Event
from fate_flow.coordinator.party.admission import accept
from fate_flow.coordinator.unit import Unit, read_spec
from fate_flow.core.approval import Approval, Consent
from fate_flow.core.errors import BadRequest, NotEffective, OperationFailed
from fate_flow.core.fate_v1 import effective_document
from fate_flow.core.grammar import check_version, shown
from fate_flow.core.history import Level
from fate_flow.core.job import NOT_EFFECTIVE, Answer, Claim, Command, CommandKind, Job
from fate_flow.core.parameters import KINDS, Change, changed_components, changed_conf, parts_of
from fate_flow.core.rerun import KEPT
from fate_flow.core.resources import request_of
from fate_flow.core.spec import JobSpec, Party
from fate_flow.core.status import JobStatus, SeatStatus
from fate_flow.core.verdict import STILL_ENDS
from fate_flow.store.contract import Document


@dataclass(frozen=True)
class Revised:
    """A job as a change makes it."""

    document: Document
    spec: JobSpec
    components: tuple[str, ...]          # whose own parameters are others now
    base: int                            # the revision that the change is made to
    is_news: bool                        # anything is otherwise
    plain: tuple[Party, ...]             # parties that speak plain v1


def preview_change(unit: Unit, job: Job, change: Change) -> Revised:
    """What the job would be; nothing is written.

    Raises OperationFailed for a job whose parameters cannot be changed now, BadRequest for what cannot be changed, or
    not so."""
    _check_changeable(unit, job)
    document, spec = unit.tx.document(job.job_id), unit.spec(job.job_id)
    assert document is not None, "a job row has its document"
    assert spec is not None, "it was parsed when it was taken"
    revised = replace(document, runtime_conf=changed_conf(spec, change))
    new = read_spec(unit.context, revised)
    components = changed_components(spec, new)
    is_news = parts_of(new.conf) != parts_of(spec.conf)
    plain = tuple(seat.party for seat in unit.tx.seats(job.job_id) if seat.legacy)
    if job.status is JobStatus.WAITING:
        _check_not_done(unit, job, components)
        _check_all_know_revisions(job, plain)
    return Revised(replace(revised, runtime_conf=new.conf), new, components, job.revision, is_news, plain)


def change_parameters(unit: Unit, job: Job, change: Change, base: int, dispatch: Callable[[Command], None]) -> Revised:
    """The job is so from now on, at this party and, as soon as they hear of it, at all others.

    `base`: the revision that the client has seen previewed. Raises as `preview_change`; Refused when this party does
    not take part in such a job."""
    revised = preview_change(unit, job, change)
    if revised.base != base:
        raise OperationFailed(f"job {job.job_id}: somebody else has changed its parameters meanwhile; try again")
    if not revised.is_news:
        return revised
    revision = job.revision + 1
    # What waits has all of them before it; what is over has to make them again.
    anew = {*job.changed, *(revised.components if job.is_final else ())}
    changed = tuple(name for name in revised.spec.tasks if name in anew)
    terms = _Terms(revision, revised.document, revised.spec, revised.components, changed)
    _revise(unit, job, terms)
    nodes = unit.context.engine_size.nodes
    body = {**parts_of(revised.spec.conf), "components": list(revised.components), "revision": revision}
    for seat in unit.tx.seats(job.job_id):
        unit.tx.ask_for(seat, request_of(seat.party, revised.spec.parameters[seat.party], nodes).cores)
        if seat.party != job.party:
            dispatch(Command(CommandKind.PARAMETERS, job.job_id, seat.party, job.run, body=body))
    return revised


def take_parameters(unit: Unit, job: Job, body: Mapping[str, Any]) -> Answer:
    """What a party does with the parameters that its initiator sends: `parameter/update`, or a part of a rerun.

    A revision that it has already changes nothing. Raises FlowError for parameters that it does not agree to."""
    given = body.get("revision")
    revision = job.revision + 1 if given is None else check_version(given, "revision")
    if revision <= job.revision:
        return Answer()
    if not (job.is_final or (job.status is JobStatus.WAITING and not job.holds)):
        return Answer(NOT_EFFECTIVE, f"{job.key} is {job.status.value}", {STILL_ENDS: True})
    parts = {kind: body.get(kind) for kind in KINDS}
    for kind, value in parts.items():
        if not isinstance(value, Mapping):
            raise BadRequest(f"{kind}: {shown(value)} is not an object")
    document = unit.tx.document(job.job_id)
    assert document is not None, "a job row has its document"
    document = replace(document, runtime_conf={**document.runtime_conf, **parts})
    spec, named = read_spec(unit.context, document), body.get("components")
    components = tuple(name for name in spec.tasks if isinstance(named, list) and name in named)
    _revise(unit, job, _Terms(revision, document, spec, components))
    return Answer()


@dataclass(frozen=True)
class _Terms:
    """What a row takes."""

    revision: int
    document: Document
    spec: JobSpec
    components: tuple[str, ...]          # that are others by this revision
    changed: tuple[str, ...] = ()        # that the next run has to make again


def _revise(unit: Unit, job: Job, terms: _Terms) -> None:
    """One row takes them, on record. Whoever has to approve the job here has to approve it anew."""
    spec, revision = terms.spec, terms.revision
    request = accept(unit, spec, job.party)
    new = replace(
        job, asked=Claim(request.cores, request.memory), timeout_seconds=spec.common.timeout_seconds,
        revision=revision, changed=terms.changed,
    )  # fmt: skip
    document = replace(terms.document, on_party=effective_document(spec, job.party))
    if not unit.tx.revise(job, new, document):
        # To be asked again: then the row shows what another process has made of it.
        raise NotEffective(f"{job.key} has moved on", data={STILL_ENDS: True})
    unit.revisions.pop(job.job_id, None)
    if job.consent is not None:
        unit.tx.decide_consent(job.key, Consent(Approval.PENDING))
    named = f": {', '.join(terms.components)}" if terms.components else ""
    words = f"its parameters were changed (revision {revision}{named})"
    unit.moves(
        Level.JOB, job.job_id, job.status, job.status, party=job.party, message=words, caused_by=str(job.initiator)
    )
    unit.note(Event.JOB_NOTE, job_id=job.job_id, text=f"{job.key}: {words}")
    context, key = unit.context, job.key
    unit.after_commit(lambda: context.files.write_confs(key, document))


def _check_changeable(unit: Unit, job: Job) -> None:
    """Raises OperationFailed unless the job waits for its turn, or is over."""
    if job.is_final:
        return
    if job.status is not JobStatus.WAITING:
        raise OperationFailed(
            f"job {job.job_id} is {job.status.value}: the parameters of a job that waits or is over can be changed; "
            "flow job stop ends it, and flow job rerun begins it again with the new ones"
        )
    why = _why_not_now(unit, job)
    if why:
        raise OperationFailed(f"job {job.job_id} {why}")


def _why_not_now(unit: Unit, job: Job) -> str:
    """What a waiting job is in the middle of, and what can be done; empty: nothing. Between two attempts it is in the
    middle of nothing once all parties know that it waits."""
    if job.reason is not None:
        return "is being stopped: flow job rerun begins it again with the new parameters when it is over"
    is_told = all(seat.status is SeatStatus.JOINED for seat in unit.tx.seats(job.job_id))
    if job.rerun_signal and not (job.pauses and is_told):
        return "waits again, and not all of its parties have confirmed that yet: try again in a moment"
    if job.ready_owner or any(row.holds for row in unit.tx.jobs_here(job.job_id)):
        return "asks for its cores just now: try again in a moment; flow job hold keeps it waiting"
    return ""


def _check_not_done(unit: Unit, job: Job, components: tuple[str, ...]) -> None:
    """Raises OperationFailed for a component that this run does not begin any more."""
    done = [task.key.name for task in unit.tx.tasks(job.job_id) if task.status in KEPT]
    late = [name for name in components if name in done]
    if late:
        raise OperationFailed(
            f"component_parameters: {late[0]} has succeeded, and this run of job {job.job_id} keeps that; "
            "flow job stop ends the run, and flow job rerun takes it up with the new parameters"
        )


def _check_all_know_revisions(job: Job, plain: tuple[Party, ...]) -> None:
    """Raises OperationFailed for a party that may be asked for its cores before it has heard of the change."""
    if plain:
        raise OperationFailed(
            f"job {job.job_id} waits, and {plain[0]} speaks plain FATE v1, to which it cannot be changed meanwhile: "
            "flow job stop ends it, and flow job rerun begins it again with the new parameters"
        )
