"""How the initiator handles parties that speak plain v1, as the servers of FATE Flow 1.x do."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fate_flow.core.model.errors import NOT_EFFECTIVE
from fate_flow.core.model.job import Answer, Command, CommandKind, Job, Report, Seat
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, SeatStatus, TaskStatus
from fate_flow.core.planning.plain_v1 import not_run_there, objection
from fate_flow.core.planning.replies import ReplyOutcome, refused_afterwards
from fate_flow.core.wire.v1.job_bodies import align_body
from fate_flow.core.wire.v1.task_bodies import incarnation_in
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.store.contract.transaction import Transaction


def handle_join_reply(
    unit: UnitOfWork, seat: Seat, command: Command, outcome: ReplyOutcome, left_out: Collection[str]
) -> ReplyOutcome:
    """Mark a party that accepted the job without extensions as plain v1.

    It counts as refused if the job cannot run with a plain v1 party, or if it has left out a
    component, by its answer."""
    unit.tx.mark_plain_v1(seat)
    spec, text = unit.spec(seat.job_id), ""
    if spec is not None and seat.run == 0:
        text = objection(spec, seat.party, unit.context.modules) or not_run_there(spec, seat.party, left_out)
    return refused_afterwards(seat, command, text) if text else outcome


def refusal_of(command: Command, answer: Answer) -> str:
    """Return why a share cannot start or does not run, by the party's answer; empty for any other answer.

    A plain v1 party also answers 0 to a start that fails, so the commands before and after the start count as well."""
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
    """Return whether the command belongs to the rerun of a job that still waits: no share could fail yet."""
    return job.status is JobStatus.WAITING and command.run == job.run


def failed_report(command: Command, message: str, now: int) -> Report:
    """Return the report of a failed share that its party does not send itself."""
    incarnation = incarnation_in(command.body)
    return Report(command.task_key, incarnation, TaskStatus.FAILED, Reason.LAUNCH_FAILED, message, 0, now)


@dataclass(frozen=True)
class Beats:
    """The heartbeats to send: the jobs that run at each party of ours, and one `align` for each plain v1 party."""

    jobs: Mapping[str, tuple[tuple[str, int], ...]]
    aligns: tuple[Command, ...]


def beats_for(tx: Transaction, party_ids: Iterable[str], doubtful: Sequence[Seat]) -> Beats:
    """Return the heartbeats to these parties. `doubtful`: seats that must be told an end again, or count as silent."""
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
    """Return the heartbeat of plain v1, `align`, about the job of this seat."""
    job = tx.job_here(seat.job_id)
    if job is None:
        return None
    body = align_body(job.key)
    return Command(CommandKind.ALIGN, job.job_id, seat.party, seat.run, body=body)
