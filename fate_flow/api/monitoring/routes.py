"""`/healthz`, `/readyz`, `/schedules` and `/metrics`: for probes and for Prometheus.

The first three need no key, since probes have none: they name the checks and nothing else. `/metrics` needs a client
role; a client with the role `metrics` alone may send its key as a password (`http/client_auth.py`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from flask import Blueprint, Response
from prometheus_client import CollectorRegistry, generate_latest

import fate_flow
from fate_flow.api.http.declared import declared
from fate_flow.api.http.file_routes import file_follows
from fate_flow.api.http.services import Services
from fate_flow.api.monitoring.families import Scrape, ScrapeCollector
from fate_flow.api.monitoring.peer_states import peers_of
from fate_flow.api.v1.envelope import error_response
from fate_flow.core.access.client_roles import METRICS, OPEN, READ
from fate_flow.core.model.errors import FlowError
from fate_flow.records.export_state import BadState, ExportState, ExportStates
from fate_flow.records.measures.kept_measures import read_measures
from fate_flow.relay.spool import Spool
from fate_flow.services.record.following import waiting

LOG = logging.getLogger(__name__)

TEXT = "text/plain"
FORMAT = "text/plain; version=0.0.4; charset=utf-8"
ALIVE_SECONDS = 30.0         # the scheduler writes every 5 s; after 4 or 5 missed signs the supervisor replaces it

Problem = Callable[[], str]


def blueprint(services: Services, spool: Spool | None) -> Blueprint:
    """Return the routes; `spool`: where messages between workers are kept, if this process has it."""
    found = Blueprint("monitoring", __name__)
    checks: dict[str, Problem] = {
        "database": lambda: _database(services), "scheduler": lambda: _scheduler(services.settings.alive_file),
        "disk": lambda: "too little space is free" if services.context.disk().is_short() else "",
    }  # fmt: skip

    @found.get("/healthz")
    @declared("Whether this process answers.", OPEN, file=TEXT)
    def healthz() -> Response:
        return Response("ok\n", mimetype=TEXT)

    @found.get("/readyz")
    @declared(
        "Whether this server takes new jobs; HTTP status 503 names the checks that failed.", OPEN, file=TEXT,
        also={503: "A check has failed."},
    )
    def readyz() -> Response:
        problems = {name: problem for name, check in checks.items() if (problem := check())}
        if problems:
            return error_response(503, "; ".join(f"{name}: {problem}" for name, problem in problems.items()))
        return Response("ready\n", mimetype=TEXT)

    @found.get("/schedules")
    @declared(
        "Whether this server of the party schedules, for what leads requests to one of several servers; HTTP status "
        "503 says that it stands by.", OPEN, file=TEXT,
        also={503: "Another server of the party schedules, or none does yet."},
    )
    def schedules() -> Response:
        if not _is_chosen(services):
            return error_response(503, "this server stands by: another one of the party schedules, or none does yet")
        return Response("schedules\n", mimetype=TEXT)

    @found.get("/metrics")
    @file_follows
    @declared("The metrics of this server, in the text format of Prometheus.", READ | METRICS, file=TEXT)
    def metrics() -> Response:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(ScrapeCollector(scrape_of(services, spool)))
        return Response(generate_latest(registry), content_type=FORMAT)

    return found


def scrape_of(services: Services, spool: Spool | None) -> Scrape:
    """Return what a scrape shows now. Raise StorageFailed."""
    settings = services.settings
    return Scrape(
        fate_flow.__version__, settings.party_id, services.views.server_state(),
        peers_of(settings), tuple(sorted(settings.routes)),
        tuple(read_measures(settings.measures_dir)), None if spool is None else spool.used_bytes(),
        settings.limits.spool_max_bytes, services.context.disk(),
        dict(_exports(services)),
    )  # fmt: skip


def _exports(services: Services) -> Iterator[tuple[str, tuple[int, bool]]]:
    """Yield for each export of the record what it has not sent yet, and whether it fails. Raise StorageFailed."""
    states = ExportStates(services.settings.shared)
    for one in services.settings.recording.exports:
        try:
            state = states.read(one.name)
        except (OSError, BadState):
            state = ExportState(error="its file cannot be read")
        yield one.name, (services.context.read(partial(waiting, position=state.position)), bool(state.error))


def _database(services: Services) -> str:
    try:
        services.context.read(lambda tx: tx.scheduler())
    except FlowError as error:
        LOG.warning("the database does not answer: %s", error.message)
        return "does not answer"
    return ""


def _is_chosen(services: Services) -> bool:
    """Return whether the owner of the scheduler's lease is of this home. Raise StorageFailed."""
    owner, _ = services.context.read(lambda tx: tx.scheduler())
    try:
        home_id = (services.settings.run_dir / "lineage").read_bytes().hex()
    except FileNotFoundError:
        return False
    return bool(home_id) and owner.startswith(f"{home_id}-")


def _scheduler(alive_file: Path) -> str:
    try:
        age = time.time() - alive_file.stat().st_mtime
    except OSError:
        return "has not started yet"
    return f"has given no sign of life for {age:.0f} s" if age > ALIVE_SECONDS else ""
