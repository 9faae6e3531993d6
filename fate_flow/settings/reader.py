"""Read `service_conf.yaml` into `Settings`, and check keys that depend on each other.

Keys have FATE's names if FATE has them. As in FATE, `local.<file name>` beside the file overlays it.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import yaml

from fate_flow.core.access.permission import PermissionRule
from fate_flow.core.model.errors import BadSettings
from fate_flow.core.model.grammar import DUPLICATE_IDS
from fate_flow.core.model.spec import JobParameters
from fate_flow.settings.certificates import read_certified, read_own_certificate
from fate_flow.settings.client_keys import ClientKeys, check_client_keys, choose_client_keys
from fate_flow.settings.connectors import read_connectors
from fate_flow.settings.engines.queues import read_queues
from fate_flow.settings.engines.reader import read_engines
from fate_flow.settings.limits import read_ceilings, read_limits, read_retention
from fate_flow.settings.logs import read_log_limits
from fate_flow.settings.notifications import read_notifications
from fate_flow.settings.parties import (
    Listen,
    read_approval_rule,
    read_parties,
    read_routes,
    read_site_rule,
)
from fate_flow.settings.people import read_people
from fate_flow.settings.programs import read_commands
from fate_flow.settings.providers import read_providers
from fate_flow.settings.quotas import read_quotas
from fate_flow.settings.reach import connecting_key
from fate_flow.settings.reading.party_ids import read_party_id
from fate_flow.settings.reading.section import Section, collected, resolved, split_url, without_login
from fate_flow.settings.reading.security import is_loopback, read_host_names
from fate_flow.settings.recording.record import read_record
from fate_flow.settings.servers import LONGEST_POLL, read_servers
from fate_flow.settings.settings import Settings
from fate_flow.settings.traces import read_traces
from fate_flow.settings.worker_limits import read_worker_limits
from fate_flow.settings.worker_listen import read_worker_listen


def overlay_of(path: Path) -> Path:
    """Return the file whose settings count instead of those of this one, if it is there."""
    return path.with_name(f"local.{path.name}")


def load_settings(path: Path) -> Settings:
    """Return the settings of this file and its `local.` overlay. Raise BadSettings with a line for each wrong key."""
    path = Path(path).resolve()
    document, where = _read(path), str(path)
    overlay = overlay_of(path)
    if overlay.exists():
        document, where = _merged(document, _read(overlay)), f"{path} with {overlay.name}"
    reader = _Reader(document, path)
    settings = reader.settings()
    if reader.problems:
        raise BadSettings("\n".join(f"{where}: {problem}" for problem in dict.fromkeys(reader.problems)))
    return settings


def _read(path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadSettings(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadSettings(f"{path}: is not in UTF-8") from error
    except (yaml.YAMLError, ValueError) as error:
        raise BadSettings(f"{path}: is not YAML{_place_of(error)}; quote texts with special characters") from error
    if document is None:         # a file with only comments
        return {}
    if not isinstance(document, dict):
        raise BadSettings(f"{path}: is not a mapping of keys")
    return document


def _place_of(error: Exception) -> str:
    """Return where a file is wrong, without what is wrong: that quotes the line, which may have a password."""
    mark = getattr(error, "problem_mark", None)
    return f": line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


class _Reader:
    """The reader of the whole file."""

    def __init__(self, document: dict[str, Any], path: Path) -> None:
        self.problems: list[str] = []
        self._root = Section(document, "", self.problems, path.parent)
        self._path_of_all = path
        self._base = path.parent

    def settings(self) -> Settings:
        root = self._root
        flow = root.section("fateflow")
        logs = root.section("log")
        authentication = root.section("authentication")
        site = authentication.section("site")
        home = self._path(root.text("home", ".."))
        database_url = self._database(root.section("database"))
        one_of = read_servers(root.section("servers"), home, database_url or "")
        shared = one_of.shared_home if one_of else home
        client_keys, is_due = self._client_keys(authentication.section("client"), shared) or (None, True)
        host, http_port = self._host(flow), flow.whole("http_port", 9380, 1, 65535)
        own_id = self._own_id(root)
        of_parties = root.section("parties")
        certificate, certified = read_own_certificate(of_parties), read_certified(of_parties, own_id)
        parties = read_parties(of_parties, own_id, Listen(host, http_port))
        routes, engines = read_routes(root.section("routes")), read_engines(root)
        connected_by = connecting_key(host, parties, routes)
        settings = Settings(
            party_id=own_id,
            home=home,
            host=host,
            http_port=http_port,
            worker_port=flow.whole("worker_port", 0, 0, 65535),
            worker_listen=read_worker_listen(flow.section("worker_listen")),
            http_threads=flow.whole("http_threads", 32, 4, 1024),
            http_workers=flow.whole("http_workers", 1, 1, 64),
            worker_threads=flow.whole("worker_threads", 32, 4, 1024),
            insecure_listen=flow.flag("insecure_listen", False),
            allowed_hosts=self._allowed_hosts(flow),
            data_roots=self._paths(flow, "data_roots"),
            duplicate_ids=self._one_of(flow, "duplicate_ids", DUPLICATE_IDS),
            client_keys=client_keys,
            makes_client_keys=is_due,
            site=read_site_rule(site, parties, host, routes),
            site_key_file=Path(site.full_path("private_key")),
            parties_listen=parties.gateway,
            parties_address=parties.address,
            parties_certificate=certificate,
            certified_parties=certified,
            plain_parties=parties.plain,
            parties_behind_proxy=parties.behind_proxy,
            parties_dial=parties.dials,
            database_url=database_url,
            one_of=one_of,
            engines=engines,
            queues=read_queues(root.section("queues"), engines, own_id),
            routes=routes,
            connected_by=connected_by,
            log_dir=self._path(logs.text("dir"), shared / "logs"),
            log_level=self._level(logs),
            log_sql=logs.flag("sql", True),
            log_limits=read_log_limits(logs),
            defaults=self._defaults(root.section("job_default_config")),
            limits=read_limits(root.section("limits")),
            retention=read_retention(root.section("retention")),
            ceilings=read_ceilings(root.section("ceilings")),
            quotas=read_quotas(root.section("quotas"), own_id),
            worker_limits=read_worker_limits(root.section("worker_limits")),
            commands=read_commands(root.section("commands")),
            approval=read_approval_rule(root.section("approval")),
            notifications=read_notifications(root.section("notifications")),
            permission=self._permission(root.section("permission"), connected_by),
            recording=read_record(root.section("record")),
            traces=read_traces(root.section("traces")),
            connectors=read_connectors(root.section("connectors")),
            providers=read_providers(root.section("providers")),
            conf_path=self._path_of_all,
        )
        flow.refuse_others()
        authentication.refuse_others()
        site.refuse_others()
        logs.refuse_others()
        root.refuse_others()
        checks = (self._check_listen, self._check_clients_sign, self._check_site, self._check_approval)
        for check in (*checks, self._check_polls, self._check_notifications):
            if not self.problems:
                check(settings)
        return settings

    @collected
    def _own_id(self, root: Section) -> str:
        return read_party_id(root.text("party_id"), "party_id")

    @collected
    def _allowed_hosts(self, flow: Section) -> frozenset[str]:
        return read_host_names(flow.get("allowed_hosts", []), flow.name("allowed_hosts"))

    @collected
    def _host(self, flow: Section) -> str:
        host = flow.text("host", "127.0.0.1")
        try:
            _ = host == "localhost" or ip_address(host)
        except ValueError as error:
            raise BadSettings(f"{flow.name('host')}: {host!r} is not an IP address or localhost") from error
        return host

    def _path(self, text: str, default: Path | None = None) -> Path:
        if not text and default is not None:
            return default
        return resolved(self._base, text)

    @collected
    def _paths(self, section: Section, key: str) -> tuple[Path, ...]:
        values = section.get(key, [])
        if not isinstance(values, list):
            raise BadSettings(f"{section.name(key)}: {values!r} is not a list of folders")
        return tuple(self._path(str(value)) for value in values)

    @collected
    def _one_of(self, section: Section, key: str, text: tuple[str, ...]) -> str:
        """Return the word in the file; the first of the known words if there is none."""
        word = section.text(key, text[0])
        if word not in text:
            raise BadSettings(f"{section.name(key)}: {word!r} is not one of {', '.join(text)}")
        return word

    @collected
    def _client_keys(self, client: Section, home: Path) -> tuple[ClientKeys | None, bool]:
        """Return the existing keys, and whether the next start makes some."""
        switch = None if client.get("switch") is None else client.flag("switch", False)
        keys, is_due = choose_client_keys(home, switch, client.text("http_app_key"), client.text("http_secret_key"))
        client.refuse_others()
        if keys is not None:
            check_client_keys(keys)
        read_people(home)           # a file that cannot be used is reported before the start, not by the first request
        return keys, is_due

    @collected
    def _database(self, section: Section) -> str:
        url = section.text("url")
        section.refuse_others()
        parts = split_url(url, "database.url")
        if url and parts.scheme not in ("sqlite", "mysql", "mysql+pymysql"):
            raise BadSettings("database.url: does not begin with sqlite:// or mysql://")
        if parts.scheme == "sqlite" and (parts.netloc or not parts.path.startswith("/")):
            raise BadSettings("database.url: is not sqlite:///FILE, in the home folder, or sqlite:////FOLDER/FILE")
        if parts.scheme.startswith("mysql") and not parts.path.strip("/"):
            raise BadSettings("database.url: has no database name; write mysql://user:password@host:3306/name")
        return url

    @collected
    def _level(self, section: Section) -> str:
        level = section.text("level", "DEBUG").upper()
        if level not in ("DEBUG", "INFO", "WARNING", "ERROR"):
            raise BadSettings(f"{section.name('level')}: {level!r} is not DEBUG, INFO, WARNING or ERROR")
        return level

    def _defaults(self, section: Section) -> JobParameters:
        base = JobParameters()
        found = JobParameters(
            task_cores=section.whole("task_cores", base.task_cores, 1),
            task_parallelism=section.whole("task_parallelism", base.task_parallelism, 1),
            task_memory=section.whole("task_memory", base.task_memory),
            timeout_seconds=section.whole("job_timeout", base.timeout_seconds, 1),
            task_timeout_seconds=section.whole("task_timeout", base.task_timeout_seconds),
            auto_retries=section.whole("auto_retries", base.auto_retries),
            auto_retry_delay_seconds=section.number("auto_retry_delay", base.auto_retry_delay_seconds),
            computing_partitions=section.whole("computing_partitions", base.computing_partitions, 1),
        )
        section.refuse_others()
        return found

    @collected
    def _permission(self, section: Section, connected_by: str) -> PermissionRule:
        """Return which grants are required. Without a switch, a server that is connected with other machines requires
        all."""
        is_stated = section.get("switch") is not None
        is_on = section.flag("switch", False) if is_stated else bool(connected_by)
        default = is_on and not is_stated
        rule = PermissionRule(section.flag("component", default), section.flag("dataset", default), not is_stated)
        section.refuse_others()
        if is_on and not rule.is_on:
            unset = f"is not set, and {connected_by} connects this server with other machines"
            what = "is true" if is_stated else unset
            raise BadSettings(
                f"{section.name('switch')}: {what}, but neither {section.name('component')} nor "
                f"{section.name('dataset')} is true: nothing would be checked; {section.name('switch')}: false says so"
            )
        return rule if is_on else PermissionRule()

    @collected
    def _check_listen(self, settings: Settings) -> None:
        if not is_loopback(settings.host) and not settings.insecure_listen:
            raise BadSettings(
                f"fateflow.host: {settings.host} is reachable from other machines, and {_open_to(settings)}; set "
                "host: 127.0.0.1, and let other parties connect to parties.listen, which speaks mutual TLS, or to a "
                "proxy that leads to parties.behind_proxy; for tests, fateflow.insecure_listen: true accepts it"
            )

    @collected
    def _check_clients_sign(self, settings: Settings) -> None:
        if settings.connected_by and not settings.clients_sign:
            raise BadSettings(
                f"authentication.client.switch: is not true, and {settings.connected_by} connects this server with "
                "other machines: set it to true. The next start then makes keys for clients, and flow init -c "
                f"{settings.conf_path} lets a user of this machine sign with them "
                "(docs/guides/operate-a-server.md#clients-of-a-home-without-keys)"
            )

    @collected
    def _check_polls(self, settings: Settings) -> None:
        if settings.one_of is not None and settings.limits.poll_interval > LONGEST_POLL:
            raise BadSettings(
                f"limits.poll_interval: {settings.limits.poll_interval:g} is above {LONGEST_POLL:g}, and servers.name "
                "is set: another server of the party takes over from one that writes nothing for 10 s"
            )

    @collected
    def _check_approval(self, settings: Settings) -> None:
        if settings.approval.people > 1 and not settings.clients_sign:
            raise BadSettings(
                "approval.people: is 2, but authentication.client.switch is not true: without signatures one person "
                "could approve under two names; set authentication.client.switch to true"
            )

    @collected
    def _check_notifications(self, settings: Settings) -> None:
        if settings.notifications.with_own_jobs and not settings.clients_sign:
            name = settings.notifications.with_own_jobs[0]
            raise BadSettings(
                f"notifications.people.{name}.jobs: is own, but authentication.client.switch is not true: nobody knows "
                "whose a job is; set jobs to all, or authentication.client.switch to true"
            )

    @collected
    def _check_site(self, settings: Settings) -> None:
        if settings.site.is_on and not settings.clients_sign:
            raise BadSettings(
                "authentication.site.switch: is true, but authentication.client.switch is not: anybody who reaches the "
                "port could save a key for any party (flow key save); set authentication.client.switch to true"
            )
        if settings.parties_behind_proxy and not settings.site.is_on:
            raise BadSettings(
                "parties.behind_proxy: is set, but authentication.site.switch is false: a proxy hides who asks, so "
                "each request and answer there is signed; remove the switch, or set it to true"
            )
        for party_id, route in settings.routes.items():
            if settings.site.is_on and split_url(route.url, "").path:
                raise BadSettings(
                    f"routes.{party_id}.url: {without_login(route.url)} has a path: signatures cover the path "
                    "(authentication.site), and that party's server would see another one; remove the path"
                )
            if route.signed_answers and not settings.site.needs_saved_key(party_id):
                why = (
                    f"party {party_id} is in authentication.site.unsigned_from or parties.plain.from: remove it there"
                    if settings.site.is_on else "authentication.site.switch is not: set it to true"
                )
                raise BadSettings(f"routes.{party_id}.signed_answers: is true, but {why}")


def _open_to(settings: Settings) -> str:
    """Return what is unprotected for anybody who reaches the port."""
    unsigned = "" if settings.site.is_on else "requests of other parties are not signed (authentication.site), and "
    return f"{unsigned}nothing is encrypted"
