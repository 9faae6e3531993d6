"""One frozen `Settings`, read once from `service_conf.yaml`, checked, and handed to constructors.

Key names are FATE's wherever FATE has one. `local.<file name>` beside the file overlays it, as FATE does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

import yaml

from fate_flow.client_keys import ClientKeys, check_client_keys, choose_client_keys
from fate_flow.core.approval import ApprovalRule
from fate_flow.core.ceilings import NO_CEILINGS, Ceilings
from fate_flow.core.command import SECRET_NAME, CommandPolicy, Secret
from fate_flow.core.errors import BadRequest, BadSettings
from fate_flow.core.grammar import DUPLICATE_IDS, LAST, check_party_id
from fate_flow.core.permission import PermissionRule
from fate_flow.core.policy import PolicyAction
from fate_flow.core.resources import EngineSize
from fate_flow.core.site import SiteRule
from fate_flow.core.spec import JobParameters
from fate_flow.settings_logs import LogLimits, read_log_limits
from fate_flow.settings_section import Section, collected
from fate_flow.settings_security import check_authorities, read_host_names

ENGINE_NAME = "STANDALONE"
_VOLUME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,49}")
_ALLOWED = re.compile(r"/.*[^/]|sha256:[0-9a-f]{64}", re.DOTALL)
PART = ".part"
"""What a file in `uploads_dir` is called while it comes in."""


@dataclass(frozen=True)
class Route:
    """Where another party's server answers."""

    url: str
    ca_file: str = ""        # certificates that an https server is checked with, instead of the usual authorities


@dataclass(frozen=True)
class Limits:
    """Bounds and intervals. Times in seconds, sizes in bytes; each is a key of the section `limits`."""

    poll_interval: float = 2.0           # the scheduler's safety net
    remote_request_timeout: float = 30.0 # one request to another party; it never takes longer than party_silence
    submit_timeout: float = 30.0         # until every party has accepted a submit
    hold_seconds: float = 60.0           # reserved but not started: given back after so long
    ready_seconds: float = 90.0          # created but not accepted everywhere: removed after so long
    heartbeat_interval: float = 5.0      # to every party that runs something for us
    party_silence: float = 90.0          # the initiator gives a party up after so long
    initiator_silence: float = 120.0     # a party stops its workers after so long; more than party_silence
    plain_hold_seconds: float = 300.0    # hold_seconds for an initiator that speaks plain v1, which renews nothing
    plain_silence: float = 660.0         # initiator_silence for it: FATE's own signs of life are minutes apart
    command_keep: float = 604_800.0      # a command that nobody answered is dropped after so long, once the job is over
    server_silence: float = 600.0        # a worker's runner stops it when its own server is gone for so long
    stop_grace: float = 10.0             # SIGTERM, then SIGKILL after so long
    longest_stop: float = 300.0          # what a job may ask for instead (stop_duration)
    drain_timeout: float = 60.0          # a party that has not confirmed a stop by then is unconfirmed
    launch_timeout: float = 60.0         # no process after so long: the launch has failed
    retry_wait: float = 2.0              # before a refused reservation is asked for again
    long_backoff: float = 30.0           # a job that runs nothing for longer gives its cores back until then
    queue_passes: int = 16               # jobs that may take what the first waiting one lacks before it
    queue_ageing: float = 60.0           # to have waited for so long outweighs one level of priority
    resource_waiting_timeout: float = 0  # a job may wait for cores so long; 0: for ever
    max_request_bytes: int = 64 * 1024 * 1024
    upload_max_bytes: int = 4 * 1024 * 1024 * 1024
    spool_max_bytes: int = 4 * 1024 * 1024 * 1024

    @property
    def longest_answer(self) -> float:
        """Seconds until a request to another party has failed: no later than the party counts as silent.

        Else the initiator would learn of the silence when the party has given up first."""
        return min(self.remote_request_timeout, self.party_silence)


_MAY_BE_ZERO = frozenset({"stop_grace", "longest_stop", "retry_wait", "queue_passes", "resource_waiting_timeout"})
"""The limits that mean something as 0; no other interval or bound does."""

_LONGEST_AGEING = 1e9      # seconds: a thousand levels of that still fit into the database


@dataclass(frozen=True)
class Retention:
    """What is kept of what is over. Days since the end, or the last line, or the making; 0: for ever."""

    finished_jobs_days: float = 30.0     # rows, folders of the job and of its workers, what its tasks reported
    job_logs_days: float = 30.0
    job_logs_max_bytes: int = 20 << 30   # of all jobs together, the oldest go first; 0: any
    output_tables_days: float = 0.0
    most_finished_jobs: int = 0          # the oldest go first; 0: any number


@dataclass(frozen=True)
class MysqlServer:
    """A server that tasks of this party's own clients may write tables to and read them from."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    db: str


@dataclass(frozen=True)
class Settings:
    """What one party's server is told."""

    party_id: str
    home: Path
    host: str = "127.0.0.1"
    http_port: int = 9380
    worker_port: int = 0                  # 0: any free port
    http_threads: int = 32
    http_workers: int = 1
    worker_threads: int = 32
    insecure_listen: bool = False
    allowed_hosts: frozenset[str] = frozenset()    # names of this server, besides IP addresses and this machine's
    client_keys: ClientKeys | None = None    # None: clients need not sign, or the keys are still to be made
    makes_client_keys: bool = False       # the next start makes a file of them in the home (`client_keys.py`)
    site: SiteRule = field(default_factory=SiteRule)
    site_key_file: Path = Path()          # of this party's private key; none: below the home
    database_url: str = ""                # empty: SQLite in the home folder
    engine: EngineSize = field(default_factory=lambda: EngineSize(nodes=1, cores=20))
    engine_config: Mapping[str, Any] = field(default_factory=dict)
    routes: Mapping[str, Route] = field(default_factory=dict)
    data_roots: tuple[Path, ...] = ()     # server-side files that an upload or download may name
    duplicate_ids: str = LAST             # one of DUPLICATE_IDS, for uploads that say nothing of it
    log_dir: Path = Path("logs")
    log_level: str = "DEBUG"
    log_sql: bool = True
    log_limits: LogLimits = field(default_factory=LogLimits)
    defaults: JobParameters = field(default_factory=JobParameters)
    limits: Limits = field(default_factory=Limits)
    retention: Retention = field(default_factory=Retention)
    ceilings: Ceilings = NO_CEILINGS
    commands: CommandPolicy = field(default_factory=CommandPolicy)
    approval: ApprovalRule = field(default_factory=ApprovalRule)
    permission: PermissionRule = field(default_factory=PermissionRule)
    connectors: Mapping[str, MysqlServer] = field(default_factory=dict)    # by the names that clients use
    conf_path: Path = field(default=Path(), compare=False)     # the file that says all this, if one does

    @property
    def clients_sign(self) -> bool:
        """Whether clients have to sign their requests once the server runs."""
        return self.client_keys is not None or self.makes_client_keys

    @property
    def jobs_dir(self) -> Path:
        return self.home / "jobs"

    @property
    def data_dir(self) -> Path:
        return self.home / "data"

    @property
    def spool_dir(self) -> Path:
        return self.home / "spool"

    @property
    def uploads_dir(self) -> Path:
        return self.home / "uploads"

    @property
    def alive_file(self) -> Path:
        """What the scheduler rewrites every few seconds."""
        return self.run_dir / "alive"

    @property
    def run_dir(self) -> Path:
        return self.home / "run"

    @property
    def private_key(self) -> Path:
        """The file with the key that this party signs with."""
        return self.site_key_file if self.site_key_file != Path() else self.home / "keys" / "site.pem"

    @property
    def url(self) -> str:
        """Where this party's own server answers."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host  # noqa: S104
        return f"http://{host}:{self.http_port}"


def load_settings(path: Path) -> Settings:
    """The settings in this file and its `local.` overlay; raises BadSettings with a line for each key that is wrong."""
    path = Path(path).resolve()
    document, where = _read(path), str(path)
    overlay = path.with_name(f"local.{path.name}")
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
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadSettings(f"{path}: is not YAML: {error}") from error
    if document is None:         # nothing but comments
        return {}
    if not isinstance(document, dict):
        raise BadSettings(f"{path}: is not a mapping of keys")
    return document


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


_LEAST_CEILINGS = {
    "max_attempts": 1, "max_interruptions": 0, "retry_duration": 1, "job_timeout": 1, "task_timeout": 1,
    "task_cores": 1, "task_memory": 0, "replicas": 1, "least_ttl": 1,
}  # fmt: skip
"""The numbers of the section `ceilings`, and what each is at least."""
_ACTIONS = tuple(action.value for action in PolicyAction)


class _Reader:
    """Turns the whole file into `Settings`."""

    def __init__(self, document: dict[str, Any], path: Path) -> None:
        self.problems: list[str] = []
        self._root = Section(document, "", self.problems)
        self._path_of_all = path
        self._base = path.parent

    def settings(self) -> Settings:
        root = self._root
        flow = root.section("fateflow")
        logs = root.section("log")
        authentication = root.section("authentication")
        site = authentication.section("site")
        home = self._path(root.text("home", ".."))
        client_keys, is_due = self._client_keys(authentication.section("client"), home) or (None, True)
        settings = Settings(
            party_id=self._own_id(root),
            home=home,
            host=flow.text("host", "127.0.0.1"),
            http_port=flow.whole("http_port", 9380, 1, 65535),
            worker_port=flow.whole("worker_port", 0, 0, 65535),
            http_threads=flow.whole("http_threads", 32, 4, 1024),
            http_workers=flow.whole("http_workers", 1, 1, 64),
            worker_threads=flow.whole("worker_threads", 32, 4, 1024),
            insecure_listen=flow.flag("insecure_listen", False),
            allowed_hosts=self._allowed_hosts(flow),
            data_roots=self._paths(flow, "data_roots"),
            duplicate_ids=self._one_of(flow, "duplicate_ids", DUPLICATE_IDS),
            client_keys=client_keys,
            makes_client_keys=is_due,
            site=self._site(site),
            site_key_file=Path(self._folder(site, "private_key")),
            database_url=self._database(root.section("database")),
            engine_config=root.section("fate_on_standalone").get("standalone", {}),
            engine=self._engine(root.section("fate_on_standalone")),
            routes=self._routes(root.section("routes")),
            log_dir=self._path(logs.text("dir"), home / "logs"),
            log_level=self._level(logs),
            log_sql=logs.flag("sql", True),
            log_limits=read_log_limits(logs),
            defaults=self._defaults(root.section("job_default_config")),
            limits=self._limits(root.section("limits")),
            retention=self._retention(root.section("retention")),
            ceilings=self._ceilings(root.section("ceilings")),
            commands=self._commands(root.section("commands")),
            approval=self._approval(root.section("approval")),
            permission=self._permission(root.section("permission")),
            connectors=self._connectors(root.section("connectors")),
            conf_path=self._path_of_all,
        )
        flow.refuse_others()
        authentication.refuse_others()
        site.refuse_others()
        logs.refuse_others()
        root.refuse_others()
        if not self.problems:
            self._check_listen(settings)
            self._check_site(settings)
        return settings

    @collected
    def _own_id(self, root: Section) -> str:
        return _party_id(root.text("party_id"), "party_id")

    @collected
    def _allowed_hosts(self, flow: Section) -> frozenset[str]:
        return read_host_names(flow.get("allowed_hosts", []), flow.name("allowed_hosts"))

    def _path(self, text: str, default: Path | None = None) -> Path:
        if not text and default is not None:
            return default
        return (self._base / Path(text).expanduser()).resolve()

    @collected
    def _paths(self, section: Section, key: str) -> tuple[Path, ...]:
        values = section.get(key, [])
        if not isinstance(values, list):
            raise BadSettings(f"{section.name(key)}: {values!r} is not a list of folders")
        return tuple(self._path(str(value)) for value in values)

    @collected
    def _one_of(self, section: Section, key: str, words: tuple[str, ...]) -> str:
        """The first of the words unless the file says another."""
        word = section.text(key, words[0])
        if word not in words:
            raise BadSettings(f"{section.name(key)}: {word!r} is not one of {', '.join(words)}")
        return word

    @collected
    def _client_keys(self, client: Section, home: Path) -> tuple[ClientKeys | None, bool]:
        """Those that are there, and whether the next start makes some."""
        switch = None if client.get("switch") is None else client.flag("switch", False)
        keys, is_due = choose_client_keys(home, switch, client.text("http_app_key"), client.text("http_secret_key"))
        client.refuse_others()
        if keys is not None:
            check_client_keys(keys)
        return keys, is_due

    def _site(self, section: Section) -> SiteRule:
        return SiteRule(section.flag("switch", False), self._party_ids(section, "unsigned_from"))

    @collected
    def _party_ids(self, section: Section, key: str) -> frozenset[str]:
        name, listed = section.name(key), section.get(key, [])
        if not isinstance(listed, list):
            raise BadSettings(f"{name}: {listed!r} is not a list of party ids")
        return frozenset(_party_id(str(one), name) for one in listed)

    @collected
    def _database(self, section: Section) -> str:
        url = section.text("url")
        section.refuse_others()
        parts = _split(url, "database.url")
        if url and parts.scheme not in ("sqlite", "mysql", "mysql+pymysql"):
            raise BadSettings(f"database.url: {parts.scheme!r} is not sqlite or mysql")
        if parts.scheme == "sqlite" and (parts.netloc or not parts.path.startswith("/")):
            raise BadSettings("database.url: is not sqlite:///FILE, in the home folder, or sqlite:////FOLDER/FILE")
        if parts.scheme.startswith("mysql") and not parts.path.strip("/"):
            raise BadSettings("database.url: names no database; write mysql://user:password@host:3306/name")
        return url

    def _engine(self, section: Section) -> EngineSize:
        one = section.section("standalone")
        nodes = one.whole("nodes", 1, 1)
        size = EngineSize(
            nodes=nodes,
            cores=one.whole("cores_per_node", 20, 0) * nodes,
            memory=one.whole("memory_per_node", 0) * nodes,
            max_cores_percent_per_job=one.share("max_cores_percent_per_job", 1.0),
        )
        one.refuse_others()
        section.refuse_others()
        return size

    def _routes(self, section: Section) -> dict[str, Route]:
        found = (self._route(section, key) for key in section.names())
        return dict(filter(None, found))

    @collected
    def _route(self, section: Section, key: Any) -> tuple[str, Route]:
        party_id, one = _party_id(str(key), section.name(key)), section.section(key)
        url, ca_file = one.text("url").rstrip("/"), self._folder(one, "ca")
        one.refuse_others()
        parts = _split(url, one.name("url"))
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise BadSettings(f"{one.name('url')}: {url!r} is not an address such as http://10.0.0.2:9380")
        if ca_file:
            check_authorities(ca_file, parts.scheme, one.name("ca"))
        return party_id, Route(url, ca_file)

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
    def _limits(self, section: Section) -> Limits:
        found: dict[str, Any] = {}
        for one in fields(Limits):
            default, may_be_zero = getattr(Limits(), one.name), one.name in _MAY_BE_ZERO
            if one.type == "int":
                found[one.name] = section.whole(one.name, default, 0 if may_be_zero else 1)
            else:
                found[one.name] = section.number(one.name, default, 0 if may_be_zero else 0.01)
        section.refuse_others()
        limits = Limits(**found)
        if limits.heartbeat_interval >= limits.party_silence:
            raise BadSettings(
                f"limits.heartbeat_interval: {limits.heartbeat_interval:g} is not below limits.party_silence "
                f"({limits.party_silence:g}): parties would take us for lost between two heartbeats"
            )
        if limits.initiator_silence <= limits.party_silence:
            raise BadSettings(
                f"limits.initiator_silence: {limits.initiator_silence:g} is not above limits.party_silence "
                f"({limits.party_silence:g}): the initiator has to give up first, so that both sides agree"
            )
        if limits.queue_ageing > _LONGEST_AGEING:
            raise BadSettings(
                f"limits.queue_ageing: {limits.queue_ageing:g} is more than {_LONGEST_AGEING:g} seconds a level"
            )
        return limits

    def _retention(self, section: Section) -> Retention:
        base = Retention()
        found = Retention(
            finished_jobs_days=section.number("finished_jobs_days", base.finished_jobs_days),
            job_logs_days=section.number("job_logs_days", base.job_logs_days),
            job_logs_max_bytes=section.whole("job_logs_max_bytes", base.job_logs_max_bytes),
            output_tables_days=section.number("output_tables_days", base.output_tables_days),
            most_finished_jobs=section.whole("most_finished_jobs", base.most_finished_jobs),
        )
        section.refuse_others()
        return found

    @collected
    def _ceilings(self, section: Section) -> Ceilings:
        found: dict[str, Any] = {
            key: section.whole(key, 0, least) if section.get(key) is not None else None
            for key, least in _LEAST_CEILINGS.items()
        }
        actions = section.get("refused_actions", [])
        if not isinstance(actions, list) or not all(one in _ACTIONS for one in actions):
            raise BadSettings(f"{section.name('refused_actions')}: {actions!r} is not a list of {', '.join(_ACTIONS)}")
        may_wait = section.flag("party_lost_retry", True)
        section.refuse_others()
        return Ceilings(**found, refused_actions=frozenset(actions), party_lost_retry=may_wait)

    @collected
    def _allowed_programs(self, section: Section) -> tuple[str, ...]:
        allow = section.get("allow", [])
        if not isinstance(allow, list):
            raise BadSettings(f"{section.name('allow')}: {allow!r} is not a list of programs and digests")
        for one in allow:
            if not isinstance(one, str) or not _ALLOWED.fullmatch(one):
                raise BadSettings(
                    f"{section.name('allow')}: {one!r} is neither the absolute path of a program, such as "
                    "/usr/bin/python3, nor sha256: and the 64 hex digits of one"
                )
        return tuple(allow)

    @collected
    def _commands(self, section: Section) -> CommandPolicy:
        found = CommandPolicy(
            enabled=section.flag("enabled", False),
            allow=self._allowed_programs(section),
            share_logs=section.flag("share_logs", False),
            files_root=self._folder(section, "files_root"),
            volumes=self._volumes(section),
            output_max_bytes=section.whole("output_max_bytes", CommandPolicy.output_max_bytes),
            secrets=self._secrets(section.section("secrets")),
        )
        section.refuse_others()
        return found

    def _approval(self, section: Section) -> ApprovalRule:
        found = ApprovalRule(section.flag("required", False), self._party_ids(section, "except_from"))
        section.refuse_others()
        return found

    @collected
    def _permission(self, section: Section) -> PermissionRule:
        is_on = section.flag("switch", False)
        rule = PermissionRule(section.flag("component", False), section.flag("dataset", False))
        section.refuse_others()
        if is_on and not rule.is_on:
            raise BadSettings(
                f"{section.name('switch')}: is true, and so is neither {section.name('component')} nor "
                f"{section.name('dataset')}: nothing would be looked at"
            )
        return rule if is_on else PermissionRule()

    def _connectors(self, section: Section) -> dict[str, MysqlServer]:
        found = (self._connector(section, name) for name in section.names())
        return dict(filter(None, found))

    @collected
    def _connector(self, section: Section, name: Any) -> tuple[str, MysqlServer]:
        if not isinstance(name, str) or not _VOLUME.fullmatch(name):
            raise BadSettings(f"{section.name(str(name))}: is not a name of 1 to 50 letters, digits, _ and -")
        one = section.section(name)
        engine, url = one.text("engine"), one.text("url")
        one.refuse_others()
        if engine != "MYSQL":
            raise BadSettings(f"{one.name('engine')}: {engine!r} is not MYSQL, the only one there is")
        return name, _mysql_server(url, one.name("url"))

    def _folder(self, section: Section, key: str) -> str:
        """A path, relative to the file; empty when it is not given."""
        text = section.text(key)
        return str(self._path(text)) if text else ""

    @collected
    def _volumes(self, section: Section) -> dict[str, str]:
        one = section.section("volumes")
        for name in one.names():
            if not isinstance(name, str) or not _VOLUME.fullmatch(name) or not one.text(name).startswith("/"):
                raise BadSettings(
                    f"{one.name(str(name))}: a name of letters, digits, _ and -, and an absolute path are needed"
                )
        return {name: one.text(name) for name in one.names()}

    def _secrets(self, section: Section) -> dict[str, Secret]:
        """What is in the files is looked at when a job wants it: it may be changed without a restart."""
        found = (self._secret(section, name) for name in section.names())
        return dict(filter(None, found))

    @collected
    def _secret(self, section: Section, name: Any) -> tuple[str, Secret]:
        if not isinstance(name, str) or not SECRET_NAME.fullmatch(name):
            raise BadSettings(f"{section.name(str(name))}: is not a name of 1 to 50 letters, digits and _")
        one = section.section(name)
        listed, where = one.get("initiators", []), one.name("initiators")
        if not isinstance(listed, list):
            raise BadSettings(f"{where}: {listed!r} is not a list of party ids")
        secret = Secret(self._folder(one, "file"), tuple(_party_id(str(each), where) for each in listed))
        if not secret.file:
            raise BadSettings(f"{one.name('file')}: is needed: the file that holds the secret, of mode 0600")
        one.refuse_others()
        return name, secret

    @collected
    def _check_listen(self, settings: Settings) -> None:
        try:
            is_loopback = settings.host == "localhost" or ip_address(settings.host).is_loopback
        except ValueError as error:
            raise BadSettings(f"fateflow.host: {settings.host!r} is not an IP address or localhost") from error
        if not is_loopback and not settings.insecure_listen:
            raise BadSettings(
                f"fateflow.host: {settings.host} is reachable from other machines, and {_open_to(settings)}; set "
                "fateflow.insecure_listen: true to accept that, or put host: 127.0.0.1"
            )
        if not is_loopback and not settings.clients_sign:
            raise BadSettings(
                f"authentication.client.switch: is not true, and fateflow.host: {settings.host} is reachable from "
                "other machines: set it to true, or put host: 127.0.0.1"
            )

    @collected
    def _check_site(self, settings: Settings) -> None:
        if settings.site.is_on and not settings.clients_sign:
            raise BadSettings(
                "authentication.site.switch: is true, and authentication.client.switch is not: whoever reaches the "
                "port could save a key of his own for any party (flow key save); set it to true"
            )
        for party_id, route in settings.routes.items():
            if settings.site.is_on and _split(route.url, "").path:
                raise BadSettings(
                    f"routes.{party_id}.url: {route.url} has a path of its own: signatures cover the path "
                    "(authentication.site), and that party's server would see another one"
                )


def _open_to(settings: Settings) -> str:
    """What whoever reaches the port can do."""
    unsigned = "" if settings.site.is_on else "requests of other parties are not signed (authentication.site), and "
    return f"{unsigned}nothing is encrypted"


def _party_id(text: str, name: str) -> str:
    try:
        return check_party_id(text)
    except BadRequest as error:
        raise BadSettings(f"{name}: {text!r} is not the number of a party, such as \"9999\"") from error


_MYSQL_FORM = "is not of the form mysql://user:password@host:3306/name"


def _mysql_server(url: str, name: str) -> MysqlServer:
    """Raises BadSettings, which does not quote the URL: there is a password in it."""
    try:
        parts = urlsplit(url)
        port = parts.port or 3306
    except ValueError as error:
        raise BadSettings(f"{name}: {_MYSQL_FORM}; other characters in user or password are written %40") from error
    db = unquote(parts.path.strip("/"))
    if parts.scheme != "mysql" or not (parts.hostname and parts.username and db) or "/" in db:
        raise BadSettings(f"{name}: {_MYSQL_FORM}")
    return MysqlServer(parts.hostname, port, unquote(parts.username), unquote(parts.password or ""), db)


def _split(url: str, name: str) -> SplitResult:
    """The parts of a URL, with a port that is one. Raises BadSettings."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise BadSettings(f"{name}: {url!r}: {error}") from error
    return parts
