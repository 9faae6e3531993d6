"""Write down which client has asked for something, in the record of a job and in lines of the log."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from fate_flow.core.model.grammar import shown
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.modules import MakesNamedTable, ModuleInfo, OpensFiles
from fate_flow.core.model.spec import JobSpec, Party, TaskSpec
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


def record_tables_asked(unit: UnitOfWork, job_id: str, spec: JobSpec, own: Collection[Party], by: str) -> None:
    """Record which tables of this party the job of a client makes by name, such as an upload, and which it writes to a
    file or to another server. `own`: the seats of this party."""
    found: dict[tuple[str, str], None] = {}      # what two seats of this party do is asked for once
    for task in spec.tasks.values():
        module = unit.context.modules.get(task.module)
        for seat in task.parties:
            if module is not None and seat in own and seat not in task.passed_at:
                found.update(dict.fromkeys(_tables_asked(task, module, seat)))
    for what, text in found:
        record_act(unit, what, by, job_id, text)


def table_text(namespace: str, name: str) -> str:
    """Return how a table is named in lines of the log and in the record."""
    return f"table {shown(name)} of namespace {shown(namespace)}"


def _tables_asked(task: TaskSpec, module: ModuleInfo, seat: Party) -> Iterator[tuple[str, str]]:
    given, of_task = task.parameters.get(seat, {}), f"by task {task.name} ({task.module})"
    made = module.table_made(given) if isinstance(module, MakesNamedTable) else None
    if made is not None:
        yield "table requested", f"{table_text(*made)} is to be made {of_task}"
    read = task.table_at(seat)
    if read is None or not isinstance(module, OpensFiles):
        return
    if path := given.get(module.file_written):
        yield "table export requested", f"{table_text(*read)} is to be written to file {shown(path)} {of_task}"
    if module.uses_connector and (server := given.get("connector")):
        yield "table export requested", f"{table_text(*read)} is to be written to server {shown(server)} {of_task}"
