"""Other parameters for a job that has not begun, or is over: at its initiator, and at each of its parties.

The initiator counts its changes (`f_revision`). It tells every party at once, and once more with the rerun itself, so
that a party which has missed the message takes parameters and run together or not at all; a waiting job has no
reservation round at a party that lacks a revision. A plain v1 party is told before the rerun, in the order in which it
is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fate_flow.core.access.authority import JobBinding, Said, difference, document_digest, objection, party_id_of
from fate_flow.core.model.approval import Approval, Consent
from fate_flow.core.model.errors import BadRequest, NotEffective, OperationFailed, PermissionDenied
from fate_flow.core.model.grammar import check_version, shown
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import Answer, Claim, Command, CommandKind, Job
from fate_flow.core.model.resources import request_of
from fate_flow.core.model.spec import CONF_PARTS, JobSpec, Party
from fate_flow.core.model.status import JobStatus, SeatStatus
from fate_flow.core.planning.replies import STILL_ENDS
from fate_flow.core.planning.rerun import KEPT
from fate_flow.jobspec.fate_v1.reader import effective_document
from fate_flow.jobspec.parameters import Change, changed_components, changed_conf
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.effects import WriteConfs
from fate_flow.services.context.unit_of_work import UnitOfWork, digest_of, read_spec
from fate_flow.services.participant.admission import Admitted, accept, request
from fate_flow.store.values import Document


@dataclass(frozen=True)
class Revised:
    """A job as a change makes it."""

    document: Document
    spec: JobSpec
    components: tuple[str, ...]          # whose own parameters are others now
    base: int                            # the revision that the change is made to
    is_change: bool                      # anything is otherwise
    plain_v1: tuple[Party, ...]          # parties that speak plain v1
    warnings: tuple[str, ...]            # of the change; those of the job itself were told when it was submitted


def preview_change(unit: UnitOfWork, job: Job, change: Change) -> Revised:
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
    is_change = new.changeable_conf != spec.changeable_conf
    plain_v1 = tuple(seat.party for seat in unit.tx.seats(job.job_id) if seat.is_plain_v1)
    if job.status is JobStatus.WAITING:
        _check_not_done(unit, job, components)
        _check_all_know_revisions(job, plain_v1)
    warnings = tuple(one for one in new.warnings if one not in spec.warnings)
    return Revised(
        replace(revised, runtime_conf=new.conf), new, components, job.revision, is_change, plain_v1, warnings
    )


def change_parameters(
    unit: UnitOfWork, job: Job, change: Change, base: int, dispatch: Callable[[Command], None]
) -> Revised:
    """The job is so from now on, at this party and, as soon as they hear of it, at all others.

    `base`: the revision that the client has seen previewed. Raises as `preview_change`; Refused when this party does
    not take part in such a job."""
    revised = preview_change(unit, job, change)
    if revised.base != base:
        raise OperationFailed(f"job {job.job_id}: somebody else has changed its parameters meanwhile; try again")
    if not revised.is_change:
        return revised
    revision = job.revision + 1
    # What waits has all of them before it; what is over has to make them again.
    anew = {*job.changed, *(revised.components if job.is_final else ())}
    changed = tuple(name for name in revised.spec.tasks if name in anew)
    terms = _Terms(revision, revised.document, revised.spec, revised.components, changed)
    bound = unit.binding(job.job_id)
    assert bound is not None, "a job row has its binding"
    accept(unit, revised.spec)
    _revise(unit, bound, terms)
    nodes = unit.context.engine_size.nodes
    body = {**revised.spec.changeable_conf, "components": list(revised.components), "revision": revision}
    for seat in unit.tx.seats(job.job_id):
        unit.tx.ask_for(seat, request_of(seat.party, revised.spec.parameters[seat.party], nodes).cores)
        if seat.party != job.party:
            dispatch(Command(CommandKind.PARAMETERS, job.job_id, seat.party, job.run, body=body))
    return revised


def take_parameters(unit: UnitOfWork, job: Job, body: Mapping[str, Any]) -> Answer:
    """What a party does with the parameters that its initiator sends: `parameter/update`, or a part of a rerun.

    A revision that it has already changes nothing. Raises FlowError for parameters that it does not agree to."""
    bound, document = unit.binding(job.job_id), unit.tx.document(job.job_id)
    assert bound is not None, "a job row has its binding"
    assert document is not None, "and its document"
    given = body.get("revision")
    revision = bound.revision + 1 if given is None else check_version(given, "revision")
    if revision < bound.revision:
        return Answer()
    parts = {kind: body.get(kind) for kind in CONF_PARTS}
    for kind, value in parts.items():
        if not isinstance(value, Mapping):
            raise BadRequest(f"{kind}: {shown(value)} is not an object")
    document = replace(document, runtime_conf={**document.runtime_conf, **parts})
    offered = replace(bound, digest=digest_of(document), revision=revision)
    if offered == bound or (given is None and offered.digest == bound.digest):
        return Answer()       # plain v1 counts no revisions, and tells each of our seats
    if why := difference(bound, offered):
        raise OperationFailed(why)
    spec, named = read_spec(unit.context, document), body.get("components")
    components = tuple(name for name in spec.tasks if isinstance(named, list) and name in named)
    accept(unit, spec)
    _revise(unit, bound, _Terms(revision, document, spec, components))
    return Answer()


def take_document(unit: UnitOfWork, admitted: Admitted, caller: str) -> None:
    """What a `create` for a seat that is not here yet makes of the binding: the first one binds the job, a later
    revision is taken by all seats that are here. Raises NotEffective, OperationFailed, PermissionDenied."""
    offered, bound = admitted.offered, unit.binding(admitted.offered.job_id)
    if bound is None:
        if unit.bind(offered):
            return
        # On MySQL another process has bound it since it was looked for.
        bound = unit.binding(offered.job_id)
        why = objection(Said(CommandKind.CREATE, caller, unit.context.party_id, None, offered), bound)
        if why:
            raise PermissionDenied(why)
        assert bound is not None, "somebody has bound it"
    if offered.revision < bound.revision:
        raise NotEffective(f"job {bound.job_id} is at revision {bound.revision} here, not {offered.revision}")
    if offered.revision > bound.revision:
        _check_dsl(unit, offered.job_id, admitted.document)
        _revise(unit, bound, _Terms(offered.revision, admitted.document, admitted.spec, ()))


def _check_dsl(unit: UnitOfWork, job_id: str, document: Document) -> None:
    """The seats here keep the DSL that they have, which is what people see who approve. Raises OperationFailed."""
    here = unit.tx.document(job_id)
    if here is not None and document_digest(here.dsl, {}) != document_digest(document.dsl, {}):
        raise OperationFailed(f"job {job_id} has another dsl here: a later revision changes parameters alone")


@dataclass(frozen=True)
class _Terms:
    """What all rows of a job here take."""

    revision: int
    document: Document
    spec: JobSpec
    components: tuple[str, ...]          # that are others by this revision
    changed: tuple[str, ...] = ()        # that the next run has to make again


def _revise(unit: UnitOfWork, bound: JobBinding, terms: _Terms) -> None:
    """All seats here take them in one transaction, or none does. Raises NotEffective."""
    rows = unit.tx.jobs_here(bound.job_id)
    for row in rows:
        if not (row.is_final or (row.status is JobStatus.WAITING and not row.holds)):
            raise NotEffective(f"{row.key} is {row.status.value}", data={STILL_ENDS: True})
    if not unit.rebind(bound, digest_of(terms.document), terms.revision):
        raise NotEffective(f"job {bound.job_id} has moved on", data={STILL_ENDS: True})
    for row in rows:
        _revise_row(unit, row, terms)


def _revise_row(unit: UnitOfWork, job: Job, terms: _Terms) -> None:
    """On record. Whoever has to approve the job here has to approve it anew."""
    spec, revision = terms.spec, terms.revision
    asked = request(unit, spec, job.party)
    new = replace(
        job, asked=Claim(asked.cores, asked.memory), timeout_seconds=spec.common.timeout_seconds,
        ttl_seconds=spec.ttl_seconds,
        revision=revision, changed=terms.changed if job.is_initiator else (), consent=_consent_to(unit, job),
    )  # fmt: skip
    document = replace(terms.document, on_party=effective_document(spec, job.party))
    if not unit.tx.revise(job, new, document):
        # To be asked again: then the row shows what another process has made of it.
        raise NotEffective(f"{job.key} has moved on", data={STILL_ENDS: True})
    if job.consent is not None:
        unit.tx.decide_consent(job.key, Consent(Approval.PENDING))
    named = f": {', '.join(terms.components)}" if terms.components else ""
    text = f"its parameters were changed (revision {revision}{named})"
    unit.moves(
        HistoryLevel.JOB, job.job_id, job.status, job.status, party=job.party, message=text,
        caused_by=str(job.initiator)
    )
    unit.note(Event.JOB_NOTE, job_id=job.job_id, text=f"{job.key}: {text}")
    unit.after_commit(WriteConfs(job.key, document))


def _consent_to(unit: UnitOfWork, job: Job) -> Consent | None:
    """Of a row that is revised: one that came before this party wanted to approve such jobs has to be approved now."""
    own = unit.context.party_id
    asks = unit.context.approval.asks(party_id_of(job.initiator, own), own)
    return Consent(Approval.PENDING) if job.consent is None and asks else job.consent


def _check_changeable(unit: UnitOfWork, job: Job) -> None:
    """Raises OperationFailed unless the job waits for its reservation round, or is over."""
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


def _why_not_now(unit: UnitOfWork, job: Job) -> str:
    """What a waiting job is in the middle of, and what can be done; empty: nothing. Between two attempts it is in the
    middle of nothing once all parties know that it waits."""
    if job.reason is not None:
        return "is being stopped: flow job rerun begins it again with the new parameters when it is over"
    all_joined = all(seat.status is SeatStatus.JOINED for seat in unit.tx.seats(job.job_id))
    if job.rerun_signal and not (job.pauses and all_joined):
        return "waits again, and not all of its parties have confirmed that yet: try again in a moment"
    if job.ready_owner or any(row.holds for row in unit.tx.jobs_here(job.job_id)):
        return "asks for its cores just now: try again in a moment; flow job hold keeps it waiting"
    return ""


def _check_not_done(unit: UnitOfWork, job: Job, components: tuple[str, ...]) -> None:
    """Raises OperationFailed for a component that this run does not begin any more."""
    done = [task.key.name for task in unit.tx.tasks(job.job_id) if task.status in KEPT]
    late = [name for name in components if name in done]
    if late:
        raise OperationFailed(
            f"component_parameters: {late[0]} has succeeded, and this run of job {job.job_id} keeps that; "
            "flow job stop ends the run, and flow job rerun takes it up with the new parameters"
        )


def _check_all_know_revisions(job: Job, plain_v1: tuple[Party, ...]) -> None:
    """Raises OperationFailed for a party that may be asked for its cores before it has heard of the change."""
    if plain_v1:
        raise OperationFailed(
            f"job {job.job_id} waits, and {plain_v1[0]} speaks plain FATE v1, to which it cannot be changed meanwhile: "
            "flow job stop ends it, and flow job rerun begins it again with the new parameters"
        )
