"""Write down which client has asked for something, in the record of a job and in lines of the log."""

from __future__ import annotations

from fate_flow.core.model.history import HistoryLevel
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.recording import record_act
from fate_flow.services.context.unit_of_work import UnitOfWork


def with_client(text: str, by: str) -> str:
    """Return a line for the log, with the client that has asked for what it says; "" if clients need not sign."""
    return f"{text} (by {by})" if by else text


def note_who_asked(unit: UnitOfWork, job_id: str, what: str, by: str) -> None:
    """Note in the log and in the history of a job what the client `by` has asked for; nothing if clients need not sign.

    The entry stays at this party; other parties learn the name only if they ask for this party's history. The record
    has the act also without a name."""
    record_act(unit, what, by, job_id)
    rows = unit.tx.jobs_here(job_id) if by else ()
    if not rows:
        return
    row = next((one for one in rows if one.is_initiator), rows[0])
    text = f"{what} by {by}"
    unit.note(Event.JOB_NOTE, job_id=job_id, text=f"job {job_id}: {text}")
    unit.moves(
        HistoryLevel.JOB, job_id, row.status, row.status, party=row.party, message=text, caused_by=str(row.party)
    )


def note_act(unit: UnitOfWork, what: str, text: str, by: str) -> None:
    """Note in the log and in the record what the client `by` has asked for, beside jobs. `what`: of a few words, for
    everybody; `text`: the line, with names."""
    record_act(unit, what, by, text=text)
    unit.note(Event.DETECT_NOTE, text=with_client(text, by))
