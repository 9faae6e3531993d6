"""Whether a job is taken here, and what is set aside for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from fate_flow.coordinator.party.words import LONGEST_TEXT, plain_incarnation
from fate_flow.coordinator.ports import Context
from fate_flow.coordinator.unit import Unit, read_spec
from fate_flow.coordinator.workers import hidden_table
from fate_flow.core.ceilings import refusals
from fate_flow.core.command import CommandSpec, command_at
from fate_flow.core.effective import Effective, effective_at
from fate_flow.core.errors import BadRequest, FlowError, OperationFailed, PermissionDenied, Refused
from fate_flow.core.grammar import check_incarnation
from fate_flow.core.job import Command, Task, TaskKey
from fate_flow.core.permission import missing
from fate_flow.core.resources import Request, request_of
from fate_flow.core.spec import JobSpec, Party
from fate_flow.core.status import TaskStatus
from fate_flow.core.text import plain
from fate_flow.store.contract import Document

EXTENSIONS = {"batch": 1, "lease": 1, "incarnation": 1, "exchange": 1, "stopping": 1, "room": 1}
"""What we offer beyond plain v1; announced in `create` and in its answer."""
_LONGEST_NAME = 500
_MOST_REFUSALS = 10       # that are told; one message between parties is 1,000 characters long


def accept(unit: Unit, spec: JobSpec, party: Party) -> Request:
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
    _check_programs(unit, spec, party)
    return request(unit, spec, party)


def _check_programs(unit: Unit, spec: JobSpec, party: Party) -> None:
    for name, program in _programs_of(spec, party):
        objection = unit.context.gate.objection(program, spec.initiator.party_id)
        if objection:
            raise OperationFailed(f"{name} (Command) is not run at {party}: {objection}")


def request(unit: Unit, spec: JobSpec, party: Party) -> Request:
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


def _too_much(message: str, *keys: str) -> FlowError:
    places = ", ".join(f"job_runtime_conf.job_parameters.common.{key}" for key in keys)
    error = FlowError(f"the job {message} ({places})")
    error.retcode = 103
    return error


def document_in(body: Mapping[str, Any]) -> Document:
    """Of a `create`. Raises BadRequest."""
    for key in ("dsl", "runtime_conf"):
        if not isinstance(body.get(key), Mapping):
            raise BadRequest(f"{key}: is missing or is not an object")
    name, description = plain(body.get("name"), _LONGEST_NAME), plain(body.get("description"), LONGEST_TEXT)
    return Document(body["dsl"], body["runtime_conf"], {}, name, description)


def check_create(unit: Unit, command: Command, spec: JobSpec, caller: str) -> None:
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


def first_tasks(spec: JobSpec, command: Command, unit: Unit) -> list[Task]:
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
