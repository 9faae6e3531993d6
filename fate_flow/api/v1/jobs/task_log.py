"""The output of a task's workers and the files that they leave, for clients of the workers' party.

Other parties get neither, unless this party's configuration has `commands.share_logs`: then only the initiator of the
job may read the output.
"""

from __future__ import annotations

from collections.abc import Mapping

from flask import Blueprint, Response, request, send_file

from fate_flow.api.http.arguments import (
    COMPONENT_NAME,
    JOB,
    SEAT,
    Body,
    read_component,
    read_job_id,
    read_party,
    read_task_version,
    whole,
)
from fate_flow.api.http.declared import (
    COUNT,
    NOTHING,
    TEXT,
    YES_NO,
    Schema,
    a_list,
    an_object,
    declared,
    described,
    one_of,
    or_null,
)
from fate_flow.api.http.file_routes import file_follows
from fate_flow.api.http.services import Services
from fate_flow.api.v1.envelope import arguments, ok, reply, silent_json
from fate_flow.api.v1.outputs.task_files import TaskFiles
from fate_flow.api.v1.outputs.worker_output import WorkerOutput
from fate_flow.core.access.authority import Query, Said, objection
from fate_flow.core.access.client_roles import AUDIT, OPERATE, SUBMIT
from fate_flow.core.model.errors import BadRequest, JobNotFound, PermissionDenied
from fate_flow.core.model.grammar import ROLES, check_output_name, check_party_id
from fate_flow.core.model.job import Answer, JobKey, TaskKey
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import WorkerStatus
from fate_flow.core.planning.replicas import KEPT_ATTEMPTS
from fate_flow.core.wire.v1.envelope import SRC_PARTY_ID
from fate_flow.core.wire.v1.paths import TASK_LOG
from fate_flow.core.wire.v1.queries import (
    MOST_BYTES,
    MOST_LISTED,
    NEXT_OFFSET,
    STREAMS,
    USUAL_BYTES,
    WORKERS,
    WORKERS_FROM,
    read_listed,
    read_log_piece,
    read_task_log,
)
from fate_flow.services.context.recording import record_reply
from fate_flow.services.context.unit_of_work import binding_of
from fate_flow.services.record.entries import Replied

_TASK = JOB | {"component_name": COMPONENT_NAME}
_OUTPUT = {"output_name": described(COMPONENT_NAME, "The name of an output.")}
_VERSION = {"task_version": whole("Version of the task; the newest by default.")}
_WHOSE: tuple[Schema, ...] = (
    {"properties": {"role": NOTHING, "party_id": NOTHING}, "description": "The seat of this party."},
    {"properties": SEAT, "required": list(SEAT)},
)
_WHICH = SEAT | {
    "stream": one_of(STREAMS),
    "worker": whole("Number of the worker; the first by default."),
    "attempt": whole("Number of the worker's process; the newest by default."),
    **_VERSION,
    "bytes": whole("Number of bytes at the end, or from the offset on.", 1, MOST_BYTES, USUAL_BYTES),
    "offset": whole("Number of the first byte; by default, so that the last bytes are shown."),
    WORKERS_FROM: whole("Also list the workers of this version, from this number on."),
}
_AMOUNT: Schema = {"type": "number", "minimum": 0}
_PRINTED = an_object({
    "job_id": TEXT, "component_name": TEXT, "role": one_of(ROLES), "party_id": TEXT, "task_version": COUNT,
    "worker": COUNT, "rank": or_null(COUNT), "attempt": COUNT,
    "status": one_of({status.value for status in WorkerStatus}), "reason": or_null(TEXT), "message": TEXT,
    "exit_status": TEXT, "caused_by": or_null(TEXT), "stream": one_of(STREAMS), "bytes": COUNT, "text": TEXT,
    "attempts": described(a_list(an_object({
        "attempt": COUNT, "status": one_of({status.value for status in WorkerStatus}), "reason": or_null(TEXT),
        "message": TEXT, "exit_status": TEXT, "is_kept": YES_NO,
    }, title="Attempt")), f"The newest {KEPT_ATTEMPTS} processes of the worker, and whether their output is kept."),
}, {
    "next_offset": described(COUNT, "The offset after the text, to continue from."),
    "versions": described(a_list(an_object({"task_version": COUNT, "reason": or_null(TEXT)})), "With workers."),
    WORKERS: described(an_object({
        "list": a_list(an_object({
            "worker": COUNT, "rank": or_null(COUNT), "attempt": COUNT,
            "status": one_of({status.value for status in WorkerStatus}), "reason": TEXT, "message": TEXT,
            "exit_status": TEXT, "started": COUNT, "ended": COUNT,
        }, title="ListedWorker")), "count": COUNT, "next": or_null(COUNT),
    }, title="ListedWorkers"), f"With `{WORKERS_FROM}`: the newest process of each worker, {MOST_LISTED} at most."),
    "usage": described(or_null(an_object({
        "seconds": _AMOUNT, "processor_seconds": _AMOUNT, "peak_mb": _AMOUNT, "has_ended": YES_NO,
        "samples": a_list({"type": "array", "items": _AMOUNT, "minItems": 3, "maxItems": 3}),
    }, title="Usage")), "Of an own worker, without `offset`; samples: seconds, processor seconds, MB."),
}, title="Printed")  # fmt: skip


def blueprint(services: Services) -> Blueprint:
    routes = _LogRoutes(services)
    logs = Blueprint("task_log", __name__, url_prefix="/v1")
    logs.post("/task/log")(routes.of_client)
    logs.post("/task/output")(routes.output)
    logs.post(TASK_LOG)(routes.of_party)
    return logs


class _LogRoutes:
    def __init__(self, services: Services) -> None:
        self._context, self._output = services.context, WorkerOutput(services.context)
        self._files, self._views = TaskFiles(services.context), services.views
        self._policy = services.settings.commands
        self._own = services.settings.party_id
        self._asking = services.asking_for_logs

    @declared(
        "Show the output of a worker.", SUBMIT | OPERATE | AUDIT,
        needs=_TASK, takes=_WHICH, either=_WHOSE, data=_PRINTED, relays=True,
    )
    def of_client(self) -> Response:
        body = arguments("job_id", "component_name")
        job_id, _ = read_job_id(body), read_component(body)
        query = read_task_log(body, self._party(body, job_id), job_id)
        if query.party.party_id in (self._own, "0"):
            is_followed = body.get("offset") is not None
            return ok(self._output.read(query) if is_followed else self._output.read_with_usage(query))
        answer = self._asking(job_id)(query.party, TASK_LOG, query.as_body())
        if answer.is_ok and isinstance(answer.data, Mapping) and NEXT_OFFSET in answer.data:
            read_log_piece(answer.data, query)       # who follows a log asks again at once while there is more
            if query.workers_from is not None:
                read_listed(answer.data, query.party)
        return reply(answer)

    def of_party(self) -> Response:
        """Answer the initiator of a job, if this party shares the output of its workers."""
        body = silent_json()
        query = read_task_log(body, job_id=read_job_id(body))
        job_id, party = query.job_id, query.party
        caller = check_party_id(request.headers.get(SRC_PARTY_ID))
        job = self._context.read(lambda tx: tx.job(JobKey(job_id, party)))
        said = Said(Query.TASK_LOG, caller, self._own, party)
        if why := objection(said, None if job is None else binding_of(job)):
            raise PermissionDenied(why)
        if job is None:
            raise PermissionDenied(f"party {caller} is not the initiator of job {job_id}")
        if not self._policy.share_logs:
            raise PermissionDenied(
                f"commands.share_logs is false at {party}: only its own server shows the output of its workers"
            )
        data = self._output.read(query)
        if data["text"] or WORKERS in data:      # who follows a log asks every few seconds
            record_reply(self._context, Replied("task log", caller, TASK_LOG, body, Answer(data=data), job_id))
        return ok(data)

    @file_follows
    @declared(
        "Download a file that a task produced here.", SUBMIT, needs=_TASK | _OUTPUT, takes=SEAT | _VERSION,
        either=_WHOSE, file="application/octet-stream",
    )
    def output(self) -> Response:
        """Send a published file of the task: files are published once the task has succeeded at all parties."""
        body = arguments("job_id", "component_name", "output_name")
        job_id, name, output = read_job_id(body), read_component(body), check_output_name(body.get("output_name"))
        party = self._party(body, job_id)
        version = read_task_version(body)
        if version is None:
            path = self._files.path(job_id, name, party, output)
        else:
            key = TaskKey(job_id, name, version, party)
            path = self._files.of_attempt(key, output, self._views.board.share(key, None).files, "output_name")
        return send_file(path, mimetype="application/octet-stream")

    def _party(self, body: Body, job_id: str) -> Party:
        """Return the party that the body names, by default this party's seat. Raise JobNotFound, BadRequest."""
        if body.get("role") is not None or body.get("party_id") is not None:
            return read_party(body)
        seats = [job.party for job in self._context.read(lambda tx: tx.jobs_here(job_id))]
        if not seats:
            raise JobNotFound(f"can not found job {job_id} on party {self._own}")
        if len(seats) > 1:
            raise BadRequest(f"role: job {job_id} has {' and '.join(map(str, seats))} here; give role and party_id")
        return seats[0]
