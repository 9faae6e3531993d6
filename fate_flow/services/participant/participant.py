"""The participant: the receiving side of `/v1/party/...` (party-api-v1, sections 2 and 3).

Every command may come twice, late, or for something that is long over. Then the answer is the same again, or says that
nothing was changed. The job's own row decides who may send a command: only its initiator.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from fate_flow.core.access.authority import Query, Said, objection
from fate_flow.core.model.approval import Approval, Consent
from fate_flow.core.model.errors import NOT_EFFECTIVE, FlowError, StorageFailed
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import ANY_RUN, Answer, Command, CommandKind, Job, JobKey
from fate_flow.core.model.status import JobStatus
from fate_flow.core.planning.participant.reservation import is_awaited
from fate_flow.core.planning.queue import queue_key
from fate_flow.core.wire.v1.endings import job_end_in
from fate_flow.core.wire.v1.initiator_bodies import unknown_data
from fate_flow.core.wire.v1.job_answers import joined_data
from fate_flow.core.wire.v1.queries import preview_data
from fate_flow.core.wire.v1.reports import reports_data
from fate_flow.core.wire.v1.retcodes import retcode_of
from fate_flow.jobspec.fate_v1.reader import effective_document
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.effects import WriteConfs
from fate_flow.services.context.unit_of_work import UnitOfWork, binding_of
from fate_flow.services.participant.admission import admit, effective_here, first_tasks, request
from fate_flow.services.participant.comparison import answer_comparison
from fate_flow.services.participant.job_commands import (
    align,
    change_parameters,
    in_later_run,
    start,
    stop,
    take_status,
    update,
)
from fate_flow.services.participant.parameters import take_document
from fate_flow.services.participant.plain_v1 import OTHER_STATUSES, check_messages
from fate_flow.services.participant.reserving import apply, check, give_back
from fate_flow.services.participant.rows import OK, note_beginning
from fate_flow.services.participant.task_commands import task_collect, task_create, task_start, task_status, task_stop
from fate_flow.services.workers.allowed import needs_approval
from fate_flow.services.workers.places import places_of

log = logging.getLogger(__name__)


class Participant:
    """The use cases of a participant. All run in the unit of work that they are given."""

    def handle(self, unit: UnitOfWork, command: Command, caller: str) -> Answer:
        """Carry out one command of the party with id `caller`. Errors of the caller become answers.

        Raises StorageFailed; then nothing was changed, and the caller has to ask again."""
        try:
            with unit.part():
                if command.kind is CommandKind.CREATE:
                    return self._create(unit, command, caller)
                return self._command(unit, command, caller)
        except StorageFailed:
            raise
        except FlowError as error:
            return Answer(retcode_of(error), error.message, error.data)
        except Exception:
            # An unexpected error in one command must not fail the other commands of its batch.
            incident = unit.context.fresh_id()[:12]
            log.exception(
                "%s of party %s for job %s failed: error %s", command.kind.value, caller, command.job_id, incident
            )
            return Answer(100, f"unexpected error at {command.to}; its log has the reason: error {incident}")

    def _command(self, unit: UnitOfWork, command: Command, caller: str) -> Answer:
        if command.kind is CommandKind.COMPARE:
            return answer_comparison(unit, command, caller)
        job = unit.tx.job(JobKey(command.job_id, command.to))
        if job is None:
            return _absent(command)
        if why := objection(Said(command.kind, caller, unit.context.party_id, command.to), binding_of(job)):
            return Answer(108, why)
        if command.kind is CommandKind.ALIGN:
            return align(unit, job, caller)
        if job.is_plain_v1:
            unit.tx.record_heartbeat(caller)  # plain v1 has no heartbeats, so each of its commands counts as one
        if command.run < job.run and command.kind is not CommandKind.PARAMETERS:      # parameters have revisions
            return Answer(NOT_EFFECTIVE, f"job {job.job_id} is in run {job.run}, not {command.run}")
        if job.run < command.run < ANY_RUN:
            return in_later_run(unit, command, job)
        return _HANDLERS[command.kind](unit, command, job)

    def _create(self, unit: UnitOfWork, command: Command, caller: str) -> Answer:
        admitted = admit(unit, command.kind, command, caller)
        create, spec, key = admitted.create, admitted.spec, JobKey(command.job_id, command.to)
        if create.is_plain_v1:
            check_messages(unit, spec)
        asked = request(unit, spec, command.to)
        job = Job(
            key=key,
            initiator=spec.initiator,
            is_initiator=command.to == spec.initiator and caller == unit.context.party_id,
            status=JobStatus.READY,
            parties=spec.parties,
            asked=asked,
            timeout_seconds=spec.common.timeout_seconds,
            ttl_seconds=spec.ttl_seconds,
            create_time=max(unit.now, unit.tx.last_create_time() + 1),
            since=unit.steady,
            is_plain_v1=create.is_plain_v1,
            priority=spec.priority,
            enqueued=unit.steady,
            queue_key=queue_key(unit.steady, spec.priority, unit.context.rules.queue_ageing),
            consent=Consent(Approval.PENDING) if needs_approval(unit, caller) else None,
            revision=admitted.offered.revision,
            trace=command.trace or unit.trace(command.job_id) or unit.context.fresh_trace(),
        )
        document = replace(
            admitted.document, on_party=effective_document(spec, command.to), federated_mode=spec.common.federated_mode,
            collect_type=spec.common.collect_type,
        )  # fmt: skip
        tasks = first_tasks(unit, admitted, command)
        known = unit.tx.job(key)
        if known is None or admitted.offered.revision > known.revision:
            take_document(unit, admitted, caller)
        if unit.tx.add_job(job, document):
            unit.moves(HistoryLevel.JOB, job.job_id, None, job.status, party=job.party, caused_by=str(spec.initiator))
            unit.tx.add_tasks(tasks, job, document)
            unit.note(Event.TRACED, job_id=job.job_id, trace=job.trace)
            for task in tasks:
                note_beginning(unit, spec, task.key)
            unit.after_commit(WriteConfs(key, document))
        components = {name: command.to in task.parties for name, task in spec.tasks.items()}
        capped = [one.as_dict() for one in effective_here(unit.context, spec, command.to) if one.asked is not None]
        awaits = is_awaited(unit.tx.job(key) or job)
        return Answer(data=joined_data(
            components, asked.cores, capped, awaits_approval=awaits, places=places_of(unit, job)
        ))  # fmt: skip

    def preview(self, unit: UnitOfWork, command: Command, caller: str) -> Answer:
        """Return the answer that this `create` would get, and write nothing. Errors of the caller become answers."""
        try:
            spec = admit(unit, Query.VALIDATE, command, caller).spec
        except FlowError as error:
            return Answer(retcode_of(error), error.message, preview_data())
        effective = [one.as_dict() for one in effective_here(unit.context, spec, command.to)]
        return Answer(data=preview_data(effective))


def _absent(command: Command) -> Answer:
    is_status = command.kind is CommandKind.STATUS
    if is_status and command.argument not in OTHER_STATUSES | {JobStatus.WAITING.value}:
        job_end_in(command.argument, "status")
        return OK       # a job that was never here, or is forgotten, is over
    if command.kind in (CommandKind.RETURN, CommandKind.STOP):
        return Answer(data=reports_data([]))
    code = 102 if command.kind.value.startswith("task") else 103
    return Answer(code, f"job {command.job_id} is not known on {command.to}", unknown_data())


def _nothing(_: UnitOfWork, __: Command, ___: Job) -> Answer:
    return OK


def _none_reusable(_: UnitOfWork, __: Command, ___: Job) -> Answer:
    """Answer that no component can be reused from another job: this server does not reuse outputs that way."""
    return Answer(data=[])


_HANDLERS: Mapping[CommandKind, Callable[[UnitOfWork, Command, Job], Answer]] = {
    CommandKind.STATUS: take_status,
    CommandKind.CHECK: check,
    CommandKind.APPLY: apply,
    CommandKind.RETURN: give_back,
    CommandKind.START: start,
    CommandKind.UPDATE: update,
    CommandKind.PARAMETERS: change_parameters,
    CommandKind.ALIGN: _nothing,
    CommandKind.STOP: stop,
    CommandKind.MODEL: _nothing,         # our components make no models; answers 0, as FATE does for a local job
    CommandKind.CLEAN: _nothing,
    CommandKind.FIND_REUSABLE: _none_reusable,
    CommandKind.TASK_CREATE: task_create,
    CommandKind.TASK_START: task_start,
    CommandKind.TASK_STATUS: task_status,
    CommandKind.TASK_STOP: task_stop,
    CommandKind.TASK_COLLECT: task_collect,
}
