"""What the initiator makes of the answers of a party that speaks plain v1, as the servers of FATE Flow 1.x do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.job import NOT_EFFECTIVE, Answer, Command, CommandKind, Job, Report, Seat
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, SeatStatus, TaskStatus
from fate_flow.core.planning.plain_v1 import not_run_there, objection
from fate_flow.core.planning.replies import ReplyOutcome, refused_afterwards
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.store.contract.transaction import Transaction


def handle_join_reply(
    unit: UnitOfWork, seat: Seat, command: Command, outcome: ReplyOutcome, components: object
) -> ReplyOutcome:
    """The party has accepted the job and offers no extensions: it is known from now on to speak plain v1.

    It counts as refused if it could never run what it accepts, or says in `components` that it will not."""
    unit.tx.mark_plain_v1(seat)
    spec, text = unit.spec(seat.job_id), ""
    if spec is not None and seat.run == 0:
        text = objection(spec, seat.party, unit.context.modules) or not_run_there(spec, seat.party, components)
    return refused_afterwards(seat, command, text) if text else outcome


def refusal_of(command: Command, answer: Answer) -> str:
    """Why a share cannot begin, or does not run, at the party that says this; empty for any other answer.

    A plain v1 party answers 0 to a start of which nothing comes, so each command before and after it counts."""
    is_asked_again = command.kind is CommandKind.TASK_COLLECT and answer.is_silence
    if answer.is_ok or answer.retcode == NOT_EFFECTIVE or is_asked_again:
        return ""
    share = f"version {command.version} of {command.task}"
    match command.kind, command.argument:
        case CommandKind.TASK_START, _:
            return f"did not start it: {answer.retmsg}"
        case CommandKind.TASK_CREATE, _:
            return f"does not take {share}: {answer.retmsg}"
        case CommandKind.TASK_STATUS, TaskStatus.RUNNING.value:
            return f"does not take {share} as running: {answer.retmsg}"
        case CommandKind.TASK_COLLECT, _:
            return f"does not know {share}: {answer.retmsg}"
        case _:
            return ""


def is_before_rerun(command: Command, job: Job) -> bool:
    """Whether the job waits to begin again, and this is about its next run: there is no share yet that could fail."""
    return job.status is JobStatus.WAITING and command.run == job.run


def failed_report(command: Command, message: str, now: int) -> Report:
    """The share as its party would report it."""
    incarnation = str(command.body.get("incarnation") or "")
    return Report(command.task_key, incarnation, TaskStatus.FAILED, Reason.LAUNCH_FAILED, message, 0, now)


@dataclass(frozen=True)
class Beats:
    """Signs of life: by party what runs there, for a heartbeat of ours; to those that speak plain v1 one `align`."""

    jobs: Mapping[str, tuple[tuple[str, int], ...]]
    aligns: tuple[Command, ...]


def beats_for(tx: Transaction, party_ids: Iterable[str], doubtful: Sequence[Seat]) -> Beats:
    """`doubtful`: seats of parties that are to be told an end once more, or count as silent."""
    jobs: dict[str, tuple[tuple[str, int], ...]] = {}
    aligns: list[Command] = []
    for party_id in party_ids:
        seats = tx.seats_at(party_id)
        known = seats or tuple(seat for seat in doubtful if seat.party.party_id == party_id)
        align = _align_about(tx, known[0]) if known and all(seat.is_plain_v1 for seat in known) else None
        if align is None:
            jobs[party_id] = tuple((seat.job_id, seat.run) for seat in seats if seat.status is SeatStatus.STARTED)
        else:
            aligns.append(align)
    return Beats(jobs, tuple(aligns))


def _align_about(tx: Transaction, seat: Seat) -> Command | None:
    """The heartbeat of plain v1, about the job of this seat."""
    job = tx.job_here(seat.job_id)
    if job is None:
        return None
    body: Mapping[str, Any] = {"job_id": job.job_id, "role": job.party.role, "party_id": job.party.party_id}
    return Command(CommandKind.ALIGN, job.job_id, seat.party, seat.run, body=body)
