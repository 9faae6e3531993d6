"""The routes of the exchange: for the workers of this server, and for the servers of other parties.

The checks of a request have this order: the caller, the grammar of every value, the size of the body. Then the body is
read. Only the body of a signed chunk of another party is read earlier (`site_auth.py`). A table maps the answers of the
spool to HTTP statuses.

Two kinds of requests can block a thread: a waiting pop, and a push that is being forwarded to a peer. Each kind has its
own slots, together fewer than there are threads. So there is always a thread to answer a pop and to begin a push.
A push takes as long as the peer likes, up to a time limit. So neither the pushes to one party nor those of one worker
ever have all slots (`slots.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl

from flask import Blueprint, Response, jsonify, request
from werkzeug.exceptions import HTTPException

from fate_flow.api.between_parties.slots import SharedSlots, Slots
from fate_flow.api.http.errors import Statuses, first, log_failure
from fate_flow.api.http.unread import LateBody
from fate_flow.core.access.authority import Query, Said, objection
from fate_flow.core.access.bound_document import why_other_document
from fate_flow.core.metrics.measures import EXCHANGE_BYTES, NO_PEER, RECEIVED, Measures, Unmeasured
from fate_flow.core.model.errors import BadRequest, Busy, FlowError, PeerUnreachable, PermissionDenied
from fate_flow.core.model.grammar import check_party_id, check_role, check_version, shown
from fate_flow.core.model.spec import Party
from fate_flow.core.wire.v1.chunks import Chunk, number_in, read_chunk, topic_in, value_in
from fate_flow.core.wire.v1.paths import DELIVER, EXCHANGE, route_of
from fate_flow.relay.channel_files import Message
from fate_flow.relay.spool import Spool
from fate_flow.relay.spool_result import GetResult, Problem, PutResult, Refusal
from fate_flow.relay.spool_session import PartyKey, Session

_WAIT_MS = 1000
_RETRY_AFTER = {"Retry-After-Ms": "50"}
_QUERY_FIELDS = 16
_LENGTH = re.compile(r"[0-9]{1,18}")

STATUS_OF: Mapping[Problem, int] = {
    Problem.NOT_STARTED: 425,
    Problem.GONE: 410,
    Problem.STRANGER: 404,
    Problem.SKIPPED: 409,
    Problem.DIFFERENT: 409,
    Problem.TOO_LARGE: 413,
    Problem.BACKLOG: 429,
    Problem.FULL: 507,
}
_STATUS_OF_ERROR: Statuses = {
    LateBody: 408,
    BadRequest: 400,
    PermissionDenied: 403,
    PeerUnreachable: 502,
    Busy: 503,
}


@dataclass(frozen=True)
class ForwardReply:
    """The reply of the peer's server to a chunk: the status and, unless it is 200, the reason."""

    status: int
    message: str = ""


# from, to role, to party id, chunk, data
Forward = Callable[[Session, str, str, Chunk, bytes], ForwardReply]


def worker_blueprint(spool: Spool, forward: Forward, slots: int) -> Blueprint:
    """Return the routes for workers. `threads_for(slots)` threads have to serve them."""
    routes = _WorkerRoutes(spool, forward, slots)
    blueprint = _blueprint("exchange")
    for view in (routes.push, routes.pop, routes.peek, routes.release):
        blueprint.add_url_rule(f"/{view.__name__}", view_func=view, methods=["POST"])
    return blueprint


def deliver_blueprint(
    spool: Spool, own_party_id: str, measures: Measures | None = None, routes: Container[str] = ()
) -> Blueprint:  # fmt: skip
    """Return the route for other servers. The session knows the parties of the task. `measures` counts bytes."""
    counts = measures or Unmeasured()
    blueprint = _blueprint("exchange_deliver")

    @blueprint.post(route_of(DELIVER))
    def deliver(
        job_id: str, task_id: str, version: str, incarnation: str,
        from_role: str, from_party: str, to_role: str, to_party: str,
    ) -> Response:
        sender, receiver = _party(from_role, from_party), _party(to_role, to_party)
        session = Session(job_id, task_id, check_version(version, "version"), incarnation, *receiver)
        said = Said(Query.DELIVER, request.headers.get("src_party_id", ""), own_party_id, Party(*sender))
        if why := objection(said, None):
            raise PermissionDenied(f"src_party_id: {why}")
        chunk = read_chunk(_query())
        _check_document(spool, session, sender, chunk)
        data = _body(spool.limits.chunk_bytes)
        put = spool.put(session, chunk.topic, sender, chunk.seq, chunk.is_last, data)
        if not isinstance(put, Refusal):         # so it is a party of a task here
            # The document of a job may name any party, and where requests are not signed, anybody says to be it.
            peer = sender[1] if sender[1] in routes else NO_PEER
            counts.count(EXCHANGE_BYTES, peer, RECEIVED, by=len(data))
        return _stored(put)

    return blueprint


def _check_document(spool: Spool, session: Session, sender: PartyKey, chunk: Chunk) -> None:
    """Check that the sender runs the document of this session, if it may send at all. Raises PermissionDenied."""
    if spool.objection(session, sender) is not None:
        return          # the spool answers that itself
    here = spool.document_of(session)
    if why := why_other_document(str(Party(*sender)), chunk.document, f"{session.role} {session.party_id}", here):
        raise PermissionDenied(why)


class _WorkerRoutes:
    """The requests of a worker to its own server."""

    def __init__(self, spool: Spool, forward: Forward, slots: int) -> None:
        self._spool = spool
        self._forward = forward
        self._waits = Slots(slots)
        self._forwards = SharedSlots(max(1, 2 * (slots - 1)))

    def push(self) -> Response:
        session, query = self._session(), _query()
        receiver, chunk = _party_in(query), read_chunk(query)
        topic, seq, last = chunk.topic, chunk.seq, chunk.is_last
        if refusal := self._spool.objection(session, receiver):
            return refused(refusal)
        data = _body(self._spool.limits.chunk_bytes)
        if receiver[1] == session.party_id:
            own = replace(session, role=receiver[0])
            return _stored(self._spool.put(own, topic, (session.role, session.party_id), seq, last, data))
        return self._forwarded(session, receiver, replace(chunk, document=self._spool.document_of(session)), data)

    def pop(self) -> Response:
        session, query = self._session(), _query()
        sender, topic, seq = _party_in(query), topic_in(query), number_in(query, "seq")
        wait_ms = min(number_in(query, "wait_ms", "0"), _WAIT_MS)
        with self._waits.take(wait_ms > 0) as taken:
            found = self._spool.get(session, topic, sender, seq, wait_ms / 1000 if taken else 0.0)
        return _found(found, later=wait_ms > 0 and not taken)

    def peek(self) -> Response:
        session, query = self._session(), _query()
        return _found(self._spool.peek(session, topic_in(query), _party_in(query), number_in(query, "seq")))

    def release(self) -> Response:
        session, query = self._session(), _query()
        refusal = self._spool.release(session, topic_in(query), _party_in(query))
        return refused(refusal) if refusal else _ok()

    def _forwarded(self, session: Session, receiver: PartyKey, chunk: Chunk, data: bytes) -> Response:
        with self._forwards.take(("to", receiver[1]), ("from", session)) as taken:
            if not taken:
                raise Busy(f"no free slot: too many pushes to party {receiver[1]} are in progress")
            answer = self._forward(session, *receiver, chunk, data)
        if answer.status != 200:
            return refused_with(answer.status, answer.message)
        refusal = self._spool.note_sent(session, chunk.topic, receiver, chunk.seq, chunk.is_last, data)
        return refused(refusal) if refusal else _ok()

    def _session(self) -> Session:
        """Return the session that the caller's token identifies."""
        token = request.authorization.token if request.authorization else None
        known = self._spool.session_of(token) if token else None
        if known is None:
            raise _WrongRequest(401, "Authorization: unknown token")
        if isinstance(known, Refusal):
            raise _WrongRequest(STATUS_OF[known.problem], known.message)
        return known


def _query() -> Mapping[str, str]:
    """Return the query of the request. It is decoded strictly: replaced characters could make two different topics
    equal. Each key occurs once. Raises BadRequest."""
    try:
        text = request.query_string.decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_QUERY_FIELDS)
    except ValueError as error:
        raise BadRequest(f"query: {error}") from error
    values = dict(pairs)
    if len(values) != len(pairs):
        raise BadRequest("query: a key occurs twice")
    return values


class _WrongRequest(FlowError):
    """An error that ends the request with this status."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


def _party(role: str, party_id: str) -> PartyKey:
    return check_role(role), check_party_id(party_id)


def _party_in(query: Mapping[str, str]) -> PartyKey:
    return _party(value_in(query, "role"), value_in(query, "party_id"))


def _body(limit: int) -> bytes:
    """Return the body; its size must be announced and is checked before the body is read."""
    text = request.headers.get("Content-Length", "")
    # Parsed here: werkzeug takes an invalid number for 0.
    if not _LENGTH.fullmatch(text) or "Transfer-Encoding" in request.headers:
        raise _WrongRequest(411, f"Content-Length: {shown(text)} is not the length of the body")
    length = int(text)
    if length > limit:
        raise _WrongRequest(413, f"Content-Length: {length} is more than {limit}, the limit for a chunk")
    data = request.get_data(cache=False)
    if len(data) != length:
        raise BadRequest(f"Content-Length: {length}, but {len(data)} bytes were received")
    return data


def _ok() -> Response:
    return jsonify(retcode=0, retmsg="success")


def refused_with(status: int, message: str) -> Response:
    """Return the answer for a refusal: its HTTP status is also the retcode."""
    response = jsonify(retcode=status, retmsg=message)
    response.status_code = status
    return response


def refused(refusal: Refusal) -> Response:
    """Return the answer for what the spool refuses."""
    return refused_with(STATUS_OF[refusal.problem], refusal.message)


def _stored(result: PutResult) -> Response:
    return refused(result) if isinstance(result, Refusal) else _ok()


def _found(result: GetResult, *, later: bool = False) -> Response:
    """Return the chunk, or 204 if there is none yet; `later` tells a pop without a slot to pause first."""
    if isinstance(result, Refusal):
        return refused(result)
    if isinstance(result, Message):
        headers = {"X-Last": str(int(result.last))}
        return Response(result.data, headers=headers, mimetype="application/octet-stream")
    return Response(status=204, headers=_RETRY_AFTER if later else None)


def _blueprint(name: str) -> Blueprint:
    return Blueprint(name, __name__, url_prefix=f"/v1{EXCHANGE}")


class ExchangeEnvelope:
    """What callers of the exchange are told about errors: each has an HTTP status, which is also the retcode."""

    def refused(self, error: FlowError) -> Response:
        status = error.status if isinstance(error, _WrongRequest) else first(_STATUS_OF_ERROR, error) or 500
        if status == 500:
            log_failure(error)
        response = refused_with(status, error.message)
        if status == 503:
            response.headers.update(_RETRY_AFTER)
        return response

    def not_served(self, error: HTTPException) -> Response:
        return refused_with(error.code or 500, f"{error.name}: {error.description}")

    def failed(self, text: str) -> Response:
        return refused_with(500, text)
