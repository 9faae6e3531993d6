"""Taking a submit: the own seat, the rows for other parties, and the `create` commands that invite them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from fate_flow.core.access.authority import PARTY_0
from fate_flow.core.access.key_list import KeyState
from fate_flow.core.model.errors import BadDocument, Conflict, Refused
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import Command, CommandKind, Job, Seat, Task, TaskKey
from fate_flow.core.model.spec import JobSpec, Party
from fate_flow.core.model.status import SeatStatus, TaskStatus
from fate_flow.core.planning.participant.reservation import why_not_ready
from fate_flow.core.planning.queue import fits
from fate_flow.core.wire.v1.job_bodies import Create, RoundBody
from fate_flow.core.wire.v1.queries import effective_in
from fate_flow.jobspec.effective import capped_text
from fate_flow.services.context.disclosure import as_given_to, with_disclosure
from fate_flow.services.context.documents import ParsedJob, completed, digest_of
from fate_flow.services.context.space import check_space_for_client
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.initiator.plan_actions import Dispatch
from fate_flow.services.participant.participant import Participant
from fate_flow.services.participant.reserving import needed_here
from fate_flow.services.workers.moves import note_version
from fate_flow.services.workers.placement import request_at
from fate_flow.services.workers.places import asks_here
from fate_flow.store.values import Document, Submission


def take_submit(
    unit: UnitOfWork, party: Participant, dispatch: Dispatch, job_id: str, parsed: ParsedJob, request_id: str,
    whole: Collection[str] | None = None, trace: str = "", by: str = "",
) -> str:  # fmt: skip
    """Take a job, and return its id; if the request id was used before, return the job id that it got then.

    `whole`: ids of the parties that get the whole document; None: all do. `trace`: of the request; empty: a new one;
    `by`: the client that has signed.

    Raises BadDocument if this party cannot initiate the job; Refused if this party itself cannot take part; NoSpace if
    it takes nothing new; Conflict if the request id was used for other content."""
    document, spec, digest = parsed.document, parsed.spec, digest_of(parsed.document)
    known = unit.tx.begin_submission(Submission(request_id, job_id, digest, by=by), unit.now)
    if known is not None:
        if known.digest != digest:
            raise Conflict(f"request id {request_id} was used for other content, by job {known.job_id}")
        return known.job_id
    check_space_for_client(unit.context)
    check_own(unit, spec)
    document = completed(document, spec, job_id)
    others = {seat.party_id for seat in spec.parties} - {unit.context.party_id, PARTY_0}
    if whole is not None and not others <= set(whole):
        document = with_disclosure(unit.context, document, whole)
    _take_seat(unit, party, dispatch, job_id, document, spec, trace)
    unit.touch(job_id)
    return job_id


def check_own(unit: UnitOfWork, spec: JobSpec) -> None:
    """Check that this party may initiate the job and has a route to all its parties. Raises BadDocument."""
    own = unit.context.party_id
    initiator = spec.initiator
    if initiator.party_id != own and initiator.role != "local":
        raise BadDocument(
            spec.paths.of("job_runtime_conf.initiator.party_id"),
            f"this server is party {own}; submit the job at party {initiator.party_id}, its initiator",
        )
    missing = sorted({p.party_id for p in spec.parties} - unit.context.routes - {own, "0"})
    if missing:
        raise BadDocument(spec.paths.of("job_runtime_conf.role"), _why_not_reached(unit, missing[0]))


def _why_not_reached(unit: UnitOfWork, party_id: str) -> str:
    keys = unit.tx.party_keys(party_id)
    if keys is not None and keys.state is not KeyState.JOINED:
        return f"party {party_id} was {keys.state} here (fate_flow party list)"
    return f"party {party_id} has no route here (routes in service_conf.yaml, or fate_flow party invite)"


def _take_seat(
    unit: UnitOfWork, own_party: Participant, dispatch: Dispatch, job_id: str, document: Document, spec: JobSpec,
    trace: str,
) -> None:  # fmt: skip
    incarnations = {name: unit.context.fresh_id() for name in spec.tasks}
    body = create_body(document, spec, job_id, incarnations)
    own = Command(CommandKind.CREATE, job_id, spec.initiator, body=body, trace=trace)
    answer = own_party.handle(unit, own, unit.context.party_id)
    if not answer.is_ok:
        raise Refused(f"{spec.initiator}: {answer.retmsg}")
    unit.tx.add_seats(_seats(unit, job_id, spec))
    why = capped(answer.data)
    if why:
        unit.moves(HistoryLevel.SEAT, job_id, None, SeatStatus.JOINED, party=spec.initiator, message=why)
    for name in spec.tasks:
        note_version(unit, TaskKey(job_id, name, 0, spec.initiator), str(spec.initiator))
    for party in spec.parties:
        if party != spec.initiator:
            _hold_rows(unit, job_id, party, spec, incarnations)
            is_own = party.party_id in (unit.context.party_id, PARTY_0)
            given = body if is_own else create_body(as_given_to(document, party.party_id), spec, job_id, incarnations)
            dispatch(unit, Command(CommandKind.CREATE, job_id, party, body=given))
    for one in _commands_ahead(unit, job_id, spec):
        dispatch(unit, one)


def _commands_ahead(unit: UnitOfWork, job_id: str, spec: JobSpec) -> Iterator[Command]:
    """Yield the commands to reserve that other parties get with `create`, if the job will not have to wait, as far as
    is known here. This saves a round trip."""
    job = unit.tx.job_here(job_id)
    assert job is not None, "the own seat was just taken"
    if not _may_start_now(unit, job):
        return
    asked = RoundBody(job.round_number + 1, job.queue_key, is_ahead=True)
    for seat in spec.parties:
        if seat.party_id in (unit.context.party_id, PARTY_0):
            continue
        yield Command(CommandKind.CHECK, job_id, seat, body=replace(asked, is_applied_for=True).as_body())
        yield Command(CommandKind.APPLY, job_id, seat, body=asked.as_body())


def _may_start_now(unit: UnitOfWork, job: Job) -> bool:
    """Return whether nothing waits in the queue for capacity, and this party could reserve for the job now."""
    if unit.tx.queue_heads() or why_not_ready(job, unit.tx.intake_hold()) is not None:
        return False
    needed = needed_here(unit, job)
    known = {name: engine for name in needed if (engine := unit.tx.engine(name)) is not None}
    return all(name in known and fits(claim, known[name].free) for name, claim in needed.items())


def _hold_rows(unit: UnitOfWork, job_id: str, party: Party, spec: JobSpec, incarnations: Mapping[str, str]) -> None:
    """Add the initiator's task rows for another party. A seat of this party already has rows in this database."""
    job, document = unit.tx.job_here(job_id), unit.tx.document(job_id)
    assert job is not None, "the own seat was just taken"
    assert document is not None, "a job row has its document"
    if party.party_id == unit.context.party_id:
        return
    rows = [
        _holder(TaskKey(job_id, task.name, 0, party), incarnations[task.name], task.retry.retries, unit.now)
        for task in spec.tasks_of(party)
    ]
    unit.tx.add_tasks(rows, job, document)


def create_body(
    document: Document, spec: JobSpec, job_id: str, incarnations: Mapping[str, str], revision: int = 0
) -> dict[str, Any]:
    """Return the body of `create`, with our extensions announced."""
    create = Create(document.content, document.name, document.description, incarnations, revision)
    return create.as_body(job_id, spec.initiator, spec.roles, document.dsl, document.runtime_conf)


def _seats(unit: UnitOfWork, job_id: str, spec: JobSpec) -> list[Seat]:
    return [
        Seat(
            job_id,
            party,
            SeatStatus.JOINED if party == spec.initiator else SeatStatus.JOINING,
            asked_cores=request_at(unit.context, spec, party).cores,
            asks=asks_here(unit.context, spec, party),
        )
        for party in spec.parties
    ]


def _holder(key: TaskKey, incarnation: str, auto_retries: int, now: int) -> Task:
    return Task(
        key, TaskStatus.WAITING, TaskStatus.WAITING, runs_here=False, incarnation=incarnation,
        auto_retries=auto_retries, create_time=now,
    )  # fmt: skip


def capped(data: object) -> str:
    """Return text about what an accepting party limits below the request, for the history and for the client."""
    return capped_text(effective_in(data))
