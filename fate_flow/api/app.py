"""The application that clients and other parties reach: every blueprint by name, and the envelope of its callers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from flask import Blueprint, Flask, Response, request

from fate_flow.api import v2_routes as v2
from fate_flow.api.between_parties import join, party, record
from fate_flow.api.between_parties.envelope import PARTIES
from fate_flow.api.between_parties.exchange import ExchangeEnvelope, deliver_blueprint
from fate_flow.api.between_parties.party_lines import PARTY, PartyLines
from fate_flow.api.between_parties.request_rate import RequestRate
from fate_flow.api.between_parties.streams import stream_blueprint
from fate_flow.api.bodies.uploads import drop_part, request_class
from fate_flow.api.http.caller import CALLER, TRACE, name_trace
from fate_flow.api.http.client_auth import OF_PAGES, OF_PARTIES, WINDOW_MS, ClientAuth, is_for_clients, is_for_parties
from fate_flow.api.http.errors import REFUSED, Api, register_apis
from fate_flow.api.http.nonces import Nonces
from fate_flow.api.http.party_connection import (
    PLAIN,
    PROXY,
    Heard,
    PartyConnectionCheck,
    PlainPartyCheck,
    address_of,
    is_from_gateway,
    unproved,
)
from fate_flow.api.http.request_origin import OriginCheck
from fate_flow.api.http.sender import ListedParties, SenderCheck
from fate_flow.api.http.services import Services
from fate_flow.api.http.site_auth import MessageKey, SiteAuth
from fate_flow.api.monitoring import routes as monitoring
from fate_flow.api.monitoring.request_spans import install_request_spans
from fate_flow.api.v1 import openapi
from fate_flow.api.v1.envelope import CLIENTS, read_ignored_body
from fate_flow.api.v1.jobs import board, board_data, jobs, parameters, predict_dsl, queue, results, task_log, tasks
from fate_flow.api.v1.models import deployments, stored, tags
from fate_flow.api.v1.party import (
    audit,
    instances,
    keys,
    not_offered,
    notifications,
    permission,
    resources,
    server_info,
    service_registry,
)
from fate_flow.api.v1.tables import connectors, data, tables, template, tracking
from fate_flow.core.access.joined_party import FROM, Contact
from fate_flow.core.access.site import SiteKey
from fate_flow.core.metrics.measures import HTTP_REQUESTS, HTTP_SECONDS, Measures, Unmeasured
from fate_flow.core.model.errors import FlowError
from fate_flow.core.wire.v1.retcodes import OF_PERMISSIONS, OF_QUOTAS, retcode_of
from fate_flow.relay.spool import Spool
from fate_flow.relay.stream_sessions import StreamSessions
from fate_flow.services.context.contacts import ContactNotes
from fate_flow.services.context.counted_record import RefusalRecord, RequestRecord
from fate_flow.services.context.ports import Context, Record
from fate_flow.services.context.wall_clock import now_on_the_wall
from fate_flow.settings.people import People
from fate_flow.store.contract.party_keys import message_keys

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


AT_END = "fate_flow.at_end"
"""The extension of the application that its process calls when it ends."""


def create_public_app(
    services: Services, spool: Spool | None = None, message_key: MessageKey | None = None, pages: Sequence[Api] = (),
) -> Flask:  # fmt: skip
    """Return the application for `fateflow.http_port`; `spool` stores messages of other parties' workers to ours.
    `message_key` returns the key that signs an answer; with authentication.site it is needed.
    `pages`: what people see at the same address in a browser."""
    app = Flask("fate_flow", static_folder=None)
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False       # else Flask sends an HTML redirect to the address in the Host header
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False       # OPTIONS is refused like any other method that a path lacks
    app.config["MAX_CONTENT_LENGTH"] = services.settings.limits.max_request_bytes
    app.request_class = request_class(services.settings)
    app.teardown_request(drop_part)
    app.after_request(name_trace)
    if services.context.keeps_record:
        _record_counts(app, RefusalRecord(services.context), services.requests)
    listed = _listed_parties(services.context)
    app.before_request(PartyConnectionCheck(services.settings.party_id, _heard(services.context)).check)
    plain = PlainPartyCheck(services.settings.party_id, services.settings.plain_parties, listed.has)
    app.before_request(plain.check)
    lines = PartyLines(services.context.quotas, steady_now)
    _check_callers(app, services, message_key, listed, lines)
    is_signed = services.settings.client_keys is not None
    install_request_spans(app, services.context.spans, is_signed)        # who is refused by the checks gets none
    clients = (*_for_clients(services), monitoring.blueprint(services, spool))
    parties = (party.blueprint(services, lines), join.blueprint(services), record.blueprint(services))
    for blueprint in (*clients, *parties):
        blueprint.before_request(read_ignored_body)
    exchange = () if spool is None else tuple(_for_workers(services, spool))
    register_apis(
        app, Api(CLIENTS, clients), Api(PARTIES, parties), Api(ExchangeEnvelope(), exchange), v2.api(services), *pages
    )
    counted = AccessLog(app.wsgi_app, services.context.record, lines, services.context.measures)
    app.wsgi_app = counted  # type: ignore[method-assign]  # Flask's own hook
    return app


def _record_counts(app: Flask, refusals: RefusalRecord, requests: RequestRecord | None) -> None:
    """Record what is refused because of a permission, a key or a quota, before it is read as a command; and requests of
    other parties that have no entry of their own."""

    def note(answer: Response) -> Response:
        error = request.environ.get(REFUSED)
        retcode = retcode_of(error) if isinstance(error, FlowError) else answer.status_code
        proved = str(request.environ.get(PARTY) or "")
        if retcode in OF_PERMISSIONS | OF_QUOTAS:
            refusals.note(proved, _for_whom(request.path), retcode)
        elif requests is not None and request.url_rule is not None and is_for_parties(request.path):
            requests.received(proved, request.path)
        return answer

    def finish() -> None:
        try:
            refusals.finish()
        finally:
            if requests is not None:
                requests.finish()

    app.after_request(note)
    app.extensions[AT_END] = finish


def _for_whom(path: str) -> str:
    """Return for whom a route is, as the record says it."""
    return "party" if is_for_parties(path) else "client" if is_for_clients(path) else "page"


def _for_workers(services: Services, spool: Spool) -> Iterator[Blueprint]:
    """Yield the routes for messages and streams of other parties' workers to ours."""
    settings = services.settings
    yield deliver_blueprint(spool, settings.party_id, services.context.measures, settings.routes)
    sessions = StreamSessions(settings.streams_dir, settings.streams_socket)
    yield stream_blueprint(spool, sessions, services.use_cases.streams, settings.party_id)


def _for_clients(services: Services) -> Iterator[Blueprint]:
    settings = services.settings
    for module in (
        jobs, tasks, parameters, permission, results, board_data, tables, template, instances, queue, resources, data,
        tracking, server_info, task_log, keys, audit, connectors, stored, deployments, tags,
        notifications,
    ):  # fmt: skip
        yield module.blueprint(services)
    yield predict_dsl.blueprint()
    yield service_registry.blueprint(settings)
    yield not_offered.blueprint()
    yield board.blueprint(settings.party_id, settings.url)
    yield openapi.blueprint(is_signed=settings.client_keys is not None)


def _check_callers(
    app: Flask, services: Services, message_key: MessageKey | None, listed: ListedParties, lines: PartyLines
) -> None:  # fmt: skip
    """Install the checks of callers: no web page of another site may call. The routes of clients and those of other
    parties are separate, and have separate checks."""
    settings = services.settings
    app.before_request(OriginCheck(settings.allowed_hosts, OF_PAGES).check)
    if settings.client_keys is not None:
        of_clients = Nonces(settings.shared_run_dir / "nonces", WINDOW_MS)
        people = People(settings.shared, settings.client_keys)
        app.before_request(ClientAuth(people, of_clients, now_on_the_wall).check)
    _check_other_parties(app, services, message_key, listed, lines)


def _listed_parties(context: Context) -> ListedParties:
    def read() -> frozenset[str]:
        return context.read(lambda tx: frozenset(one.party_id for one in tx.all_party_keys()))

    return ListedParties(read, steady_now)


def _check_other_parties(
    app: Flask, services: Services, message_key: MessageKey | None, listed: ListedParties, lines: PartyLines
) -> None:  # fmt: skip
    settings, context = services.settings, services.context
    if settings.site.is_on and message_key is None:
        raise ValueError("authentication.site.switch: is true, and there is no message key")

    def keys_of(party_id: str) -> tuple[SiteKey, ...]:
        return context.read(lambda tx: message_keys(tx, party_id, now_on_the_wall()))

    def needs_key(party_id: str) -> bool:
        return settings.site.needs_key(party_id) or listed.has(party_id)

    nonces = Nonces(settings.shared_run_dir / "site_nonces", WINDOW_MS)
    site = SiteAuth(
        settings.party_id, needs_key, message_key, keys_of, nonces, now_on_the_wall,
        lambda: lines.has_one_more(request.environ),
    )  # fmt: skip

    def check_signature() -> None:
        how = unproved(request.environ)
        if how == PLAIN:
            return           # that listener has its own check
        if settings.site.is_on or how == PROXY or (not is_from_gateway(request.environ) and listed.has_sender()):
            site.check()

    if not settings.site.is_on:
        app.before_request(SenderCheck(settings.party_id).check)
    app.before_request(check_signature)
    app.before_request(RequestRate(context.quotas, needs_key, steady_now).check)
    app.after_request(site.sign_answer)


def _heard(context: Context) -> Heard:
    """Return what notes that a party was heard over its connection."""

    def keep(contact: Contact) -> None:
        context.write(lambda tx: tx.note_contact(contact), is_repeatable=True)

    return partial(ContactNotes(keep, now_on_the_wall).note, FROM)


def steady_now() -> float:
    """Return seconds that only grow."""
    return time.monotonic()


class AccessLog:
    """A wrapper of an application that counts each request, and logs a line for it, once its status is known; of the
    requests of another party, as many as its quota has lines."""

    def __init__(
        self, app: WSGIApplication, record: Record, lines: PartyLines, measures: Measures | None = None
    ) -> None:
        self._app = app
        self._record = record
        self._lines = lines
        self._measures = measures or Unmeasured()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        begin = steady_now()

        def noted(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Callable[[bytes], object]:
            self._note(environ, status)
            api = _api_of(environ.get("PATH_INFO", ""))
            self._measures.count(HTTP_REQUESTS, api, status[:3])
            self._measures.observe(HTTP_SECONDS, api, value=steady_now() - begin)
            return start_response(status, headers, *exc_info)

        return self._app(environ, noted)

    def _note(self, environ: WSGIEnvironment, status: str) -> None:
        if not self._lines.has_access_line(environ):
            return
        # Without the query: that of an upload is its whole configuration.
        path, caller = environ.get("PATH_INFO", ""), environ.get(CALLER) or "-"
        trace, address = environ.get(TRACE, ""), address_of(environ)
        self._record.access(address, environ["REQUEST_METHOD"], path, int(status[:3]), caller, trace)


_APIS = (
    (OF_PARTIES, "parties"), (("/v2/",), "v2"), (("/v1/",), "v1"), (("/board",), "board"),
    (("/healthz", "/readyz", "/schedules", "/metrics"), "monitoring"),
)  # fmt: skip


def _api_of(path: str) -> str:
    """Return the API of a path, for metrics; the set is closed, whatever callers send."""
    return next((name for prefixes, name in _APIS if path.startswith(prefixes)), "other")
