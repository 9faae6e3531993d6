"""The application that clients and other parties reach; it registers every blueprint by name."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from flask import Flask

from fate_flow.api.between_parties import party
from fate_flow.api.between_parties.exchange import deliver_blueprint
from fate_flow.api.http import openapi, v2
from fate_flow.api.http.client_auth import WINDOW_MS, ClientAuth
from fate_flow.api.http.envelope import install_errors, install_unread_bodies
from fate_flow.api.http.nonces import Nonces
from fate_flow.api.http.request_origin import OriginCheck
from fate_flow.api.http.sender import SenderCheck
from fate_flow.api.http.services import Services
from fate_flow.api.http.site_auth import SiteAuth
from fate_flow.api.http.unread import install_broken_bodies
from fate_flow.api.http.uploads import drop_part, request_class
from fate_flow.api.v1.jobs import board, board_data, jobs, parameters, predict_dsl, queue, results, task_log, tasks
from fate_flow.api.v1.party import instances, keys, not_offered, permission, resources, server_info, service_registry
from fate_flow.api.v1.tables import connectors, data, tables, template, tracking
from fate_flow.core.access.site import SiteKey
from fate_flow.relay.spool import Spool
from fate_flow.services.context.ports import Record

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


def create_public_app(services: Services, spool: Spool | None = None) -> Flask:
    """Return the application for `fateflow.http_port`; `spool` stores messages of other parties' workers to ours."""
    app = Flask("fate_flow", static_folder=None)
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False       # else Flask sends an HTML redirect to the address in the Host header
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False       # OPTIONS is refused like any other method that a path lacks
    app.config["MAX_CONTENT_LENGTH"] = services.settings.limits.max_request_bytes
    app.request_class = request_class(services.settings)
    app.teardown_request(drop_part)
    install_errors(app)
    install_broken_bodies(app)
    v2.install(app)
    _check_callers(app, services)
    install_unread_bodies(app)
    for module in (
        jobs, tasks, parameters, permission, results, board_data, tables, template, instances, queue, resources, data,
        tracking, server_info, task_log, party, keys,
    ):  # fmt: skip
        app.register_blueprint(module.blueprint(services))
    app.register_blueprint(connectors.blueprint(services))
    app.register_blueprint(predict_dsl.blueprint())
    app.register_blueprint(service_registry.blueprint(services.settings))
    app.register_blueprint(not_offered.blueprint())
    app.register_blueprint(board.blueprint(services.settings.party_id, services.settings.url))
    app.register_blueprint(openapi.blueprint(is_signed=services.settings.client_keys is not None))
    if spool is not None:
        app.register_blueprint(deliver_blueprint(spool, services.settings.party_id))
    app.wsgi_app = AccessLog(app.wsgi_app, services.context.record)  # type: ignore[method-assign]  # Flask's own hook
    return app


def _check_callers(app: Flask, services: Services) -> None:
    """Install the checks of callers: no web page of another site may call. The routes of clients and those of other
    parties are separate, and have separate checks."""
    settings, context = services.settings, services.context
    app.before_request(OriginCheck(settings.allowed_hosts).check)
    if settings.client_keys is not None:
        of_clients = Nonces(settings.run_dir / "nonces", WINDOW_MS)
        app.before_request(ClientAuth(settings.client_keys, of_clients, now_on_the_wall).check)
    if settings.site.is_on:
        of_parties = Nonces(settings.run_dir / "site_nonces", WINDOW_MS)

        def key_of(party_id: str) -> SiteKey | None:
            return context.read(lambda tx: tx.site_key(party_id))

        site = SiteAuth(settings.party_id, settings.site, key_of, of_parties, now_on_the_wall)
        app.before_request(site.check)
    else:
        app.before_request(SenderCheck(settings.party_id).check)


def now_on_the_wall() -> int:
    """Return wall clock time in milliseconds: others sign the time of their own clocks, so only it can be compared."""
    return time.time_ns() // 1_000_000


class AccessLog:
    """A wrapper of an application that logs a line for each request, once its status is known."""

    def __init__(self, app: WSGIApplication, record: Record) -> None:
        self._app = app
        self._record = record

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        def noted(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Callable[[bytes], object]:
            self._note(environ, status)
            return start_response(status, headers, *exc_info)

        return self._app(environ, noted)

    def _note(self, environ: WSGIEnvironment, status: str) -> None:
        # Without the query: that of an upload is its whole configuration.
        address, path = environ.get("REMOTE_ADDR", "-"), environ.get("PATH_INFO", "")
        self._record.access(address, environ["REQUEST_METHOD"], path, int(status[:3]))
