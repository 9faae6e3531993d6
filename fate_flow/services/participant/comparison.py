"""Each two participants of a job compare its documents: a coordinator may have given them different ones.

A party asks when the job has begun there, beside its start: nothing waits for the answers. A party that notices
another document ends its share, and asks the coordinator to end the job. See docs/explanation/authority.md."""

from __future__ import annotations

from collections.abc import Iterable

from fate_flow.core.access.authority import PARTY_0, Said, objection, party_id_of
from fate_flow.core.access.bound_document import (
    BoundDocument,
    must_compare_again,
    why_answered_otherwise,
    why_asked_in_vain,
    why_other_parties,
)
from fate_flow.core.model.errors import PermissionDenied
from fate_flow.core.model.job import Answer, Command, CommandKind, Job
from fate_flow.core.model.reasons import Reason, job_status_for
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus
from fate_flow.core.text.phrases import sanitized
from fate_flow.core.wire.v1.comparison import (
    compared_in,
    comparison_body,
    comparison_data,
    has_no_seat,
    no_seat_data,
    read_comparison,
)
from fate_flow.core.wire.v1.initiator_bodies import unknown_data
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.named_document import named_document
from fate_flow.services.context.unit_of_work import UnitOfWork, binding_of
from fate_flow.services.participant.ends import ask_for_end, close_tasks, end_job_here

_REASON = Reason.OTHER_DOCUMENT
_LONGEST_ANSWER = 200        # characters of it in the log


def ask_other_participants(unit: UnitOfWork, job: Job) -> None:
    """Ask the other participants which document they have, once for all seats here, because the job begins here.

    The coordinator is not asked: it would say what is expected. So a job of two parties asks nobody."""
    if _is_coordinator(unit, job):
        return
    others = _one_seat_each(unit, job)
    rows = unit.tx.jobs_here(job.job_id) if others else ()
    if not others or any(row.status is JobStatus.RUNNING and row.key != job.key for row in rows):
        return
    own = _bound(unit, job.job_id, rows)
    if not own.name:
        _note(unit, job.job_id, others, "an earlier release of this server took the job")
        return
    for party in others:
        if party.party_id in unit.context.routes:
            body = comparison_body(job.party, own)
            unit.send(Command(CommandKind.COMPARE, job.job_id, party, job.run, body=body))
        else:
            _note(unit, job.job_id, [party], f"party {party.party_id} has no route here")


def answer_comparison(unit: UnitOfWork, command: Command, caller: str) -> Answer:
    """Answer another participant which document the job has here, whatever seat it takes this party to have.

    Raises BadRequest; PermissionDenied if it speaks for another party."""
    rows = unit.tx.jobs_here(command.job_id)
    if not rows:
        return Answer(103, f"job {command.job_id} is not known here", unknown_data())
    if why := objection(Said(command.kind, caller, unit.context.party_id, command.to), binding_of(rows[0])):
        return Answer(108, why, no_seat_data())
    seat, asked = read_comparison(command.body)
    if seat.party_id != caller:
        raise PermissionDenied(f"party_id: party {caller} may not speak for {seat}")
    own = _bound(unit, command.job_id, rows)
    if why := why_asked_in_vain(str(seat), asked, str(rows[0].party), own):
        _end(unit, rows, why)
    return Answer(data=comparison_data(own))


def is_to_compare_again(unit: UnitOfWork, command: Command, answer: Answer) -> bool:
    """Return whether the other participant is to be asked once more, when the job has begun there, too."""
    _, asked = read_comparison(command.body)
    answered = compared_in(answer.data) if answer.is_ok else None
    own = _bound(unit, command.job_id, unit.tx.jobs_here(command.job_id))
    return answered is not None and own.revision == asked.revision and must_compare_again(own, answered)


def take_comparison(unit: UnitOfWork, command: Command, answer: Answer) -> None:
    """Handle the answer of another participant: end the job here if its document is another one."""
    rows = unit.tx.jobs_here(command.job_id)
    seat, asked = read_comparison(command.body)
    own = _bound(unit, command.job_id, rows)
    if not rows or own.revision != asked.revision:
        return              # a late answer: the job has other parameters by now
    answered = compared_in(answer.data) if answer.is_ok else None
    if has_no_seat(answer.data):
        why = why_other_parties(str(seat), own.name, str(command.to), unit.context.party_id)
    elif answered is None or not answered.name:
        _note(unit, command.job_id, [command.to], sanitized(_what_it_says(answer), _LONGEST_ANSWER))
        return
    else:
        why = why_answered_otherwise(str(seat), own, str(command.to), answered)
    if why:
        _end(unit, rows, why)
        unit.touch(command.job_id)
    else:
        text = f"the document of job {command.job_id} was compared with that of {command.to}"
        unit.note(Event.JOB_NOTE, job_id=command.job_id, text=text)


def _what_it_says(answer: Answer) -> str:
    if answer.is_ok:
        return "its server names no document"
    return f"it did not say: {answer.retcode} {answer.retmsg}"


def _end(unit: UnitOfWork, rows: Iterable[Job], why: str) -> None:
    """End all seats here. Nothing follows at the coordinator: whoever has another document than it is the one to end.

    What it says later about tasks changes nothing, so they get their ends now."""
    mine = [row for row in rows if not _is_coordinator(unit, row)]
    for row in mine[:1]:
        unit.note(Event.SERVER_WARNING, text=f"job {row.job_id} of party {row.initiator.party_id}: {why}")
    for row in mine:
        if not row.is_final:
            end_job_here(unit, row, _REASON, why, caused_by=str(row.initiator))
            close_tasks(unit, row, job_status_for(_REASON))
    running = next((row for row in mine if not row.is_final), None)
    if running is not None:
        ask_for_end(unit, running, _REASON, why)


def _note(unit: UnitOfWork, job_id: str, others: Iterable[Party], why: str) -> None:
    for party in others:
        text = f"the document of job {job_id} was not compared with that of {party}: {why}"
        unit.note(Event.JOB_NOTE, job_id=job_id, text=text)


def _bound(unit: UnitOfWork, job_id: str, rows: Iterable[Job]) -> BoundDocument:
    bound = unit.binding(job_id)
    is_running = any(row.status is JobStatus.RUNNING for row in rows)
    return BoundDocument(named_document(unit, job_id), bound.revision if bound is not None else 0, is_running)


def _is_coordinator(unit: UnitOfWork, job: Job) -> bool:
    return party_id_of(job.initiator, unit.context.party_id) == unit.context.party_id


def _one_seat_each(unit: UnitOfWork, job: Job) -> list[Party]:
    """Return one seat of each other participant but the coordinator."""
    left_out = {unit.context.party_id, job.initiator.party_id, PARTY_0}
    seats = {seat.party_id: seat for seat in sorted(job.parties, reverse=True)}
    return sorted(seat for seat in seats.values() if seat.party_id not in left_out)
