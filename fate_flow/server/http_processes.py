"""The processes of a server that serve HTTP: the public port, and the port for workers."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import Any

from flask import Flask
from gunicorn.config import Config
from gunicorn.glogging import Logger

from fate_flow.api.app import AT_END, create_public_app
from fate_flow.api.between_parties.slots import threads_for
from fate_flow.api.http.gunicorn_worker import CallerLimits, TokenLimits, worker_class
from fate_flow.api.http.services import Services
from fate_flow.api.v1.envelope import error_body
from fate_flow.api.workers.staged import StagedSettings
from fate_flow.api.workers.worker import create_worker_app
from fate_flow.core.quotas.disk_space import text_for_parties
from fate_flow.peers.signature import SiteSignature
from fate_flow.records.measures.kept_measures import KeptMeasures
from fate_flow.relay.wakeup import Wakeup
from fate_flow.server.engines.kinds import outputs_of_jobs
from fate_flow.server.other_parties.answer_keys import expecting_answers
from fate_flow.server.other_parties.inquirers import call_back_of, inquirer_of, waiting_at_once
from fate_flow.server.other_parties.party_routes import with_joined_routes
from fate_flow.server.peer_tls import pinned_parties
from fate_flow.server.periodic.record_sealer import keys_of_record
from fate_flow.server.runtime import (
    EffectRunner,
    Forwarder,
    JobIds,
    Wakeups,
    build_context,
    disk_of,
    open_log,
    open_spool,
    open_store,
    secret_of,
    stream_calls,
    wake_scheduler,
)
from fate_flow.server.tracing.process_spans import ProcessSpans
from fate_flow.services.context.counted_record import RequestRecord
from fate_flow.services.context.wall_clock import now_on_the_wall
from fate_flow.services.participant.call_back import is_silent_to
from fate_flow.services.use_cases.use_cases import UseCases
from fate_flow.settings.settings import Settings
from fate_flow.store.views.views import Views
from fate_flow.web.logs.log_events import MOST_CONNECTIONS
from fate_flow.web.routes import web_api

_KEEP_ALIVE_SECONDS = 75
_WORKER_SECONDS = 60.0           # a busy machine may hold a worker up in the middle of a request
_EARNED_SECONDS = 0.25           # by 64 KiB: 256 KiB/s on average, over loopback, beside the seconds above
_CONNECTIONS = 768 - MOST_CONNECTIONS        # whose request no thread has; by default a process may open 1024 files
_ALONE = (b"POST /v1/job/query ", b"POST /v1/job/task/query ")     # what clients ask again and again until a job ends
HEADER_FIELDS: Mapping[str, Any] = {
    # Clients of FATE write APP_KEY with an underscore. gunicorn drops all other names with one, which would be another
    # spelling of a name with hyphens; by default it takes SCRIPT_NAME and PATH_INFO from callers on this machine.
    "header_map": "drop", "forwarder_headers": "APP_KEY", "forwarded_allow_ips": "*",
    # No proxy says here whether its connection was encrypted.
    "secure_scheme_headers": {},
}  # fmt: skip
"""Settings of gunicorn: which header fields of a request it believes."""


@dataclass(frozen=True)
class HttpProcesses:
    """The parameters of both processes; the supervisor forks them, and each builds its own application."""

    settings: Settings
    wakeups: Wakeups
    worker_url: str
    effect_runner: EffectRunner
    signature: SiteSignature | None
    spans: ProcessSpans

    def public_server(self, *listeners: socket.socket) -> HttpServer:
        """Return what serves clients and other parties; the supervisor makes it before the fork, which shares it."""
        limits = self.settings
        return HttpServer(
            listeners, limits.http_workers, limits.http_threads,
            CallerLimits(limits.http_threads // 2, alone=_ALONE), limits.run_dir, self._public_app,
        )  # fmt: skip

    def run_public(self, process: HttpProcess) -> None:
        """Serve clients and other parties until SIGTERM."""
        try:
            process.run()
        finally:
            self.effect_runner.finish()
            self.spans.finish()

    def worker_server(self, *listeners: socket.socket) -> HttpServer:
        """Return what serves this party's own workers; as `public_server`."""
        threads = threads_for(self._slots)
        tokens = TokenLimits(requests=self.settings.worker_threads, bodies=max(1, threads // 4))
        callers = CallerLimits(
            threads // 2, seconds=_WORKER_SECONDS, earned_seconds=_EARNED_SECONDS, tokens=tokens
        )  # fmt: skip
        return HttpServer(listeners, 1, threads, callers, self.settings.run_dir, self._worker_app)

    @property
    def _slots(self) -> int:
        """How many pops of workers may wait at once."""
        return self.settings.worker_threads // 2

    def _public_app(self) -> Flask:
        record = open_log(self.settings)
        store = open_store(self.settings, record, self.wakeups)
        settings = with_joined_routes(self.settings, store)
        measures = KeptMeasures(settings.measures_dir)
        context = replace(
            build_context(settings, self.wakeups, self.worker_url, record, store, self.effect_runner, measures),
            spans=self.spans.start("http"),
        )
        signature = expecting_answers(self.signature, settings, store)
        pinned = pinned_parties(settings, store)
        requests = RequestRecord(context) if context.keeps_record else None
        sent = requests.sent if requests else None
        inquirer = inquirer_of(settings, signature, pinned, measures, on_request=sent)
        call_back = call_back_of(settings, signature, pinned, measures, is_silent_to(context), sent)
        use_cases = UseCases(
            context,
            wake_scheduler(self.wakeups.scheduler),
            waiting_submits=waiting_at_once(settings.http_threads),
            submit_timeout=settings.limits.submit_timeout, reach=call_back, opens=stream_calls(settings),
        )
        services = Services(
            settings, context, use_cases, Views(store.database, segment_files=store.segment_files), JobIds(),
            inquirer.ask, record_keys=lambda: keys_of_record(context, settings), requests=requests,
        )  # fmt: skip
        own = self.signature
        return create_public_app(
            services, open_spool(settings, self.wakeups.exchange), (lambda: own.key) if own else None,
            (web_api(services, secret_of(settings)),),
        )  # fmt: skip

    def _worker_app(self) -> Flask:
        store = open_store(self.settings, open_log(self.settings), self.wakeups)
        settings = with_joined_routes(self.settings, store)
        spool = open_spool(settings, self.wakeups.exchange)
        Thread(target=_listen_for_messages, args=(self.wakeups.exchange, spool), daemon=True).start()
        wake = wake_scheduler(self.wakeups.scheduler)
        signature = expecting_answers(self.signature, settings, store)
        return create_worker_app(
            spool, Forwarder(settings, signature, pinned_parties(settings, store), KeptMeasures(settings.measures_dir)),
            self._slots,
            lambda job_id: wake((job_id,), False, False, "", ()),
            settings.limits.max_request_bytes, store, now_on_the_wall,
            settings.data_dir, settings.limits.metrics_max_bytes, self._of_staged(),
        )  # fmt: skip

    def _of_staged(self) -> StagedSettings | None:
        """Return what serves workers on other hosts; None without a listener for them."""
        settings = self.settings
        if settings.worker_listen is None:
            return None
        wake, disk = wake_scheduler(self.wakeups.scheduler), disk_of(settings)
        return StagedSettings(
            settings.shared, settings.jobs_dir, secret_of(settings), settings.limits.server_silence,
            settings.limits.staged_output_max_bytes, lambda job_id: wake((job_id,), False, False, "", ()),
            lambda: text_for_parties(settings.party_id) if disk().is_short() else "",
            outputs_of_jobs(settings, secret_of(settings)),
        )  # fmt: skip


def _listen_for_messages(wakeup: Wakeup, spool: Any) -> None:
    while True:
        if wakeup.wait(3600.0):
            spool.notify()


def _finish(app: Flask | None) -> None:
    """Let the application of a process that ends write what it has counted."""
    if app is not None:
        app.extensions.get(AT_END, lambda: None)()


class HttpServer:
    """gunicorn's settings for processes that serve on bound sockets, each with an application that it builds.

    To make one writes to 3 MB of memory, since each of gunicorn's settings is a class."""

    def __init__(
        self, listeners: Sequence[socket.socket], workers: int, threads: int, callers: CallerLimits, run_dir: Path,
        make_app: Callable[[], Flask],
    ) -> None:  # fmt: skip
        self.listeners = listeners
        self._make_app = make_app
        self.cfg = Config()
        for key, value in {
            "workers": workers,
            "worker_class": worker_class(error_body, callers),
            "threads": threads,
            "keepalive": _KEEP_ALIVE_SECONDS,
            "worker_connections": _CONNECTIONS + threads,
            "sendfile": False,               # it would keep no deadlines (CallerSocket)
            "graceful_timeout": 5,
            "worker_tmp_dir": str(run_dir),
            "logger_class": Logger,
            **HEADER_FIELDS,
            "limit_request_line": 8190,      # the query of an upload is its whole configuration
            "loglevel": "warning",
        }.items():
            self.cfg.set(key, value)

    def wsgi(self) -> Flask:
        """Return the application; a worker calls this once."""
        return self._make_app()

    def processes(self) -> list[HttpProcess]:
        """Return one for each process that is to serve."""
        return [HttpProcess(self) for _ in range(self.cfg.workers)]


class HttpProcess:
    """A process with one of gunicorn's workers, without gunicorn's arbiter: the supervisor starts it again if it ends,
    and sees here whether it shows signs of life."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._worker: Any = None

    def prepare(self) -> None:
        """Make the worker, in the parent before each fork."""
        self.close()
        cfg = self._server.cfg
        self._worker = cfg.worker_class(1, os.getpid(), list(self._server.listeners), self._server, 0, cfg, None)
        self._worker.notify()

    def close(self) -> None:
        """Close the file of its signs of life, where nobody looks at them."""
        if self._worker is not None:
            self._worker.tmp.close()

    def silent_seconds(self) -> float:
        """Return how long ago the process showed a sign of life."""
        return max(0.0, time.monotonic() - float(self._worker.tmp.last_update()))

    def run(self) -> None:
        """Serve until SIGTERM."""
        worker = self._worker
        worker.pid = os.getpid()
        worker.log = self._server.cfg.logger_class(self._server.cfg)
        for listener in self._server.listeners:
            if listener.family != socket.AF_UNIX:
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)       # connections inherit it
        try:
            worker.init_process()
        finally:
            _finish(getattr(worker, "wsgi", None))
