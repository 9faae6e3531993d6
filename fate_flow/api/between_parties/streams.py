"""The route that the gateway asks before it carries a stream of another party to a worker here.

The gateway alone carries bytes; whether it may is decided here, like everything that a party says about a job. The
order is that of the exchange: the grammar, the caller, the session, the document, the port, and at last what this
party grants now.
"""

from __future__ import annotations

from collections.abc import Mapping

from flask import Blueprint, Response, jsonify, request

from fate_flow.api.between_parties.exchange import refused, refused_with
from fate_flow.api.http.party_connection import is_from_gateway
from fate_flow.core.access.authority import Query, Said, objection
from fate_flow.core.access.bound_document import check_document_name, why_other_document
from fate_flow.core.model.errors import PermissionDenied
from fate_flow.core.model.grammar import check_party_id, check_port_name, check_role, check_version
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import Party
from fate_flow.core.wire.v1.paths import DOCUMENT, EXCHANGE, STREAM, STREAM_CALL, route_of
from fate_flow.relay.spool import Spool
from fate_flow.relay.spool_session import Session
from fate_flow.relay.stream_sessions import StreamSessions
from fate_flow.services.use_cases.streams import StreamChecks

_ASKED = "HTTP_X_FATE_FLOW_STREAM"


def stream_blueprint(spool: Spool, sessions: StreamSessions, checks: StreamChecks, own_party_id: str) -> Blueprint:
    """Return the routes for gateways of other parties, as the own gateway asks for them."""
    routes = _StreamRoutes(spool, sessions, checks, own_party_id)
    blueprint = Blueprint("stream", __name__, url_prefix=f"/v1{EXCHANGE}")
    blueprint.post(route_of(STREAM))(routes.stream)
    blueprint.post(route_of(STREAM_CALL))(routes.call)
    return blueprint


class _StreamRoutes:
    def __init__(self, spool: Spool, sessions: StreamSessions, checks: StreamChecks, own_party_id: str) -> None:
        self._spool = spool
        self._sessions = sessions
        self._checks = checks
        self._own = own_party_id

    def stream(
        self, job_id: str, task_id: str, version: str, incarnation: str,
        from_role: str, from_party: str, to_role: str, to_party: str, port: str,
    ) -> Response:  # fmt: skip
        """Say where the worker listens that a stream leads to, or why the stream may not be."""
        caller, seat = _party(from_role, from_party), _party(to_role, to_party)
        session = Session(job_id, task_id, check_version(version, "version"), incarnation, seat.role, seat.party_id)
        name, document = check_port_name(port), check_document_name(request.args.get(DOCUMENT, ""), DOCUMENT)
        self._check_caller(caller)
        if refusal := self._spool.objection(session, (caller.role, caller.party_id)):
            return refused(refusal)
        if why := why_other_document(str(caller), document, str(seat), self._spool.document_of(session)):
            raise PermissionDenied(why)
        found = self._sessions.read(session)
        address = found.listener(name, caller) if found else None
        if address is None:
            return refused_with(404, f"session {session}: no worker listens at port {name} for {caller}")
        task = task_id.removeprefix(f"{job_id}_")
        if why := self._checks.why_not(TaskKey(job_id, task, session.version, seat)):
            raise PermissionDenied(why)
        if why := _why_no_stream(request.environ):
            return refused_with(426, why)
        return jsonify(
            retcode=0, retmsg="success", session=vars(session), port=name, address=vars(address),
            **{"from": vars(caller)},
        )  # fmt: skip

    def call(self, from_role: str, from_party: str, to_role: str, to_party: str) -> Response:
        """Say that streams of another party would come this way. Whether a job may have any, its own checks say."""
        caller, seat = _party(from_role, from_party), _party(to_role, to_party)
        self._check_caller(caller)
        if seat.party_id != self._own:
            return refused_with(404, f"this is the server of party {self._own}, not of {seat}")
        if why := _why_no_stream(request.environ):
            return refused_with(426, why)
        return jsonify(retcode=0, retmsg="success", call=True)

    def _check_caller(self, caller: Party) -> None:
        """Raise PermissionDenied if the sender may not speak for this seat."""
        said = Said(Query.STREAM, request.headers.get("src_party_id", ""), self._own, caller)
        if why := objection(said, None):
            raise PermissionDenied(f"src_party_id: {why}")


_NOT_BY_GATEWAY = "its server has no gateway at this address, which carries streams (parties.listen.port, there)"
_NO_UPGRADE = "the request to upgrade the connection has not arrived: a proxy in between has removed it"


def _party(role: str, party_id: str) -> Party:
    return Party(check_role(role), check_party_id(party_id))


def _why_no_stream(environ: Mapping[str, object]) -> str:
    """Return why the connection of this request does not become a stream; empty if it does."""
    if not is_from_gateway(environ):
        return _NOT_BY_GATEWAY
    return "" if environ.get(_ASKED) == "1" else _NO_UPGRADE
