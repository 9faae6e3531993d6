"""Changes of the parameters of a job that has not begun, or is over: at its initiator and at each party.

The initiator counts its changes (`f_revision`). It sends each change to every party at once, and again with a rerun, so
that a party that missed the command takes parameters and run together or not at all. A waiting job cannot reserve at a
party that lacks a revision. A plain v1 party gets the change before the rerun; its commands arrive in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from fate_flow.core.access.authority import JobBinding, Said, difference, document_digest, objection, party_id_of
from fate_flow.core.model.approval import Approval, Consent
from fate_flow.core.model.errors import NotEffective, OperationFailed, PermissionDenied
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import Answer, Command, CommandKind, Job
from fate_flow.core.model.spec import JobSpec, Party
from fate_flow.core.model.status import JobStatus, SeatStatus
from fate_flow.core.planning.rerun import KEPT
from fate_flow.core.wire.v1.job_answers import still_ends_data
from fate_flow.core.wire.v1.job_bodies import Parameters
from fate_flow.jobspec.fate_v1.reader import effective_document
from fate_flow.jobspec.formats import withheld_from
from fate_flow.jobspec.parameters import Change, changed_components, changed_conf
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.disclosure import with_disclosure
from fate_flow.services.context.documents import digest_of, parse_document, remember_accepted
from fate_flow.services.context.effects import WriteConfs
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.participant.admission import Admitted, accept, check_own_seats, request
from fate_flow.services.workers.allowed import needs_approval
from fate_flow.services.workers.placement import request_at
from fate_flow.services.workers.places import asks_here
from fate_flow.store.values import Document


@dataclass(frozen=True)
class Revised:
    """A job after a change of its parameters."""

    document: Document
    spec: JobSpec
    components: tuple[str, ...]          # components whose own parameters have changed
    base: int                            # the revision before the change
    is_change: bool                      # whether anything differs
    plain_v1: tuple[Party, ...]          # parties that speak plain v1
    warnings: tuple[str, ...]            # new ones; those of the job itself were in the answer to its submit


def preview_change(unit: UnitOfWork, job: Job, change: Change) -> Revised:
    """Return the job as it would be after the change, and write nothing.

    Raises OperationFailed if the parameters cannot be changed now; BadRequest if this change is not possible."""
    _check_changeable(unit, job)
    document, spec = unit.tx.document(job.job_id), unit.spec(job.job_id)
    assert document is not None, "a job row has its document"
    assert spec is not None, "it was parsed when it was taken"
    revised = document.with_conf(changed_conf(spec, change))
    new = parse_document(unit.context, revised.content)
    revised = revised.with_conf(new.conf)
    if document.disclosure is not None:
        revised = with_disclosure(unit.context, revised, document.disclosure.whole, document)
    components = changed_components(spec, new)
    is_change = new.changeable_conf != spec.changeable_conf
    plain_v1 = tuple(seat.party for seat in unit.tx.seats(job.job_id) if seat.is_plain_v1)
    if job.status is JobStatus.WAITING:
        _check_not_done(unit, job, components)
        _check_all_know_revisions(job, plain_v1)
    warnings = tuple(one for one in new.warnings if one not in spec.warnings)
    return Revised(revised, new, components, job.revision, is_change, plain_v1, warnings)


def change_parameters(
    unit: UnitOfWork, job: Job, change: Change, base: int, dispatch: Callable[[Command], None]
) -> Revised:
    """Change the parameters at this party, and send the change to all others.

    `base`: the revision in the preview that the client has seen. Raises the errors of `preview_change`, and those of
    `accept` if this party does not take part in the changed job."""
    revised = preview_change(unit, job, change)
    if revised.base != base:
        raise OperationFailed(f"job {job.job_id}: its parameters were changed meanwhile by another request; try again")
    if not revised.is_change:
        return revised
    revision = job.revision + 1
    # A waiting job has all its tasks before it; the rerun of an ended job must run the changed ones again.
    anew = {*job.changed, *(revised.components if job.is_final else ())}
    changed = tuple(name for name in revised.spec.tasks if name in anew)
    terms = _Terms(revision, revised.document, revised.spec, revised.components, changed)
    bound = unit.binding(job.job_id)
    assert bound is not None, "a job row has its binding"
    accept(unit, revised.spec, job.job_id)
    _revise(unit, bound, terms)
    conf, disclosure = revised.spec.changeable_conf, revised.document.disclosure
    body = Parameters(conf, revised.components, revision, disclosure).as_body()
    for seat in unit.tx.seats(job.job_id):
        asks = asks_here(unit.context, revised.spec, seat.party)
        unit.tx.ask_for(seat, request_at(unit.context, revised.spec, seat.party).cores, asks)
        if seat.party != job.party:
            dispatch(Command(CommandKind.PARAMETERS, job.job_id, seat.party, job.run, body=body))
    return revised


def take_parameters(unit: UnitOfWork, job: Job, given: Parameters) -> Answer:
    """Take the parameters that the initiator sends in `parameter/update` or with a rerun.

    A revision that this party has already changes nothing. Raises FlowError if it does not accept the parameters."""
    bound, document = unit.binding(job.job_id), unit.tx.document(job.job_id)
    assert bound is not None, "a job row has its binding"
    assert document is not None, "a job row has its document"
    revision = bound.revision + 1 if given.revision is None else given.revision
    if revision < bound.revision:
        return Answer()
    document = document.with_conf({**document.runtime_conf, **given.conf})
    document = replace(document, disclosure=given.disclosure)
    offered = replace(bound, digest=digest_of(document), revision=revision)
    if offered == bound or (given.revision is None and offered.digest == bound.digest):
        return Answer()       # plain v1 counts no revisions, and sends the same change to each of our seats
    if why := difference(bound, offered):
        raise OperationFailed(why)
    spec = parse_document(unit.context, document.content)
    check_own_seats(unit.context, document.content, spec)
    components = tuple(name for name in spec.tasks if name in given.components)
    accept(unit, spec, job.job_id)
    remember_accepted(unit.context, offered.digest, spec)
    _revise(unit, bound, _Terms(revision, document, spec, components))
    return Answer()


def take_document(unit: UnitOfWork, admitted: Admitted, caller: str) -> None:
    """Bind the job at the first `create`; at the `create` of a later revision, revise all seats that exist here.

    Raises NotEffective, OperationFailed, PermissionDenied."""
    offered, bound = admitted.offered, admitted.bound
    if bound is None:
        if unit.bind(offered):
            return
        # On MySQL, another process has bound it since it was read.
        bound = unit.binding(offered.job_id)
        why = objection(Said(CommandKind.CREATE, caller, unit.context.party_id, None, offered), bound)
        if why:
            raise PermissionDenied(why)
        assert bound is not None, "another process has bound it"
    if offered.revision < bound.revision:
        raise NotEffective(f"job {bound.job_id} is at revision {bound.revision} here, not {offered.revision}")
    if offered.revision == bound.revision:
        _check_withheld(unit, offered.job_id, admitted.document)
    if offered.revision > bound.revision:
        _check_dsl(unit, offered.job_id, admitted.document)
        _revise(unit, bound, _Terms(offered.revision, admitted.document, admitted.spec, ()))


def _check_withheld(unit: UnitOfWork, job_id: str, document: Document) -> None:
    """Check that another seat is created with the same parts of the document: all rows of a job here have the same.

    Raises PermissionDenied."""
    here = unit.tx.document(job_id)
    if here is not None and withheld_from(here.content) != withheld_from(document.content):
        raise PermissionDenied(f"job {job_id} has other parts of its document here: every create must have the same")


def _check_dsl(unit: UnitOfWork, job_id: str, document: Document) -> None:
    """Check that the DSL is the same as here, because people have approved that one. Raises OperationFailed."""
    here = unit.tx.document(job_id)
    if here is not None and document_digest(here.dsl, {}) != document_digest(document.dsl, {}):
        raise OperationFailed(f"job {job_id} has another dsl here: a later revision changes parameters alone")


@dataclass(frozen=True)
class _Terms:
    """The new values for all rows of a job here."""

    revision: int
    document: Document
    spec: JobSpec
    components: tuple[str, ...]          # components that this revision changes
    changed: tuple[str, ...] = ()        # components that the next run must run again


def _revise(unit: UnitOfWork, bound: JobBinding, terms: _Terms) -> None:
    """Revise all seats here in one transaction, or none. Raises NotEffective."""
    rows = unit.tx.jobs_here(bound.job_id)
    for row in rows:
        if not (row.is_final or (row.status is JobStatus.WAITING and not row.holds)):
            raise NotEffective(f"{row.key} is {row.status.value}", data=still_ends_data())
    if not unit.rebind(bound, digest_of(terms.document), terms.revision):
        raise NotEffective(f"job {bound.job_id} has moved on", data=still_ends_data())
    for row in rows:
        _revise_row(unit, row, terms)


def _revise_row(unit: UnitOfWork, job: Job, terms: _Terms) -> None:
    """Revise one row, with an entry in its history. If the job needs approval here, it needs it again."""
    spec, revision = terms.spec, terms.revision
    asked = request(unit, spec, job.party)
    new = replace(
        job, asked=asked, timeout_seconds=spec.common.timeout_seconds,
        ttl_seconds=spec.ttl_seconds,
        revision=revision, changed=terms.changed if job.is_initiator else (), consent=_consent_to(unit, job),
    )  # fmt: skip
    document = replace(terms.document, on_party=effective_document(spec, job.party))
    if not unit.tx.revise(job, new, document):
        # The initiator sends the command again, and then the row shows what the other process did.
        raise NotEffective(f"{job.key} has moved on", data=still_ends_data())
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
    """Return the consent of a revised row. A job from before this party required approval needs approval now."""
    asks = needs_approval(unit, party_id_of(job.initiator, unit.context.party_id))
    return Consent(Approval.PENDING) if job.consent is None and asks else job.consent


def _check_changeable(unit: UnitOfWork, job: Job) -> None:
    """Check that the job waits for its reservation round, or is over. Raises OperationFailed."""
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
    """Return why a waiting job cannot be changed now, and what to do; empty if it can.

    Between two attempts it can be changed once all parties know that it waits."""
    if job.reason is not None:
        return "is being stopped: flow job rerun begins it again with the new parameters when it is over"
    seats = unit.tx.seats(job.job_id)
    all_joined = all(seat.status is SeatStatus.JOINED for seat in seats)
    if job.rerun_signal and not (job.pauses and all_joined):
        return "waits again, and not all of its parties have confirmed that yet: try again in a moment"
    is_held = any(seat.status is SeatStatus.HELD for seat in seats)
    if job.ready_owner or is_held or any(row.holds for row in unit.tx.jobs_here(job.job_id)):
        return "asks for its cores just now: try again in a moment; flow job hold keeps it waiting"
    return ""


def _check_not_done(unit: UnitOfWork, job: Job, components: tuple[str, ...]) -> None:
    """Check that none of these components has already succeeded in this run. Raises OperationFailed."""
    done = [task.key.name for task in unit.tx.tasks(job.job_id) if task.status in KEPT]
    late = [name for name in components if name in done]
    if late:
        raise OperationFailed(
            f"component_parameters: {late[0]} has succeeded, and this run of job {job.job_id} keeps that; "
            "flow job stop ends the run, and flow job rerun takes it up with the new parameters"
        )


def _check_all_know_revisions(job: Job, plain_v1: tuple[Party, ...]) -> None:
    """Check that every party knows revisions. A plain v1 one could be asked for cores before it knows the change.

    Raises OperationFailed."""
    if plain_v1:
        raise OperationFailed(
            f"job {job.job_id} waits, and {plain_v1[0]} speaks plain FATE v1, to which it cannot be changed meanwhile: "
            "flow job stop ends it, and flow job rerun begins it again with the new parameters"
        )
