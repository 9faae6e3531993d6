"""The output of a task's workers and the files that they leave, for clients of the workers' party.

Other parties get neither, unless this party's configuration has `commands.share_logs`: then only the initiator of the
job may read the output.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flask import Blueprint, Response, request, send_file

from fate_flow.api.http.arguments import (
    COMPONENT_NAME,
    JOB,
    SEAT,
    Body,
    read_component,
    read_job_id,
    read_party,
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
from fate_flow.components.base.regular_file import NoRegularFile, open_regular
from fate_flow.core.access.authority import Query, Said, objection
from fate_flow.core.access.client_roles import AUDIT, OPERATE, SUBMIT
from fate_flow.core.model.errors import BadRequest, JobNotFound, NotFound, PermissionDenied
from fate_flow.core.model.grammar import ROLES, check_output_name, check_party_id
from fate_flow.core.model.job import JobKey, Worker
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import WorkerStatus
from fate_flow.core.planning.replicas import COLLECTOR, KEPT_ATTEMPTS
from fate_flow.core.wire.v1.envelope import SRC_PARTY_ID
from fate_flow.core.wire.v1.paths import TASK_LOG
from fate_flow.core.wire.v1.queries import MOST_BYTES, STREAMS, USUAL_BYTES, TaskLogQuery, read_task_log
from fate_flow.services.artifacts.kinds import files_of
from fate_flow.services.context.ports import why_absent
from fate_flow.services.context.unit_of_work import binding_of
from fate_flow.store.contract.transaction import Transaction

_TASK = JOB | {"component_name": COMPONENT_NAME}
_OUTPUT = {"output_name": described(COMPONENT_NAME, "The name of an output.")}
_WHOSE: tuple[Schema, ...] = (
    {"properties": {"role": NOTHING, "party_id": NOTHING}, "description": "The seat of this party."},
    {"properties": SEAT, "required": list(SEAT)},
)
_WHICH = SEAT | {
    "stream": one_of(STREAMS),
    "worker": whole("Number of the worker; the first by default."),
    "attempt": whole("Number of the worker's process; the newest by default."),
    "task_version": whole("Version of the task; the newest by default."),
    "bytes": whole("Number of bytes at the end, or from the offset on.", 1, MOST_BYTES, USUAL_BYTES),
    "offset": whole("Number of the first byte; by default, so that the last bytes are shown."),
}
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
        self._context = services.context
        self._engines = services.context.engines
        self._policy = services.settings.commands
        self._own = services.settings.party_id
        self._ask_party = services.ask_party

    @declared(
        "Show the output of a worker.", SUBMIT | OPERATE | AUDIT,
        needs=_TASK, takes=_WHICH, either=_WHOSE, data=_PRINTED, relays=True,
    )
    def of_client(self) -> Response:
        body = arguments("job_id", "component_name")
        job_id, _ = read_job_id(body), read_component(body)
        query = read_task_log(body, self._party(body, job_id), job_id)
        if query.party.party_id in (self._own, "0"):
            return ok(self._read(query))
        return reply(self._ask_party(query.party, TASK_LOG, query.as_body()))

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
        return ok(self._read(query))

    @file_follows
    @declared(
        "Download a file that a task produced here.", SUBMIT, needs=_TASK | _OUTPUT, takes=SEAT, either=_WHOSE,
        file="application/octet-stream",
    )
    def output(self) -> Response:
        """Send a published file of the task: files are published once the task has succeeded at all parties."""
        body = arguments("job_id", "component_name", "output_name")
        job_id, name, output = read_job_id(body), read_component(body), check_output_name(body.get("output_name"))
        party = self._party(body, job_id)
        files = self._context.read(lambda tx: files_of(tx, job_id, name, party))
        if output not in files:
            known = ", ".join(sorted(files)) or "none"
            raise NotFound(f"output_name: {name} has published no file {output} on {party}; its files are: {known}")
        workers = self._context.read(lambda tx: tx.workers_of(job_id))
        of_task = [one for one in workers if (one.task.name, one.task.party, one.slot) == (name, party, COLLECTOR)]
        collector = max(of_task, key=lambda one: one.task.version, default=None)
        path = self._engines.of(collector).output_file(collector, output) if collector is not None else None
        if path is None:
            raise NotFound(f"output_name: {output} of {name} on {party} was removed with its job's folder (retention)")
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

    def _read(self, query: TaskLogQuery) -> Mapping[str, Any]:
        job_id, name, party, stream = query.job_id, query.component, query.party, query.stream
        every = self._context.read(lambda tx: _workers(tx, job_id, name, party))
        attempts = _attempts(_of_version(every, query), query)
        worker = _chosen(attempts, query)
        slot, printed = worker.slot, self._engines.of(worker).printed(worker)
        if worker.engine not in self._engines:
            why = why_absent(worker.engine, self._context.read(lambda tx: tx.engine(worker.engine)))
            raise NotFound(f"the output of worker {slot} of {name} on {party} cannot be read: {why}")
        if printed is None:
            raise NotFound(
                f"attempt {worker.attempt} of worker {slot} of {name} on {party} has not begun, or its folder was "
                f"removed (retention, or {KEPT_ATTEMPTS} newer attempts)"
            )
        offset = -1 if query.offset is None else query.offset
        text, next_offset, total = _piece(printed[stream], query.size, offset)
        return {
            "job_id": job_id, "component_name": name, "role": party.role, "party_id": party.party_id,
            "task_version": worker.task.version, "worker": slot, "rank": worker.rank, "attempt": worker.attempt,
            "status": worker.status.value, "reason": worker.reason.value if worker.reason else None,
            "message": worker.message, "exit_status": worker.exit_status, "caused_by": worker.caused_by or None,
            "stream": stream, "bytes": total, "text": text,
            "attempts": [self._attempt(one) for one in attempts[-KEPT_ATTEMPTS:]],
            "next_offset": next_offset, "versions": _versions(every),
        }  # fmt: skip

    def _attempt(self, worker: Worker) -> dict[str, Any]:
        return {
            "attempt": worker.attempt, "status": worker.status.value,
            "reason": worker.reason.value if worker.reason else None, "message": worker.message,
            "exit_status": worker.exit_status, "is_kept": self._engines.of(worker).printed(worker) is not None,
        }  # fmt: skip


def _workers(tx: Transaction, job_id: str, name: str, party: Party) -> list[Worker]:
    """Return the workers of all versions. Raise NotFound."""
    found = [one for one in tx.workers_of(job_id) if one.task.name == name and one.task.party == party]
    if not found:
        raise NotFound(f"{name} of job {job_id} has no worker on {party}")
    return [one for one in found if one.slot != COLLECTOR]


def _versions(workers: list[Worker]) -> list[dict[str, Any]]:
    """Return each version with workers here, and the reason of its first worker that failed."""
    found: dict[int, str | None] = {}
    for worker in sorted(workers, key=lambda one: (one.task.version, one.end_time)):
        ended_badly = worker.reason is not None and worker.reason is not Reason.DONE
        reason = worker.reason.value if ended_badly and worker.reason else None
        found[worker.task.version] = found.get(worker.task.version) or reason
    return [{"task_version": version, "reason": reason} for version, reason in found.items()]


def _of_version(workers: list[Worker], query: TaskLogQuery) -> list[Worker]:
    """Return the workers of one version, by default the newest. Raise NotFound."""
    newest = max((one.task.version for one in workers), default=0)
    version = newest if query.version is None else query.version
    chosen = [one for one in workers if one.task.version == version]
    if not chosen:
        whose = f"{query.component} of job {query.job_id}"
        raise NotFound(f"task_version: {whose} has no worker of version {version} on {query.party}")
    return chosen


def _attempts(workers: list[Worker], query: TaskLogQuery) -> list[Worker]:
    """Return all processes of the requested worker, oldest first. Raise NotFound."""
    slots = sorted({worker.slot for worker in workers})
    slot = slots[0] if query.worker is None else query.worker
    if slot not in slots:
        whose = f"{query.component} on {query.party}"
        raise NotFound(f"worker: {whose} has no worker {slot}; it has {slots[0]} to {slots[-1]}")
    return sorted((one for one in workers if one.slot == slot), key=lambda one: one.attempt)


def _chosen(attempts: list[Worker], query: TaskLogQuery) -> Worker:
    """Return the requested attempt, by default the newest. Raise NotFound."""
    newest = attempts[-1]
    wanted = newest.attempt if query.attempt is None else query.attempt
    found = next((one for one in attempts if one.attempt == wanted), None)
    if found is None:
        has = f"it has {attempts[0].attempt} to {newest.attempt}"
        whose = f"{query.component} on {query.party}"
        raise NotFound(f"attempt: worker {newest.slot} of {whose} has no attempt {wanted}; {has}")
    return found


def _piece(path: Path, size: int, offset: int) -> tuple[str, int, int]:
    """Return a piece of a file as text, the offset of the next piece, and the size of the file in bytes.

    The piece begins at the offset; if the offset is negative, it is the end of the file. A missing file has no text,
    nor has what a program put in its place. An incomplete character at the end belongs to the next piece."""
    try:
        with open_regular(path) as file:
            total = file.seek(0, 2)
            start = min(total, offset) if offset >= 0 else max(0, total - size)
            file.seek(start)
            piece = file.read(size)
    except NoRegularFile:
        return "", max(0, offset), 0
    if offset >= 0:
        decoder = getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(piece)
        return text, start + len(piece) - len(decoder.getstate()[0]), total
    return piece.decode("utf-8", "replace"), start + len(piece), total
