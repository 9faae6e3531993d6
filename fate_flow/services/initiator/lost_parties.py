"""Parties that have not answered for very long: commands that are dropped, and commands for when they answer again."""

from __future__ import annotations

from fate_flow.core.model.job import Command, CommandKind
from fate_flow.core.model.status import JobStatus, SeatStatus
from fate_flow.core.wire.v1.endings import JobEnd
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.disclosure import command_for
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.initiator.seats import note_seat


def give_up(unit: UnitOfWork, command: Command) -> bool:
    """Drop a command that was not answered for very long; return False if its job is not over here.

    A seat that was to learn the end of its job becomes unconfirmed, and is told when its party answers again."""
    # A request to stop may be dropped at any time. A report may not: without it the job would wait for ever.
    is_stop_request = command.kind is CommandKind.ASK_STOP
    if not is_stop_request and not all(row.is_final for row in unit.tx.jobs_here(command.job_id)):
        return False
    unit.tx.take_command(command.id)
    text = f"job {command.job_id}: '{command.kind.value}' was dropped, {command.to} has not answered for very long"
    unit.note(Event.DETECT_NOTE, text=text)
    is_end = command.kind is CommandKind.STATUS and command.argument != JobStatus.WAITING.value
    for seat in unit.tx.seats(command.job_id):
        leaving = (command.to, SeatStatus.LEAVING, command.run)
        if is_end and (seat.party, seat.status, seat.run) == leaving:
            why = "never confirmed the end of the job"
            if unit.tx.move_seat(seat, SeatStatus.UNCONFIRMED, why):
                note_seat(unit, seat, SeatStatus.UNCONFIRMED, why)
            _never_confirmed(unit, command)
            unit.touch(command.job_id)
    return True


def tell_again(unit: UnitOfWork, party_id: str) -> None:
    """Tell a party that answers again the ends of jobs that it never confirmed."""
    seats = [seat for seat in unit.tx.unconfirmed_seats() if seat.party.party_id == party_id]
    notice = {(one.job_id, one.to) for one in unit.tx.commands_after(0)} if seats else set()
    for seat in seats:
        job = unit.tx.job_here(seat.job_id)
        if job is not None and job.is_final and (seat.job_id, seat.party) not in notice:
            body = JobEnd(job.reason, job.message, job.caused_by, job.exit_code).as_body()
            how = job.status.value
            command = Command(CommandKind.STATUS, job.job_id, seat.party, seat.run, argument=how, body=body)
            unit.send(command_for(unit.spec(job.job_id), command))


def _never_confirmed(unit: UnitOfWork, command: Command) -> None:
    job = unit.tx.job_here(command.job_id)
    if job is not None:
        unit.tx.name_unconfirmed(job.key, command.to)
