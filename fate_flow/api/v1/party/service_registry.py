"""`/v1/server/service/get`: the sections of this server's configuration, as `flow service registry` shows them.

Each published value is listed here. All others stay private: keys, passwords, secrets of commands and folders of the
machine, also those of future sections.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

from flask import Blueprint, Response

from fate_flow.api.http.declared import FREE, an_object, declared
from fate_flow.api.v1.envelope import ok
from fate_flow.core.access.client_roles import READ
from fate_flow.core.model.resources import LOCAL
from fate_flow.settings.settings import Settings

_SECTIONS = (
    "FATEFLOW", "PARTIES", "AUTHENTICATION", "DATABASE", "SERVERS", "ENGINES", "QUEUES", "FATE_ON_STANDALONE",
    "ROUTES", "LOG", "JOB_DEFAULT_CONFIG", "LIMITS", "QUOTAS", "RETENTION", "CEILINGS", "COMMANDS", "WORKER_LIMITS",
    "APPROVAL", "PERMISSION", "RECORD", "NOTIFICATIONS", "TRACES", "CONNECTORS", "PROVIDERS",
)  # fmt: skip


def blueprint(settings: Settings) -> Blueprint:
    registry = Blueprint("service_registry", __name__, url_prefix="/v1/server/service")

    @registry.post("/get")
    @declared(
        "Show the sections of this server's configuration, without keys, passwords and folders.", READ,
        data=an_object(dict.fromkeys(_SECTIONS, FREE)),
    )
    def services() -> Response:
        return ok(sections(settings))

    return registry


def sections(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return the sections by their names in the configuration file, in capitals as in FATE."""
    return {
        "FATEFLOW": {
            "host": settings.host, "http_port": settings.http_port, "http_threads": settings.http_threads,
            "http_workers": settings.http_workers, "worker_threads": settings.worker_threads,
            "insecure_listen": settings.insecure_listen,
        },
        "PARTIES": _parties(settings),
        "AUTHENTICATION": {"client": {"switch": settings.client_keys is not None}},
        "DATABASE": {"engine": urlsplit(settings.database_url).scheme.partition("+")[0] or "sqlite"},
        "SERVERS": {"name": settings.one_of.name if settings.one_of is not None else ""},
        "FATE_ON_STANDALONE": {"standalone": asdict(settings.engines[LOCAL].size)},
        "ENGINES": {
            name: {"kind": one.kind, "default": name == next(iter(settings.engines)), **asdict(one.size)}
            for name, one in settings.engines.items()
        },
        "QUEUES": {word: asdict(one.placement) for word, one in settings.queues.by_word.items()},
        "ROUTES": {party_id: {"url": _without_user(route.url)} for party_id, route in settings.routes.items()},
        "LOG": {"level": settings.log_level, "sql": settings.log_sql},
        "JOB_DEFAULT_CONFIG": _job_defaults(settings),
        "LIMITS": asdict(settings.limits),
        "QUOTAS": {
            "default": asdict(settings.quotas.default),
            "parties": {party_id: asdict(one) for party_id, one in settings.quotas.parties.items()},
        },
        "RETENTION": asdict(settings.retention),
        "CEILINGS": asdict(settings.ceilings),
        "COMMANDS": {"enabled": settings.commands.enabled, "share_logs": settings.commands.share_logs},
        "WORKER_LIMITS": {
            "processes": settings.worker_limits.processes, "memory": settings.worker_limits.memory,
        },
        "APPROVAL": asdict(settings.approval),
        "PERMISSION": {
            "switch": settings.permission.is_on, "component": settings.permission.components,
            "dataset": settings.permission.datasets,
        },
        "RECORD": {"switch": settings.recording.is_on},
        "NOTIFICATIONS": {
            "webhooks": sorted(settings.notifications.webhooks),
            "email": {"host": mail.host, "port": mail.port} if (mail := settings.notifications.mail) else None,
            "people": len(settings.notifications.subscribers.people),
        },
        "TRACES": {"switch": settings.traces.is_on, "share": settings.traces.share},
        "CONNECTORS": {
            name: {"engine": "MYSQL", "host": one.host, "port": one.port, "db": one.db}
            for name, one in settings.connectors.items()
        },
        "PROVIDERS": {
            name: {"version": one.version, "module": one.module} for name, one in settings.providers.items()
        },
    }  # fmt: skip


def _parties(settings: Settings) -> dict[str, Any]:
    found: dict[str, Any] = {"listen": asdict(settings.parties_listen)} if settings.parties_listen else {}
    if plain := settings.plain_parties:
        found["plain"] = {"listen": asdict(plain.listen), "from": sorted(plain.party_ids)}
    if settings.parties_behind_proxy:
        found["behind_proxy"] = asdict(settings.parties_behind_proxy)
    if settings.parties_certificate:
        found["certificate"] = str(settings.parties_certificate)
    if settings.certified_parties:
        found["certified"] = {party_id: one.name for party_id, one in settings.certified_parties.items()}
    return found


def _job_defaults(settings: Settings) -> dict[str, Any]:
    said = settings.defaults
    return {
        "task_cores": said.task_cores, "task_parallelism": said.task_parallelism, "task_memory": said.task_memory,
        "job_timeout": said.timeout_seconds, "task_timeout": said.task_timeout_seconds,
        "auto_retries": said.auto_retries, "auto_retry_delay": said.auto_retry_delay_seconds,
        "computing_partitions": said.computing_partitions,
    }  # fmt: skip


def _without_user(url: str) -> str:
    """Return the URL without a user name and a password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
