"""The routes for other parties: `/v1/party/...` and `/v1/initiator/...` (party-api-v1), and our batch and heartbeat.

A party speaks only for itself. A header names it; if requests are signed, its signature proves the name
(`site_auth.py`). `core/access/authority.py` decides which statements a party may make about a job.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from flask import Blueprint, Response, request

from fate_flow.api.between_parties.party_lines import PartyLines
from fate_flow.api.between_parties.quota_log import QuotaLog
from fate_flow.api.between_parties.record import witnessing_of
from fate_flow.api.http.declared import declared
from fate_flow.api.http.sender import named_sender
from fate_flow.api.http.services import Services
from fate_flow.api.http.shapes import PARTIES
from fate_flow.api.monitoring.peer_states import round_trip_to
from fate_flow.api.monitoring.request_spans import CommandSpans
from fate_flow.api.v1.envelope import ok, reply, silent_json
from fate_flow.api.v1.jobs.explain import recounted
from fate_flow.api.v1.party.parties import known_parties
from fate_flow.api.v1.rendering.queue import hold_of
from fate_flow.core.access.authority import TO_INITIATORS, JobBinding, Query, Said, is_local, objection
from fate_flow.core.access.client_roles import READ
from fate_flow.core.model.errors import BadRequest, BadSettings, JobNotFound, NotFound, PermissionDenied, TooLarge
from fate_flow.core.model.grammar import check_component_name, check_job_id, check_party_id, check_role
from fate_flow.core.model.history import HistoryEntry
from fate_flow.core.model.job import Answer, Command, CommandKind, JobKey
from fate_flow.core.model.spec import Party
from fate_flow.core.text.trace import TRACEPARENT
from fate_flow.core.wire.v1.envelope import (
    MOST_VALUES,
    SRC_FATE_VER,
    SRC_PARTY_ID,
    Asked,
    asked_with,
    check_fate_version,
    document_of,
    read_batch,
    to_json,
    values_in,
)
from fate_flow.core.wire.v1.heartbeat import checkpoint_in, read_heartbeat, with_cosigned, with_round_trip
from fate_flow.core.wire.v1.paths import (
    BATCH,
    HEARTBEAT,
    HISTORY,
    INTAKE,
    KEYS,
    LISTED,
    OUTPUT_TABLE,
    VALIDATE,
    output_table_path,
    read_command,
    route_of,
)
from fate_flow.core.wire.v1.queries import (
    history_data,
    intake_data,
    output_table_data,
    read_history_query,
    read_validate,
    wants_call_back,
)
from fate_flow.core.wire.v1.retcodes import retcode_of
from fate_flow.peers.own_keys import OwnKeys
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.disclosure import texts_not_for
from fate_flow.services.context.recording import record_reply
from fate_flow.services.context.unit_of_work import binding_of
from fate_flow.services.context.wall_clock import now_on_the_wall
from fate_flow.services.record.entries import Replied
from fate_flow.store.contract.transaction import Transaction, published
from fate_flow.store.values import OutputTable


def blueprint(services: Services, lines: PartyLines) -> Blueprint:
    """Return all routes below `/v1` that other parties call."""
    routes = _PartyRoutes(services, lines)
    party = Blueprint("party", __name__, url_prefix="/v1")
    party.post(BATCH)(routes.batch)
    party.post(HEARTBEAT)(routes.heartbeat)
    party.post(VALIDATE)(routes.validate)
    party.post(HISTORY)(routes.history)
    party.post(LISTED)(routes.list_parties)
    party.post(INTAKE)(routes.intake)
    party.post(KEYS)(routes.keys)
    party.post(route_of(OUTPUT_TABLE))(routes.output_table)
    party.post("/party/<path:rest>")(routes.to_party)
    party.post("/initiator/<path:rest>")(routes.to_initiator)
    party.after_request(routes.sign)
    return party


class _PartyRoutes:
    def __init__(self, services: Services, lines: PartyLines) -> None:
        self._lines = lines
        self._commands = services.use_cases.commands
        self._record = services.context.record
        self._settings = services.settings
        self._context = services.context
        self._own = services.settings.party_id
        self._services = services
        self._quota_log = QuotaLog(time.monotonic)
        self._witnessing = witnessing_of(services)

    def sign(self, response: Response) -> Response:
        """Name the answering party, also in refusals: a caller sees whether it has reached the intended party."""
        response.headers[SRC_PARTY_ID] = self._own
        return response

    def to_party(self, rest: str) -> Response:
        return self._one(f"/party/{rest}")

    def to_initiator(self, rest: str) -> Response:
        return self._one(f"/initiator/{rest}")

    def _one(self, endpoint: str) -> Response:
        command = read_command(endpoint, self._json())
        return reply(self._carry_out([asked_with(endpoint, command, request.headers.get(TRACEPARENT))])[0])

    def batch(self) -> Response:
        """Carry out several commands in order; answer with a list of envelopes, one for each."""
        listed = [self._bounded(one) for one in read_batch(_few_values())]
        done = iter(self._carry_out([one for one in listed if isinstance(one, Asked)]))
        return ok([document_of(next(done) if isinstance(one, Asked) else one) for one in listed])

    def heartbeat(self) -> Response:
        """Receive the heartbeat of an initiator, with the jobs that it believes to run here; answer with those that do
        not run, and with reports that it has not received."""
        body = self._json()
        jobs, (checkpoint, question) = read_heartbeat(body), checkpoint_in(body)
        caller = self._caller()
        self._check(Query.HEARTBEAT, caller)
        reply = self._commands.heartbeat(caller, jobs)
        data = with_round_trip(reply.as_data(), round_trip_to(self._settings, caller, self._context.clock()))
        if checkpoint and self._context.keeps_record:
            self._check(Query.RECORD, caller)
            answer = self._witnessing.add_checkpoint(caller, checkpoint, question)
            return ok(with_cosigned(data, answer.status, answer.text))
        return ok(data)

    def validate(self) -> Response:
        """Answer as to a `create` with this body, without storing anything."""
        body = self._json()
        command = read_validate(body)
        party = command.to
        caller = self._caller()
        self._check_whom([command])
        answer = self._commands.preview(command, caller)
        record_reply(self._context, Replied("validate", caller, VALIDATE, body, answer))
        text = f"answered party {caller}: would {party} take part: {answer.retcode} {answer.retmsg}"
        self._note(command.job_id, text)
        return reply(answer)

    def history(self) -> Response:
        """Return this party's history of a job, for its initiator, which merges it with those of the others."""
        body = self._json()
        job_id, caller = read_history_query(body), self._caller()

        def entries(tx: Transaction) -> tuple[HistoryEntry, ...]:
            jobs = tx.jobs_here(job_id)
            if not jobs:
                raise JobNotFound(f"can not found job {job_id} on party {self._own}")
            self._check(Query.HISTORY, caller, binding_of(jobs[0]))
            return tx.history(job_id)

        moves = [recounted(one) for one in self._context.read(entries)]
        text = f"answered party {caller}: the history, {len(moves)} moves"
        self._note(job_id, text)
        return self._tell("history", HISTORY, body, history_data(moves), job_id)

    @declared(
        "The parties that this server has a route to, whether they answer, and which are on hold.", READ, data=PARTIES,
    )
    def list_parties(self) -> Response:
        """Ask the parties now, for `flow party list`."""
        return ok(known_parties(self._services))

    def intake(self) -> Response:
        """Say whether this party is on hold and, if requested, whether it reaches the caller. It must have a route."""
        caller = self._caller()
        self._check(Query.INTAKE, caller)
        if caller not in self._settings.routes:
            raise PermissionDenied(f"party {caller} has no route here (routes in service_conf.yaml)")
        problem = self._commands.reach(caller) if wants_call_back(self._json()) else ""
        hold = hold_of(self._context.read(lambda tx: tx.intake_hold()))
        return ok(intake_data(hold, problem, self._context.clock()))

    def keys(self) -> Response:
        """Answer with the newest key list of this party, which is public. Raise NotFound if there is none."""
        own = OwnKeys(self._own, self._settings.keys_dir, self._settings.private_key, now_on_the_wall)
        try:
            return ok({"key_list": own.signed_list().text()})
        except BadSettings as error:
            raise NotFound(f"party {self._own} has no key list") from error

    def output_table(self, job_id: str, component: str, role: str, party_id: str) -> Response:
        """Return the names of a component's output tables here, for a party of the same job (party-api-v1, 5).

        A Reader hands on the table that its parameters name: a party that did not get these is not told its name."""
        key = JobKey(check_job_id(job_id), Party(check_role(role), check_party_id(party_id)))
        caller = self._caller()

        def outputs(tx: Transaction) -> list[OutputTable]:
            job = tx.job(key)
            if job is None:
                raise PermissionDenied(f"party {caller} has no seat in job {job_id}")
            self._check(Query.OUTPUT_TABLE, caller, binding_of(job))
            found = published(tx, job_id, check_component_name(component), key.party)
            texts = texts_not_for(tx.document(job_id), job.initiator, caller)
            return [one for one in found if not {one.name, one.namespace} & texts]

        found = self._context.read(outputs)
        data = output_table_data((one.name, one.namespace, one.data_name) for one in found)
        path = output_table_path(job_id, component, key.party)
        return self._tell("output table", path, {}, data, job_id)

    def _tell(self, what: str, path: str, body: Mapping[str, Any], data: Any, job_id: str) -> Response:
        """Record what the caller has asked for and is told, and tell it."""
        record_reply(self._context, Replied(what, self._caller(), path, body, Answer(data=data), job_id))
        return ok(data)

    def _note(self, job_id: str, text: str, *, is_new: bool = False) -> None:
        """Write that a party was answered. Its requests decide how often that happens, and which job they name: a job
        that is not here, unless it `is_new`, gets no folder of logs."""
        if self._lines.has_one_more(request.environ):
            is_here = is_new or self._context.files.has_logs(job_id)
            self._record.emit(Event.SERVED, job_id=job_id if is_here else "", text=text)

    def _json(self) -> dict[str, Any]:
        """Return the body, which is parsed only if the caller may send so much. Raises TooLarge, BadRequest."""
        self._check_size(len(request.get_data()))
        return _few_values()

    def _bounded(self, one: Asked | Answer) -> Asked | Answer:
        """Return a command of a batch, or the answer to it if the caller may not send so much."""
        try:
            if isinstance(one, Asked) and len(request.get_data()) > self._context.quotas.least_document_bytes:
                self._check_size(len(to_json(one.command.body).encode()))
        except TooLarge as error:
            return Answer(retcode_of(error), error.message)
        return one

    def _check_size(self, size: int) -> None:
        """Raise TooLarge if the caller may not send a command with so many bytes."""
        caller = named_sender()
        try:
            self._context.quotas.check_document(caller, size)
        except TooLarge as error:
            self._quota_log.note(caller, retcode_of(error), error.message)
            raise

    def _carry_out(self, asked: list[Asked]) -> list[Answer]:
        caller = self._caller()
        check_fate_version(request.headers.get(SRC_FATE_VER, ""))
        commands = [one.command for one in asked]
        self._check_whom(commands)
        spans = CommandSpans(self._context.spans, asked, caller)
        with spans.around():
            answers = self._commands.carry_out(commands, caller)
        spans.end(answers)
        for one, answer in zip(asked, answers, strict=True):
            text = f"answered party {caller}: /v1{one.endpoint} {answer.retcode} {answer.retmsg}"
            is_new = one.command.kind is CommandKind.CREATE and answer.is_ok
            self._note(one.command.job_id, text, is_new=is_new)
            self._quota_log.note_answer(caller, answer)
        return answers

    def _check_whom(self, asked: list[Command]) -> None:
        """Raise PermissionDenied for commands that other parties may not send, BadRequest for a wrong addressee."""
        if any(is_local(command.to) for command in asked):
            raise PermissionDenied("role local and party 0 are taken from the own server only")
        for command in asked:
            if command.kind not in TO_INITIATORS and command.to.party_id != self._own:
                raise BadRequest(f"party_id: this server is party {self._own}, not {command.to.party_id}")

    def _check(self, query: Query, caller: str, bound: JobBinding | None = None) -> None:
        """Raise PermissionDenied if this caller may not send this query."""
        if why := objection(Said(query, caller, self._own), bound):
            raise PermissionDenied(why)

    def _caller(self) -> str:
        text = request.headers.get(SRC_PARTY_ID, "")
        if not text:
            raise PermissionDenied(f"{SRC_PARTY_ID}: the header that names the calling party is missing")
        return check_party_id(text)


def _few_values() -> dict[str, Any]:
    """Return the body as JSON. Raises BadRequest; TooLarge if it would take too much memory."""
    if values_in(request.get_data()) > MOST_VALUES:
        raise TooLarge(f"the body has more than {MOST_VALUES} values: send fewer commands in one request")
    return silent_json()
