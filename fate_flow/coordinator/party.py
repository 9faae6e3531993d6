"""What a party does when an initiator asks: the receiving side of `/v1/party/...` (party-api-v1, sections 2 and 3).

Every command may come twice, late, or for something that is long over; each answers the same again or says that it
changes nothing. Who may ask what is decided from the job's own row: only its initiator commands it.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from fate_flow.audit.events import Event
from fate_flow.coordinator.elastic import begin_elastic, make_room, oldest_wish
from fate_flow.coordinator.parameters import take_parameters
from fate_flow.coordinator.ports import Context
from fate_flow.coordinator.unit import Unit, read_spec
from fate_flow.coordinator.workers import (
    PLAIN_REASONS,
    cause_in,
    exit_code_in,
    exit_words,
    hidden_table,
    move_federated,
    note_version,
    report_of,
    start_worker,
    stop_party_task,
)
from fate_flow.core.actions import MoveJob, MoveTask
from fate_flow.core.approval import APPROVAL, APPROVED, AWAITS, IS_REJECTED, Approval, Consent
from fate_flow.core.ceilings import refusals
from fate_flow.core.command import CommandSpec, command_at
from fate_flow.core.effective import Effective, effective_at
from fate_flow.core.errors import (
    BadRequest,
    FlowError,
    NotEffective,
    OperationFailed,
    PermissionDenied,
    Refused,
    StorageFailed,
)
from fate_flow.core.fate_v1 import effective_document
from fate_flow.core.grammar import check_incarnation, check_version, shown, shown_key
from fate_flow.core.history import Level
from fate_flow.core.job import (
    ANY_RUN,
    NO_ROOM,
    NOT_EFFECTIVE,
    NOT_READY,
    Answer,
    Claim,
    Command,
    CommandKind,
    EngineState,
    Job,
    JobKey,
    Task,
    TaskKey,
)
from fate_flow.core.permission import missing
from fate_flow.core.queue import fits, pausing, queue_key, takes_from
from fate_flow.core.reasons import Author, Reason, job_status_for, may_say, task_status_for
from fate_flow.core.resources import Request, request_of
from fate_flow.core.spec import JobSpec, Party
from fate_flow.core.status import JOB_END, TASK_BROKEN, TASK_END, JobStatus, TaskStatus, WorkerStatus, may_move
from fate_flow.core.text import plain
from fate_flow.core.verdict import STILL_ENDS
from fate_flow.store.contract import Document

log = logging.getLogger(__name__)

EXTENSIONS = {"batch": 1, "lease": 1, "incarnation": 1, "exchange": 1, "stopping": 1, "room": 1}
"""What we offer beyond plain v1; announced in `create` and in its answer."""

OK = Answer()
_IN_PROCESS = (TaskStatus.RUNNING, TaskStatus.STOPPING)
_LONGEST_NAME, _LONGEST_TEXT = 500, 4_000
_MOST_REFUSALS = 10       # that are told; one message between parties is 1,000 characters long


class PartySide:
    """The use cases of a party. All run inside the unit of work they are given."""

    def handle(self, unit: Unit, command: Command, caller: str) -> Answer:
        """Carry out one command of the party with id `caller`. Never raises for what the caller did wrong.

        Raises StorageFailed: nothing was changed, and who asked is to ask again."""
        try:
            with unit.part():
                if command.kind is CommandKind.CREATE:
                    return self._create(unit, command, caller)
                return self._command(unit, command, caller)
        except StorageFailed:
            raise
        except FlowError as error:
            return Answer(error.retcode, error.message, error.data)
        except Exception:
            # One command that we stumble over must not take the others of its batch with it.
            log.exception("%s of party %s for job %s failed", command.kind.value, caller, command.job_id)
            return Answer(100, f"internal error at {command.to}")

    def _command(self, unit: Unit, command: Command, caller: str) -> Answer:
        job = unit.tx.job(JobKey(command.job_id, command.to))
        if job is None:
            return _absent(command)
        if command.kind is CommandKind.ALIGN and caller in {party.party_id for party in job.parties}:
            return _align(unit, job, caller)
        if not _commands(unit, job, caller):
            return Answer(108, f"party {caller} is not the initiator of job {job.job_id}")
        if job.legacy:
            unit.tx.hear(caller)      # it sends no heartbeats of ours: whatever it says is one
        if command.run < job.run and command.kind is not CommandKind.PARAMETERS:      # those have revisions
            return Answer(NOT_EFFECTIVE, f"job {job.job_id} is in run {job.run}, not {command.run}")
        if job.run < command.run < ANY_RUN:
            return _in_later_run(unit, command, job)
        return _HANDLERS[command.kind](unit, command, job)

    # ------------------------------------------------------------------ create

    def _create(self, unit: Unit, command: Command, caller: str) -> Answer:
        document = document_in(command.body)
        spec = read_spec(unit.context, document)
        _check_create(unit, command, spec, caller)
        key = JobKey(command.job_id, command.to)
        request = self.accept(unit, spec, command.to)
        job = Job(
            key=key,
            initiator=spec.initiator,
            is_initiator=command.to == spec.initiator and caller == unit.context.party_id,
            status=JobStatus.READY,
            parties=spec.parties,
            asked=Claim(request.cores, request.memory),
            timeout_seconds=spec.common.timeout_seconds,
            create_time=max(unit.now, unit.tx.last_create_time() + 1),
            since=unit.steady,
            legacy="extensions" not in command.body,
            priority=spec.priority,
            enqueued=unit.steady,
            queue_key=queue_key(unit.steady, spec.priority, unit.context.rules.queue_ageing),
            consent=Consent(Approval.PENDING) if unit.context.approval.asks(caller, unit.context.party_id) else None,
            revision=_whole(command, "revision", 0),
        )
        document = replace(
            document, on_party=effective_document(spec, command.to), federated_mode=spec.common.federated_mode,
            collect_type=spec.common.collect_type,
        )  # fmt: skip
        tasks = _first_tasks(spec, command, unit)
        if unit.tx.add_job(job, document):
            unit.moves(Level.JOB, job.job_id, None, job.status, party=job.party, caused_by=str(spec.initiator))
            unit.tx.add_tasks(tasks, job, document)
            for task in tasks:
                _note_version(unit, spec, task.key)
            unit.after_commit(lambda: unit.context.files.write_confs(key, document))
        elif not _commands(unit, unit.tx.job(key) or job, caller):
            return Answer(108, f"job {command.job_id} has another initiator on {command.to}")
        components = {name: {"need_run": command.to in task.parties} for name, task in spec.tasks.items()}
        said: dict[str, Any] = {"components": components, "extensions": EXTENSIONS, "cores": request.cores}
        capped = [one.as_dict() for one in effective_here(unit.context, spec, command.to) if one.asked is not None]
        said.update(_awaited(unit.tx.job(key) or job))
        return Answer(data={**said, "effective": capped} if capped else said)

    def preview(self, unit: Unit, command: Command, caller: str) -> Answer:
        """What a `create` like this would come to; nothing is written. Never raises for what the caller did wrong."""
        try:
            spec = read_spec(unit.context, document_in(command.body))
            _check_create(unit, command, spec, caller)
            self.accept(unit, spec, command.to)
        except FlowError as error:
            return Answer(error.retcode, error.message, {"previewed": True})
        effective = [one.as_dict() for one in effective_here(unit.context, spec, command.to)]
        return Answer(data={"previewed": True, "effective": effective})

    def accept(self, unit: Unit, spec: JobSpec, party: Party) -> Request:
        """What the job sets aside for this seat.

        Raises Refused naming all that this party allows less of than the job asks for; PermissionDenied naming what
        its initiator was not granted; OperationFailed for a table that is disabled, or a program that it does not
        run; FlowError (103) as `request`."""
        refused = refusals(unit.context.ceilings, spec, party, unit.context.engine_size.nodes)
        if refused:
            more = len(refused) - _MOST_REFUSALS
            raise Refused("; ".join((*refused[:_MOST_REFUSALS], *([f"and {more} more"] if more > 0 else []))))
        _check_permission(unit, spec, party)
        _check_tables(unit, spec, party)
        self._check_programs(unit, spec, party)
        return self.request(unit, spec, party)

    def _check_programs(self, unit: Unit, spec: JobSpec, party: Party) -> None:
        for name, program in _programs_of(spec, party):
            objection = unit.context.gate.objection(program, spec.initiator.party_id)
            if objection:
                raise OperationFailed(f"{name} (Command) is not run at {party}: {objection}")

    def request(self, unit: Unit, spec: JobSpec, party: Party) -> Request:
        """What the job sets aside for this seat.

        Raises FlowError (103) when this party can never give what all its seats of the job need."""
        size, own = unit.context.engine_size, unit.context.party_id
        here = (own, "0") if spec.initiator.party_id in (own, "0") else (own,)      # party 0 is the initiator's server
        requests = [
            request_of(seat, spec.parameters[seat], size.nodes) for seat in spec.parties if seat.party_id in here
        ]
        cores, memory = sum(one.cores for one in requests), sum(one.memory for one in requests)
        if cores > size.job_limit:
            asked = f"asks for {cores} cores, a job may have at most {size.job_limit} at {party}"
            raise _too_much(asked, "task_cores", "task_parallelism")
        if memory > size.memory and memory:
            asked = f"asks for {memory} MB of memory, {party} has {size.memory} in all"
            raise _too_much(asked, "task_memory", "task_parallelism")
        return request_of(party, spec.parameters[party], size.nodes)


def look_ahead(context: Context, document: Document) -> None:
    """Before a transaction begins in which the job is accepted: read the programs that are known by their content.

    What is wrong with the document, whatever it is, the use case itself runs into."""
    if not context.gate.reads_programs:
        return
    with suppress(Exception):
        spec = read_spec(context, document)
        for party in spec.parties:
            for _, program in _programs_of(spec, party) if party.party_id in (context.party_id, "0") else ():
                context.gate.objection(program, spec.initiator.party_id)


def _programs_of(spec: JobSpec, party: Party) -> Iterator[tuple[str, CommandSpec]]:
    """By task: what the user's own programs at this seat are."""
    for task in spec.tasks_of(party):
        program = None if party in task.passed_at else command_at(task, party)
        if program is not None:
            yield task.name, program


def _check_permission(unit: Unit, spec: JobSpec, party: Party) -> None:
    """Raises PermissionDenied for a job of another party that needs what was not granted to that one here."""
    rule, initiator = unit.context.permission, spec.initiator.party_id
    if not rule.is_on or initiator in (unit.context.party_id, "0"):
        return
    lacking = missing(rule, spec, party, unit.tx.granted(initiator))
    if lacking:
        named = ", ".join(map(str, lacking[:_MOST_REFUSALS]))
        raise PermissionDenied(f"{party} has not granted party {initiator}: {named} (flow privilege grant, there)")


def _check_tables(unit: Unit, spec: JobSpec, party: Party) -> None:
    for task in spec.tasks_of(party):
        hidden = "" if party in task.passed_at else hidden_table(unit.tx, task, party)
        if hidden:
            raise OperationFailed(f"{task.name} ({task.module}): {hidden}")


def effective_here(context: Context, spec: JobSpec, party: Party) -> tuple[Effective, ...]:
    """What holds here for the workers of this seat, where that is not what the job asks for."""
    rules = context.rules
    return effective_at(party, spec, context.ceilings, rules.stop_grace_seconds, rules.longest_stop_seconds)


def _commands(unit: Unit, job: Job, caller: str) -> bool:
    """Only the initiator; of a local job, whose initiator is party 0, that is the own server."""
    initiator = job.initiator.party_id
    return caller == (unit.context.party_id if initiator == "0" else initiator)


def _too_much(message: str, *keys: str) -> FlowError:
    places = ", ".join(f"job_runtime_conf.job_parameters.common.{key}" for key in keys)
    error = FlowError(f"the job {message} ({places})")
    error.retcode = 103
    return error


def _absent(command: Command) -> Answer:
    if command.kind is CommandKind.STATUS and command.argument != JobStatus.WAITING.value:
        _job_end(command.argument, "status")
        return OK       # what was never here, or is forgotten, is over
    if command.kind in (CommandKind.RETURN, CommandKind.STOP):
        return Answer(data={"tasks": []})
    code = 102 if command.kind.value.startswith("task") else 103
    return Answer(code, f"job {command.job_id} is not known on {command.to}", {"is_unknown": True})


def document_in(body: Mapping[str, Any]) -> Document:
    """Of a `create`. Raises BadRequest."""
    for key in ("dsl", "runtime_conf"):
        if not isinstance(body.get(key), Mapping):
            raise BadRequest(f"{key}: is missing or is not an object")
    name, description = plain(body.get("name"), _LONGEST_NAME), plain(body.get("description"), _LONGEST_TEXT)
    return Document(body["dsl"], body["runtime_conf"], {}, name, description)


def _check_create(unit: Unit, command: Command, spec: JobSpec, caller: str) -> None:
    if command.to not in spec.parties:
        raise BadRequest(f"role: {command.to} has no seat in job {command.job_id}")
    is_local = command.to.role == "local" or command.to.party_id == "0"
    if is_local and caller != unit.context.party_id:
        raise PermissionDenied(f"role: {command.to} is taken from the own server only")
    if caller != spec.initiator.party_id and not (is_local and caller == unit.context.party_id):
        raise PermissionDenied(f"initiator: {spec.initiator} is not party {caller}, which sent the job")
    _check_keys(unit, command.to, spec)


def _check_keys(unit: Unit, party: Party, spec: JobSpec) -> None:
    """Raises PermissionDenied for a job with a party whose requests could not be believed here: workers send theirs to
    each other without the initiator, too."""
    others = sorted({one.party_id for one in spec.parties} - {unit.context.party_id, "0"})
    lacking = [one for one in others if unit.context.site.needs_key(one) and unit.tx.site_key(one) is None]
    if lacking:
        raise PermissionDenied(f"{party} has no public key of party {', '.join(lacking)} (flow key save, there)")


def plain_incarnation(job_id: str, name: str, version: int) -> str:
    """What an initiator that speaks plain v1 does not give: of this attempt, and the same at every party of ours."""
    return hashlib.sha256(f"{job_id} {name} {version}".encode()).hexdigest()[:32]


def _first_tasks(spec: JobSpec, command: Command, unit: Unit) -> list[Task]:
    given = command.body.get("incarnations")
    known = {
        name: check_incarnation(given[name], f"incarnations.{name}")
        for name in spec.tasks
        if isinstance(given, Mapping) and given.get(name)
    }
    return [
        Task(
            key=TaskKey(command.job_id, task.name, 0, command.to),
            status=TaskStatus.WAITING,
            party_status=TaskStatus.WAITING,
            runs_here=True,
            incarnation=known.get(task.name) or plain_incarnation(command.job_id, task.name, 0),
            module=task.module,
            auto_retries=task.retry.retries,
            create_time=unit.now,
        )
        for task in spec.tasks_of(command.to)
    ]


# ---------------------------------------------------------------------- the next run


def _in_later_run(unit: Unit, command: Command, job: Job) -> Answer:
    """The initiator has begun the job again: that it waits, or already how it ended, is the first that says so."""
    if command.kind is not CommandKind.STATUS:
        return Answer(NOT_EFFECTIVE, f"job {job.job_id} is in run {job.run}, not {command.run}")
    if not job.is_final:
        job = _end_last_run(unit, command, job)
    if not job.is_final or has_workers(unit, job):
        return Answer(NOT_EFFECTIVE, f"{job.key} still ends its run {job.run}", {STILL_ENDS: True})
    job = _with_parameters(unit, command, job)
    document, spec = unit.tx.document(job.job_id), unit.spec(job.job_id)
    assert document is not None, "a job row has its document"
    assert spec is not None, "and it could be read"
    tasks = _tasks_anew(unit, command, job)
    begin_again(unit, job, command.run)
    unit.tx.add_tasks(tasks, job, document)
    for task in tasks:
        _note_version(unit, spec, task.key, {"message": f"run {command.run} begins"})
    return _status(unit, command, unit.tx.job(job.key) or job)


def _with_parameters(unit: Unit, command: Command, job: Job) -> Job:
    """The row with the parameters that come with the news of a rerun. Raises FlowError where it cannot take them."""
    given = command.body.get("parameters")
    if not isinstance(given, Mapping):
        return job
    take_parameters(unit, job, given, PartySide().accept)
    return unit.tx.job(job.key) or job


def _end_last_run(unit: Unit, command: Command, job: Job) -> Job:
    """The initiator knows that it is over, and this party has never heard of it."""
    last = command.body.get("last")
    told = last if isinstance(last, Mapping) else {"status": JobStatus.CANCELED.value}
    new = _job_end(str(told.get("status")), "last.status")
    if not may_move(job.status, new):
        new = JobStatus.CANCELED
    message = plain(told.get("message"), _LONGEST_TEXT)
    end_job_here(unit, _with_code(job, told), _reason(told.get("reason"), new), message, caused_by=cause_in(told))
    _close_tasks(unit, job, new)
    return unit.tx.job(job.key) or job


def has_workers(unit: Unit, job: Job) -> bool:
    """Whether a worker of this seat still lives, as far as is known: also one that the end did not wait for."""
    workers = unit.tx.workers_of(job.job_id)
    return any(one.task.party == job.party and one.status is not WorkerStatus.EXITED for one in workers)


def begin_again(unit: Unit, job: Job, run: int, wait_reason: str = "") -> None:
    """The ended row waits in a later run, on record. Raises NotEffective when another process has moved it."""
    unit.note(Event.JOB_STATUS_ASKED, job_id=job.job_id, status=JobStatus.WAITING)
    if not unit.tx.begin_again(job, run, unit.steady, wait_reason):
        # To be asked again: then the row shows what the other process has made of it.
        raise NotEffective(f"{job.key} is no longer {job.status.value} in run {job.run}", data={STILL_ENDS: True})
    unit.moves(
        Level.JOB, job.job_id, job.status, JobStatus.WAITING, party=job.party, message=f"run {run} begins",
        caused_by=str(job.initiator),
    )  # fmt: skip
    unit.note(Event.JOB_STATUS_WRITTEN, job_id=job.job_id)


def _tasks_anew(unit: Unit, command: Command, job: Job) -> list[Task]:
    """The new versions that come with the news of a rerun. Raises BadRequest."""
    spec, given = unit.spec(job.job_id), command.body.get("tasks")
    assert spec is not None, "a job row has its document"
    found = []
    for name, one in given.items() if isinstance(given, Mapping) else ():
        path = f"tasks.{shown_key(name)}"
        if name not in spec.tasks or job.party not in spec.tasks[name].parties or not isinstance(one, Mapping):
            raise BadRequest(f"{path}: is no component of job {job.job_id} on {job.party}")
        key = TaskKey(job.job_id, name, check_version(one.get("version"), f"{path}.version"), job.party)
        incarnation = check_incarnation(one.get("incarnation"), f"{path}.incarnation")
        left = check_version(one.get("auto_retries"), f"{path}.auto_retries")
        found.append(_new_task(unit, spec, key, incarnation, left))
    return found


def _new_task(unit: Unit, spec: JobSpec, key: TaskKey, incarnation: str, auto_retries: int) -> Task:
    return Task(
        key=key,
        status=TaskStatus.WAITING,
        party_status=TaskStatus.WAITING,
        runs_here=True,
        incarnation=incarnation,
        module=spec.tasks[key.name].module,
        auto_retries=auto_retries,
        create_time=unit.now,
    )


# ---------------------------------------------------------------------- job commands


def _status(unit: Unit, command: Command, job: Job) -> Answer:
    if command.argument == JobStatus.WAITING.value:
        return _rerun_of_plain(unit, job) if job.legacy and job.is_final else _accept(unit, command, job)
    new = _job_end(command.argument, "status")
    if command.body.get("tag") == "submit_failed" and job.status is JobStatus.READY:
        return forget_seat(unit, job)
    if not job.is_final:
        if not may_move(job.status, new):
            return Answer(NOT_EFFECTIVE, f"{job.key} is {job.status.value}, which does not end as {new.value}")
        end_job_here(unit, _with_code(job, command.body), *_why(command, new), caused_by=cause_in(command.body))
    _close_tasks(unit, job, new)
    missing = _parties_in(command.body.get("missing"), job)
    if missing:
        unit.tx.name_missing(job.key, missing)
    return _how_it_ended(unit, job, _what_is_left(unit, job))


def _how_it_ended(unit: Unit, job: Job, answer: Answer) -> Answer:
    """Where the row has come to, or goes: it may have ended before, since its initiator was silent for too long."""
    now = unit.tx.job(job.key) or job
    end = now.status if now.is_final else now.target
    return answer if end is None else replace(answer, data={**(answer.data or {}), "ended_as": end.value})


def _job_end(text: str, key: str) -> JobStatus:
    """The status that ends a job. Raises BadRequest."""
    known = {status.value: status for status in JOB_END}
    if text not in known:
        raise BadRequest(f"{key}: {shown(text)} is not one of {', '.join(sorted(known))}")
    return known[text]


def _why(command: Command, new: JobStatus) -> tuple[Reason, str]:
    """The reason and the message that a command to end carries."""
    return _reason(command.body.get("reason"), new), plain(command.body.get("message"), _LONGEST_TEXT)


def _accept(unit: Unit, command: Command, job: Job) -> Answer:
    """It waits: every party has accepted it, or it gives back what the turn that is named has reserved."""
    if job.status is JobStatus.READY:
        move_job(unit, job, MoveJob(JobStatus.WAITING))
    elif command.body.get("turn") is not None:
        return _put_off_here(unit, job, _whole(command, "turn", 0))
    return OK


def _put_off_here(unit: Unit, job: Job, turn: int) -> Answer:
    """Also when it comes late: what a later turn has reserved or started stays."""
    if job.is_final or job.status is JobStatus.STOPPING:
        return Answer(103, f"{job.key} is {job.status.value} ({job.reason.value if job.reason else 'no reason'})")
    if job.status is not JobStatus.RUNNING or job.claim.turn != turn:
        return OK
    if has_workers(unit, job):
        return Answer(NOT_EFFECTIVE, f"{job.key} still has workers", {STILL_ENDS: True})
    put_off(unit, job)
    return _what_is_left(unit, job)


def put_off(unit: Unit, job: Job, wait_reason: str = "", retry_at: int = 0) -> None:
    """The running row waits, on record, and holds nothing. Raises NotEffective when another process has moved it."""
    unit.note(Event.JOB_STATUS_ASKED, job_id=job.job_id, status=JobStatus.WAITING)
    if not unit.tx.put_off(job, wait_reason, retry_at):
        raise NotEffective(f"{job.key} is no longer {job.status.value}", data={STILL_ENDS: True})
    release(unit, job)
    words = pausing(wait_reason, retry_at - unit.steady) if wait_reason else ""
    unit.moves(
        Level.JOB, job.job_id, job.status, JobStatus.WAITING, party=job.party, message=words,
        caused_by=str(job.initiator),
    )  # fmt: skip
    unit.note(Event.JOB_STATUS_WRITTEN, job_id=job.job_id)


def _rerun_of_plain(unit: Unit, job: Job) -> Answer:
    """An initiator that speaks plain v1 knows no runs: each time that an ended job is to wait is the next one."""
    if has_workers(unit, job):
        return Answer(NOT_EFFECTIVE, f"{job.key} still ends its run {job.run}")
    begin_again(unit, job, job.run + 1)
    return OK


def forget_seat(unit: Unit, job: Job) -> Answer:
    """Nothing of a job that was refused elsewhere stays here."""
    unit.tx.forget_seat(job.key)
    job_id = job.job_id
    if not unit.tx.jobs_here(job_id):
        unit.after_commit(lambda: unit.context.files.remove_job(job_id))
    return OK


def end_job_here(
    unit: Unit, job: Job, reason: Reason, message: str, deadline_seconds: float | None = None, caused_by: str = ""
) -> None:
    """The job is over for this party: at once when nothing runs any more, else when its workers have gone.

    They have this party's own grace for it, or less where the initiator waits for less. Without a cause it is the
    initiator's doing. `job.exit_code` is taken over: that of the worker that is the cause."""
    caused_by = caused_by or job.caused_by or str(job.initiator)
    busy = stop_tasks_here(unit, job, reason, deadline_seconds, caused_by)
    if not busy:
        finalise(unit, job, reason, message, caused_by)
    elif job.status is not JobStatus.STOPPING:
        target = job_status_for(reason)
        move = MoveJob(
            JobStatus.STOPPING, reason, message, target=target, stop_by=ENDS_WHEN_DRAINED, exit_code=job.exit_code
        )
        move_job(unit, job, move, caused_by)


def _with_code(job: Job, body: Mapping[str, Any]) -> Job:
    """The job with the exit code that a body gives it."""
    code = exit_code_in(body)
    return job if code is None else replace(job, exit_code=code)


ENDS_WHEN_DRAINED = 1
"""In `stop_by` of a row that is not the initiator's: it ends by itself when its last worker has gone."""


def finalise(unit: Unit, job: Job, reason: Reason, message: str, caused_by: str) -> None:
    """This party's row takes its final status and holds nothing any more."""
    release(unit, job)
    now = unit.tx.job(job.key) or job
    end = job_status_for(reason)
    move_job(unit, now, MoveJob(end, reason, message, exit_code=job.exit_code), caused_by)
    if reason is Reason.INITIATOR_LOST:
        _close_tasks(unit, job, end)     # nobody else will say how they ended
    clean_up(unit, job.job_id)


def _close_tasks(unit: Unit, job: Job, end: JobStatus) -> None:
    """The federated status of what the initiator has not told the end of: the job is over, and so is every task."""
    now = unit.tx.job(job.key) or job
    for task in unit.tx.tasks(job.job_id):
        if task.key.party != job.party or task.is_final:
            continue
        key, own = task.key, task.party_status
        keeps_own = end is JobStatus.SUCCESS or own in TASK_BROKEN
        if keeps_own and own is not TaskStatus.CANCELED and may_move(task.status, own):
            move = MoveTask(
                key.name, key.version, task.status, own, task.reason, task.message, caused_by=task.caused_by,
                exit_code=task.exit_code,
            )  # fmt: skip
        else:
            move = cut_off(task, now.reason, now.message, now.caused_by or str(job.initiator))
        move_federated(unit, job.job_id, move, is_told=False)


def cut_off(task: Task, reason: Reason | None, message: str, caused_by: str) -> MoveTask:
    """A task that has not ended, of a job that has: `reason`, `message` and cause are those of the job."""
    known = Reason.STOPPED_BY_USER if reason is Reason.STOPPED_BY_USER else Reason.STOPPED
    key = task.key
    return MoveTask(key.name, key.version, task.status, TaskStatus.CANCELED, known, message, caused_by=caused_by)


def clean_up(unit: Unit, job_id: str) -> None:
    """Once no seat of the job is open here: its messages go, and the files that were sent to be uploaded."""
    if not all(row.is_final for row in unit.tx.jobs_here(job_id)):
        return
    context, spec = unit.context, unit.spec(job_id)
    uploaded = [
        str(parameters.get("file", ""))
        for task in (spec.tasks.values() if spec else ())
        if task.module == "Upload"
        for parameters in task.parameters.values()
    ]

    def clean() -> None:
        if all(row.is_final for row in context.read(lambda tx: tx.jobs_here(job_id))):
            context.exchange.purge(job_id)      # it may have begun again since the commit
        for path in uploaded:
            context.files.drop_upload(path)

    unit.after_commit(clean)


def release(unit: Unit, job: Job, at_most_turn: int | None = None) -> bool:
    """Give back what the reservation recorded; False when nothing was held."""
    if not unit.tx.give_back(job.key, at_most_turn, unit.now):
        return False
    engine = unit.tx.engine()
    assert engine is not None, "something was held, so there is an engine"
    _note_resource(unit, job, "return", job.claim, engine)
    unit.free(unit.context.party_id, job.job_id)
    return True


def stop_tasks_here(
    unit: Unit, job: Job, reason: Reason, deadline_seconds: float | None = None, caused_by: str = ""
) -> bool:
    """End every task of this seat; True while workers are still going. Without a cause it is its initiator's doing."""
    busy = False
    for task in unit.tx.tasks(job.job_id):
        if task.key.party != job.party or not task.runs_here or task.is_over_here:
            continue
        cause = caused_by or str(job.initiator)
        stop_party_task(unit, task, reason_for_shares(reason), deadline_seconds=deadline_seconds, caused_by=cause)
        found = unit.tx.task(task.key)
        busy = busy or (found is not None and found.party_status in _IN_PROCESS)
    return busy


def reason_for_shares(reason: Reason) -> Reason:
    """By which a share ends that the end of its job cuts off: also in what the initiator holds for another party."""
    return reason if reason in (Reason.STOPPED_BY_USER, Reason.INITIATOR_LOST) else Reason.STOPPED


def _check(unit: Unit, command: Command, job: Job) -> Answer:
    """Nothing of ours has to be brought first; a job that is over says so."""
    if job.is_final:
        return Answer(103, f"{job.key} is {job.status.value}")
    revision = _whole(command, "revision", 0)
    if revision > job.revision:
        return Answer(NOT_READY, f"it has parameters of revision {job.revision}, and not yet those of {revision}")
    return _not_ready(unit, job) or _ready(job)


def _ready(job: Job) -> Answer:
    consent = None if job.legacy else job.consent
    return Answer(data={APPROVED: consent.words}) if consent is not None and consent.is_given else OK


def _not_ready(unit: Unit, job: Job) -> Answer | None:
    """What keeps this party from reserving anything for the job, if something does."""
    if job.holds:
        return None
    if job.consent is not None and not job.consent.is_given:
        return _not_approved(job, job.consent)
    hold = unit.tx.intake_hold()
    return None if hold is None else Answer(NOT_READY, hold.words)


def _not_approved(job: Job, consent: Consent) -> Answer:
    if consent.approval is Approval.REJECTED:
        return Answer(103, consent.words, {IS_REJECTED: True})
    return Answer(NOT_READY, f"nobody at {job.party} has approved job {job.job_id} yet", _awaited(job))


def _awaited(job: Job) -> dict[str, str]:
    is_pending = job.consent is not None and job.consent.approval is Approval.PENDING
    return {AWAITS: APPROVAL} if is_pending else {}


def _apply(unit: Unit, command: Command, job: Job) -> Answer:
    turn = _whole(command, "turn", job.claim.turn)
    if job.holds and job.status in (JobStatus.WAITING, JobStatus.RUNNING):
        unit.tx.renew_claim(job.key, turn)
        return _granted(unit, job)
    if job.status is not JobStatus.WAITING:
        return Answer(103, f"{job.key} is {job.status.value}, not waiting")
    not_ready, order = _not_ready(unit, job), _order(command)
    if not_ready is not None:
        return not_ready
    head = _who_would_lack(unit, job, order)
    if head is not None and head.wish.passes >= unit.context.rules.queue_passes:
        return _behind(unit, job, head, order)
    if head is not None:
        unit.tx.pass_wish(head.key)      # before the engine's row is written: rows of jobs first, as in `reserve`
    token = unit.context.fresh_id()
    if unit.tx.reserve(job.key, job.asked.cores, job.asked.memory, token, turn, unit.now):
        return _granted(unit, job)
    return _short(unit, job, order)


def _who_would_lack(unit: Unit, job: Job, order: int | None) -> Job | None:
    """The seat of another job that has waited for room here for longer, and that this one takes room from.

    None also when there is no room for this one, when that seat could not be served even by an idle engine, and when
    both have one initiator, whose own queue has this one first."""
    engine = unit.tx.engine()
    head = unit.tx.first_wish(oldest_wish(unit))
    if engine is None or head is None or head.job_id == job.job_id:
        return None
    if job.wish.since and (job.wish.since, job.job_id) < (head.wish.since, head.job_id):
        return None
    if order is not None and order < head.queue_key and job.initiator.party_id == head.initiator.party_id:
        return None
    free, needed = Claim(engine.free_cores, engine.free_memory), needed_here(unit, head)
    is_possible = fits(job.asked, free) and fits(needed, Claim(engine.cores, engine.memory))
    return head if is_possible and takes_from(job.asked, needed, free) else None


def needed_here(unit: Unit, job: Job) -> Claim:
    """What all seats of the job here still have to reserve."""
    seats = [seat.asked for seat in unit.tx.jobs_here(job.job_id) if not seat.holds and not seat.is_final]
    return Claim(sum(one.cores for one in seats), sum(one.memory for one in seats))


def _behind(unit: Unit, job: Job, head: Job, order: int | None) -> Answer:
    """There is room, and it is kept for a job that has been passed often enough: for others nothing is free."""
    unit.tx.wish(job.key, unit.steady, order)
    _note_refusal(unit, job)
    # Whose job it is, is not the business of whoever asks.
    why = f"keeps its room for an older job, which has been passed there {head.wish.passes} times"
    return _no_room(job, why, Claim())


def _granted(unit: Unit, job: Job) -> Answer:
    engine = unit.tx.engine()
    assert engine is not None, "something was reserved, so there is an engine"
    _note_resource(unit, job, "apply", job.asked, engine)
    return Answer(
        data={
            "cores": job.asked.cores,
            "memory": job.asked.memory,
            "remaining_cores": engine.free_cores,
            "remaining_memory": engine.free_memory,
            "lease_seconds": unit.context.rules.hold / 1000,
        }
    )


def _note_resource(unit: Unit, job: Job, operation: str, claim: Claim, engine: EngineState) -> None:
    unit.note(
        Event.RESOURCE_RESULT, job_id=job.job_id, operation=operation, cores=claim.cores, memory=claim.memory,
        outcome="successfully", remaining_cores=engine.remaining_cores, remaining_memory=engine.remaining_memory,
        **_place(job),
    )  # fmt: skip


def _place(job: Job) -> dict[str, str]:
    return {"role": job.party.role, "party_id": job.party.party_id}


def _short(unit: Unit, job: Job, order: int | None) -> Answer:
    engine = unit.tx.engine()
    if engine is None:
        return Answer(103, "no computing engine is registered", {"why": "has no computing engine"})
    _note_refusal(unit, job)
    if engine.free_cores < job.asked.cores:
        free, total, asked, unit_name = engine.free_cores, engine.cores, job.asked.cores, "cores"
    else:
        free, total, asked, unit_name = engine.free_memory, engine.memory, job.asked.memory, "MB of memory"
    why = f"has {free} of {total} {unit_name} free, {asked} asked"
    room = Claim(engine.free_cores, engine.free_memory)
    if not fits(_asked_here(unit, job), Claim(engine.cores, engine.memory)):
        unit.tx.forget_wish(job.key)
        return _no_room(job, f"{why}: the job asks for more than it has in all", room, {"never": True})
    unit.tx.wish(job.key, unit.steady, order)
    is_coming = make_room(unit, needed_here(unit, job))
    return _no_room(job, f"{why}; elastic workers are giving theirs back" if is_coming else why, room)


def _asked_here(unit: Unit, job: Job) -> Claim:
    """What all seats of the job here reserve together."""
    seats = [seat.asked for seat in unit.tx.jobs_here(job.job_id)]
    return Claim(sum(one.cores for one in seats), sum(one.memory for one in seats))


def _note_refusal(unit: Unit, job: Job) -> None:
    engine = unit.tx.engine()
    assert engine is not None, "without one nothing is asked of it"
    unit.note(
        Event.RESOURCE_ENGINE_FAILED, job_id=job.job_id, operation="apply", engine=engine.name, **_place(job)
    )
    unit.note(
        Event.RESOURCE_FAILED, job_id=job.job_id, operation="apply", cores=job.asked.cores, memory=job.asked.memory,
        **_place(job),
    )  # fmt: skip


def _no_room(job: Job, why: str, free: Claim, more: Mapping[str, bool] = MappingProxyType({})) -> Answer:
    data = {"why": why, "free_cores": free.cores, "free_memory": free.memory, **more}
    return Answer(NO_ROOM, f"apply for job {job.job_id} resource failed", data)


def _return(unit: Unit, command: Command, job: Job) -> Answer:
    """Undoes an apply that was not started; what runs is returned by its end."""
    if job.status is JobStatus.RUNNING:
        return Answer(NOT_EFFECTIVE, f"{job.key} is running: its end returns what it holds")
    is_back = release(unit, job, None if command.body.get("turn") is None else _whole(command, "turn", 0))
    if is_back and job.wish.since:
        _wish_goes_on(unit, job, command.body.get("still_wants"))
    return _what_is_left(unit, job)


def _wish_goes_on(unit: Unit, job: Job, still_wants: object) -> None:
    """Another party had no room for the job: what it held here is kept for it. When it lacks something else, not."""
    if still_wants is True:
        unit.tx.wish(job.key, unit.steady)
    elif still_wants is False:
        unit.tx.forget_wish(job.key)


def _what_is_left(unit: Unit, job: Job) -> Answer:
    """After cores may have come back: how many are free now, so that the initiator asks for as many and no more."""
    engine = unit.tx.engine()
    unit.knowers.add(job.initiator.party_id)
    return OK if engine is None else Answer(data={"remaining_cores": engine.free_cores})


def _start(unit: Unit, command: Command, job: Job) -> Answer:
    """A hold becomes a running claim; a late one, of a turn that was given up, starts nothing of a later turn."""
    if job.status is JobStatus.RUNNING:
        return OK
    if _whole(command, "turn", job.claim.turn) != job.claim.turn:
        return Answer(103, f"{job.key} was reserved in turn {job.claim.turn}, not {command.body['turn']}")
    if job.status is not JobStatus.WAITING or not job.holds:
        return Answer(103, f"{job.key} is {job.status.value} and holds {'something' if job.holds else 'nothing'}")
    if job.consent is not None and not job.consent.is_given:
        return _not_approved(job, job.consent)      # MySQL only: rejected while it was being reserved for
    unit.note(Event.PARTY_START_ASKED, job_id=job.job_id, **_place(job))
    move_job(unit, job, MoveJob(JobStatus.RUNNING))
    now = unit.tx.job(job.key)
    if now is None or not now.holds:
        # On MySQL another process may have taken the hold back since the row was read; the move locks the row.
        raise OperationFailed(f"{job.key} holds nothing any more")
    unit.note(Event.PARTY_STARTED, job_id=job.job_id, **_place(job))
    return OK


def _align(unit: Unit, job: Job, caller: str) -> Answer:
    """The heartbeat of plain v1 servers, each to all others of a job. Only the initiator's life is anything to us.

    What else FATE puts into it, tables that are taken over from another job, does not exist here."""
    if job.legacy and _commands(unit, job, caller):
        unit.tx.hear(caller)
    return OK


def _update(unit: Unit, command: Command, job: Job) -> Answer:
    """The named list of columns that an initiator may write: progress."""
    progress = command.body.get("progress")
    if isinstance(progress, int) and not job.is_final:
        unit.tx.set_progress(job.key, max(0, min(100, progress)))
    return OK


def _stop(unit: Unit, command: Command, job: Job) -> Answer:
    """Ends the tasks here, and the row with the last of them; the initiator's own row is for it to end."""
    reason, message = _why(command, _job_end(command.argument, "stop_status"))
    deadline = _seconds(command.body.get("deadline_seconds"), "deadline_seconds")
    caused_by = cause_in(command.body)
    unit.note(Event.STOP_COMMAND_ASKED, job_id=job.job_id)
    if job.is_initiator or job.status is JobStatus.READY:
        stop_tasks_here(unit, job, reason, deadline, caused_by)
    elif not job.is_final:
        end_job_here(unit, _with_code(job, command.body), reason, message, deadline, caused_by)
    mine = [task for task in unit.tx.tasks(job.job_id) if task.key.party == job.party]
    return Answer(data={"tasks": [report_of(task) for task in mine]})


def _parameters(unit: Unit, command: Command, job: Job) -> Answer:
    return take_parameters(unit, job, command.body, PartySide().accept)


def _nothing(_: Unit, __: Command, ___: Job) -> Answer:
    return OK


def _none_reusable(_: Unit, __: Command, ___: Job) -> Answer:
    """No component here takes over what another job or an earlier run has made."""
    return Answer(data=[])


# ---------------------------------------------------------------------- task commands


def _task_of(unit: Unit, command: Command) -> Task | Answer:
    task = unit.tx.task(command.task_key)
    if task is None:
        return Answer(102, f"no found {command.task_key}")
    if command.body.get("incarnation") not in (None, task.incarnation):
        return Answer(NOT_EFFECTIVE, f"{task.key} is another incarnation")
    return task


def _task_create(unit: Unit, command: Command, job: Job) -> Answer:
    document, spec = unit.tx.document(job.job_id), unit.spec(job.job_id)
    if document is None or spec is None or command.task not in spec.tasks:
        return Answer(100, f"job {job.job_id} has no component {command.task}")
    is_over = job.is_final and not job.legacy       # a rerun of plain v1 begins with the tasks
    if is_over or job.status is JobStatus.STOPPING:
        return Answer(NOT_EFFECTIVE, f"{job.key} is {job.status.value}: no task begins there")
    given = command.body.get("incarnation")
    incarnation = check_incarnation(given) if given else plain_incarnation(job.job_id, command.task, command.version)
    left = _whole(command, "auto_retries", 0)
    is_new = unit.tx.task(command.task_key) is None
    unit.tx.add_tasks([_new_task(unit, spec, command.task_key, incarnation, left)], job, document)
    if is_new:
        _note_version(unit, spec, command.task_key, command.body)
    return OK


def _note_version(unit: Unit, spec: JobSpec, key: TaskKey, why: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Once at each party, whatever seats it has; at the initiator's it is written with what decides it."""
    own = unit.context.party_id
    first = next((one for one in spec.tasks[key.name].parties if one.party_id == own), None)
    if key.party != first or spec.initiator.party_id in (own, "0"):
        return
    cause, message = cause_in(why) or str(spec.initiator), plain(why.get("message"), _LONGEST_TEXT)
    note_version(unit, key, cause, _reason_given(why.get("reason")), message)


def _reason_given(text: object) -> Reason | None:
    try:
        return Reason(text)
    except ValueError:
        return None


def _task_start(unit: Unit, command: Command, job: Job) -> Answer:
    task = _task_of(unit, command)
    if isinstance(task, Answer):
        return task
    if job.status is not JobStatus.RUNNING:
        return Answer(103, f"{job.key} is {job.status.value}, not running")
    if task.worker_id or task.is_over_here:
        return Answer(data=report_of(task))
    if task.status is TaskStatus.WAITING and not job.is_initiator:
        move_federated(unit, job.job_id, MoveTask(task.key.name, task.key.version, task.status, TaskStatus.RUNNING))
    answer = start_worker(unit, job, task, _parties_in(command.body.get("without"), job))
    begin_elastic(unit, task.key)
    return answer


def _parties_in(value: object, job: Job) -> tuple[str, ...]:
    """Those parties of the job that a list names."""
    named = value if isinstance(value, list) else []
    return tuple(str(party) for party in sorted(job.parties) if str(party) in named)


def _task_status(unit: Unit, command: Command, job: Job) -> Answer:
    task = _task_of(unit, command)
    if isinstance(task, Answer):
        return task
    try:
        new = TaskStatus(command.argument)
    except ValueError:
        raise BadRequest(f"status: {shown(command.argument)} is not a task status") from None
    if job.is_initiator:
        return OK
    if task.status is not new and may_move(task.status, new):
        move_federated(unit, job.job_id, _told_move(command, job, task, new))
    return OK


def _told_move(command: Command, job: Job, task: Task, new: TaskStatus) -> MoveTask:
    """What the initiator says of a task over all its parties; without a reason that fits, what the end stands for."""
    move = MoveTask(task.key.name, task.key.version, task.status, new)
    if new not in TASK_END:
        return move
    body, reason = command.body, _reason_given(command.body.get("reason"))
    if reason is None or task_status_for(reason) is not new:
        return replace(move, reason=PLAIN_REASONS[new], caused_by=str(job.initiator))
    return replace(
        move, reason=reason, message=plain(body.get("message"), _LONGEST_TEXT), exit_code=exit_code_in(body),
        caused_by=cause_in(body) or str(job.initiator),
    )


def _task_stop(unit: Unit, command: Command, job: Job) -> Answer:
    task = _task_of(unit, command)
    if isinstance(task, Answer):
        return task
    if not task.is_over_here:
        is_passed_over = command.body.get("reason") == Reason.PARTY_MISSING.value
        cause = cause_in(command.body) or str(job.initiator)
        stop_party_task(unit, task, Reason.PARTY_MISSING if is_passed_over else Reason.STOPPED, caused_by=cause)
    found = unit.tx.task(task.key)
    return Answer(data=report_of(found) if found is not None else None)


def _task_collect(unit: Unit, command: Command, job: Job) -> Answer:
    task = unit.tx.task(command.task_key)
    return Answer(data=report_of(task, job.legacy)) if task is not None else Answer(103, "query task failed")


_HANDLERS: Mapping[CommandKind, Callable[[Unit, Command, Job], Answer]] = {
    CommandKind.STATUS: _status,
    CommandKind.CHECK: _check,
    CommandKind.APPLY: _apply,
    CommandKind.RETURN: _return,
    CommandKind.START: _start,
    CommandKind.UPDATE: _update,
    CommandKind.PARAMETERS: _parameters,
    CommandKind.ALIGN: _nothing,
    CommandKind.STOP: _stop,
    CommandKind.CLEAN: _nothing,
    CommandKind.FIND_REUSABLE: _none_reusable,
    CommandKind.TASK_CREATE: _task_create,
    CommandKind.TASK_START: _task_start,
    CommandKind.TASK_STATUS: _task_status,
    CommandKind.TASK_STOP: _task_stop,
    CommandKind.TASK_COLLECT: _task_collect,
}


# ---------------------------------------------------------------------- small words


def move_job(unit: Unit, job: Job, move: MoveJob, caused_by: str = "") -> bool:
    """Write the status, with the lines that operators follow it by."""
    unit.note(Event.JOB_STATUS_ASKED, job_id=job.job_id, status=move.new)
    done = unit.tx.move_job(job, move, unit.now, caused_by)
    if done:
        unit.moves(
            Level.JOB, job.job_id, job.status, move.new, party=job.party, reason=move.reason, message=move.message,
            caused_by=caused_by, exit_status=exit_words(move.exit_code),
        )  # fmt: skip
    unit.note(Event.JOB_STATUS_WRITTEN if done else Event.JOB_STATUS_UNCHANGED, job_id=job.job_id)
    return done


def _reason(text: object, status: JobStatus) -> Reason:
    """The reason an initiator gave, where it may; a plain v1 peer gives none, so the status stands for it."""
    try:
        reason = Reason(text)
        if job_status_for(reason) is status and may_say(Author.INITIATOR, reason):
            return reason
    except ValueError:
        pass
    return _PLAIN[status]


_PLAIN = {
    JobStatus.SUCCESS: Reason.DONE,
    JobStatus.FAILED: Reason.TASK_FAILED,
    JobStatus.CANCELED: Reason.STOPPED,
    JobStatus.TIMEOUT: Reason.JOB_TIMEOUT,
}


def _seconds(value: object, key: str) -> float | None:
    """A duration in a body; None when it is not there. Raises BadRequest."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < _LONGEST_SECONDS:
        raise BadRequest(f"{key}: {shown(value)} is not a number of seconds from 0 to {_LONGEST_SECONDS:g}")
    return float(value)


_LONGEST_SECONDS = 1e9


def _order(command: Command) -> int | None:
    """Where the job stands in the queue of its initiator; a plain v1 one does not say. Raises BadRequest."""
    value = command.body.get("order")
    if value is None:
        return None
    if type(value) is not int or abs(value) > _MOST_ORDER:
        raise BadRequest(f"order: {shown(value)} is not a whole number from -{_MOST_ORDER} to {_MOST_ORDER}")
    return value


_MOST_ORDER = 2**62


def _whole(command: Command, key: str, default: int) -> int:
    """A counter in a body. Raises BadRequest for one that no column takes."""
    value = command.body.get(key)
    return default if value is None else check_version(value, key)

