"""The routes for other parties: `/v1/party/...` and `/v1/initiator/...` (party-api-v1), and our batch and heartbeat.

A party speaks only for itself. A header names it; if requests are signed, its signature proves the name
(`site_auth.py`). `core/access/authority.py` decides which statements a party may make about a job.
"""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, request

from fate_flow.api.http.declared import declared
from fate_flow.api.http.envelope import ok, reply, silent_json
from fate_flow.api.http.services import Services
from fate_flow.api.http.shapes import PARTIES
from fate_flow.api.v1.jobs.explain import hold_of, recounted
from fate_flow.api.v1.party.parties import known_parties
from fate_flow.core.access.authority import TO_INITIATORS, JobBinding, Query, Said, is_local, objection
from fate_flow.core.model.errors import BadRequest, FlowError, JobNotFound, PermissionDenied
from fate_flow.core.model.grammar import check_component_name, check_job_id, check_party_id, check_role
from fate_flow.core.model.history import HistoryEntry
from fate_flow.core.model.job import Answer, Command, CommandKind, JobKey
from fate_flow.core.model.peer import WayBack
from fate_flow.core.model.spec import Party
from fate_flow.peers.wire import FATE_VERSION, SRC_PARTY_ID, read_program
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.unit_of_work import binding_of
from fate_flow.services.participant.admission import EXTENSIONS
from fate_flow.services.participant.call_back import CALL_BACK
from fate_flow.store.contract.transaction import Transaction, published
from fate_flow.store.values import OutputTable

_OLDEST = (1, 7, 0)
_MOST_IN_A_BATCH = 1_000


def blueprint(services: Services) -> Blueprint:
    """Return all routes below `/v1` that other parties call."""
    routes = _PartyRoutes(services)
    party = Blueprint("party", __name__, url_prefix="/v1")
    party.post("/party/batch")(routes.batch)
    party.post("/party/heartbeat")(routes.heartbeat)
    party.post("/party/validate")(routes.validate)
    party.post("/party/history")(routes.history)
    party.post("/party/list")(routes.list_parties)
    party.post("/party/intake")(routes.intake)
    party.post("/tracker/<job_id>/<component>/<role>/<party_id>/output/table")(routes.output_table)
    party.post("/party/<path:rest>")(routes.to_party)
    party.post("/initiator/<path:rest>")(routes.to_initiator)
    party.after_request(routes.sign)
    return party


class _PartyRoutes:
    def __init__(self, services: Services) -> None:
        self._commands = services.use_cases.commands
        self._record = services.context.record
        self._settings = services.settings
        self._context = services.context
        self._own = services.settings.party_id
        self._services = services

    def sign(self, response: Response) -> Response:
        """Name the answering party, also in refusals: a caller sees whether it has reached the intended party."""
        response.headers[SRC_PARTY_ID] = self._own
        return response

    def to_party(self, rest: str) -> Response:
        return self._one(f"/party/{rest}")

    def to_initiator(self, rest: str) -> Response:
        return self._one(f"/initiator/{rest}")

    def _one(self, endpoint: str) -> Response:
        command = read_program(endpoint, silent_json())
        return reply(self._carry_out([(endpoint, command)])[0])

    def batch(self) -> Response:
        """Carry out several commands in order; answer with a list of envelopes, one for each."""
        body = silent_json()
        listed = body.get("commands")
        if not isinstance(listed, list) or len(listed) > _MOST_IN_A_BATCH:
            raise BadRequest(f"commands: must be a list of up to {_MOST_IN_A_BATCH} commands")
        answers: list[Answer | None] = [None] * len(listed)
        good: list[tuple[int, str, Command]] = []
        for place, one in enumerate(listed):
            try:
                endpoint = _endpoint(one)
                good.append((place, endpoint, read_program(endpoint, one.get("body"))))
            except FlowError as error:
                answers[place] = Answer(error.retcode, error.message)
        done = self._carry_out([(endpoint, command) for _, endpoint, command in good])
        for (place, _, _), answer in zip(good, done, strict=True):
            answers[place] = answer
        return ok([_document(answer) for answer in answers if answer is not None])

    def heartbeat(self) -> Response:
        """Receive the heartbeat of an initiator, with the jobs that it believes to run here; answer with those that do
        not run, and with reports that it has not received."""
        listed = silent_json().get("jobs")
        if not isinstance(listed, list):
            raise BadRequest("jobs: must be a list of [job id, run]")
        jobs = [(check_job_id(one[0]), int(one[1])) for one in listed if isinstance(one, list) and len(one) == 2]
        caller = self._caller()
        self._check(Query.HEARTBEAT, caller)
        return ok({**self._commands.heartbeat(caller, jobs).as_body(), "extensions": EXTENSIONS})

    def validate(self) -> Response:
        """Answer as to a `create` with this body, without storing anything."""
        body = silent_json()
        party = Party(check_role(body.get("role")), check_party_id(body.get("party_id")))
        command = Command(CommandKind.CREATE, check_job_id(body.get("job_id")), party, body=body)
        caller = self._caller()
        self._check_whom([command])
        answer = self._commands.preview(command, caller)
        text = f"answered party {caller}: would {party} take part: {answer.retcode} {answer.retmsg}"
        self._record.emit(Event.SERVED, job_id=command.job_id, text=text)
        return reply(answer)

    def history(self) -> Response:
        """Return this party's history of a job, for its initiator, which merges it with those of the others."""
        job_id, caller = check_job_id(silent_json().get("job_id")), self._caller()

        def entries(tx: Transaction) -> tuple[HistoryEntry, ...]:
            jobs = tx.jobs_here(job_id)
            if not jobs:
                raise JobNotFound(f"can not found job {job_id} on party {self._own}")
            self._check(Query.HISTORY, caller, binding_of(jobs[0]))
            return tx.history(job_id)

        moves = [recounted(one) for one in self._context.read(entries)]
        text = f"answered party {caller}: the history, {len(moves)} moves"
        self._record.emit(Event.SERVED, job_id=job_id, text=text)
        return ok({"moves": moves})

    @declared("The parties that this server has a route to, whether they answer, and which are on hold.", data=PARTIES)
    def list_parties(self) -> Response:
        """Ask the parties now, for `flow party list`."""
        return ok(known_parties(self._services))

    def intake(self) -> Response:
        """Say whether this party is on hold and, if requested, whether it reaches the caller. It must have a route."""
        caller = self._caller()
        self._check(Query.INTAKE, caller)
        if caller not in self._settings.routes:
            raise PermissionDenied(f"party {caller} has no route here (routes in service_conf.yaml)")
        problem = self._commands.reach(caller) if silent_json().get(CALL_BACK) is True else ""
        way_back = WayBack(0.0, problem).as_body() if problem else None
        return ok({"hold": hold_of(self._context.read(lambda tx: tx.intake_hold())), "way_back": way_back})

    def output_table(self, job_id: str, component: str, role: str, party_id: str) -> Response:
        """Return the names of a component's output tables here, for a party of the same job (party-api-v1, 5)."""
        key = JobKey(check_job_id(job_id), Party(check_role(role), check_party_id(party_id)))
        caller = self._caller()

        def outputs(tx: Transaction) -> tuple[OutputTable, ...]:
            job = tx.job(key)
            if job is None:
                raise PermissionDenied(f"party {caller} has no seat in job {job_id}")
            self._check(Query.OUTPUT_TABLE, caller, binding_of(job))
            return published(tx, job_id, check_component_name(component), key.party)

        return ok([
            {"table_name": one.name, "table_namespace": one.namespace, "data_name": one.data_name}
            for one in self._context.read(outputs)
        ])

    def _carry_out(self, asked: list[tuple[str, Command]]) -> list[Answer]:
        caller = self._caller()
        _check_version(request.headers.get("SRC-FATE-VER", ""))
        self._check_whom([command for _, command in asked])
        answers = self._commands.carry_out([command for _, command in asked], caller)
        for (endpoint, command), answer in zip(asked, answers, strict=True):
            text = f"answered party {caller}: /v1{endpoint} {answer.retcode} {answer.retmsg}"
            self._record.emit(Event.SERVED, job_id=command.job_id, text=text)
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


def _endpoint(one: Any) -> str:
    if not isinstance(one, dict) or not isinstance(one.get("endpoint"), str):
        raise BadRequest("commands: each needs an endpoint and a body")
    return str(one["endpoint"])


def _document(answer: Answer) -> dict[str, Any]:
    document = {"retcode": answer.retcode, "retmsg": answer.retmsg}
    return document if answer.data is None else {**document, "data": answer.data}


def _check_version(text: str) -> None:
    """Refuse a peer older than 1.7.0, which creates jobs in another way; accept a missing version, as FATE does."""
    if not text:
        return
    try:
        version = tuple(int(piece) for piece in text.split(".")[:3])
    except ValueError:
        raise BadRequest(f"SRC-FATE-VER: {text!r} is not a version such as {FATE_VERSION}") from None
    if version < _OLDEST:
        error = FlowError(f"FATE Flow {text} is older than 1.7.0, which this server needs")
        error.retcode = 107
        raise error
