"""The frozen `Settings`, which `reader.py` reads once; they are passed to constructors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fate_flow.core.access.certified import CertifiedParty
from fate_flow.core.access.permission import PermissionRule
from fate_flow.core.access.site import SiteRule
from fate_flow.core.model.approval import ApprovalRule
from fate_flow.core.model.grammar import LAST
from fate_flow.core.model.modules import ProviderPlace
from fate_flow.core.model.program import ProgramRules
from fate_flow.core.model.resources import LOCAL
from fate_flow.core.model.spec import JobParameters
from fate_flow.core.quotas.queues import Queues
from fate_flow.core.quotas.quota import Quotas
from fate_flow.jobspec.ceilings import NO_CEILINGS, Ceilings
from fate_flow.settings.client_keys import ClientKeys
from fate_flow.settings.connectors import MysqlServer
from fate_flow.settings.engines.engine_settings import ONLY_DEFAULTS, EngineSettings
from fate_flow.settings.limits import Limits, Retention
from fate_flow.settings.logs import LogLimits
from fate_flow.settings.notifications import NotificationSettings
from fate_flow.settings.parties import Listen, PlainParties, Route
from fate_flow.settings.recording.record import RecordSettings
from fate_flow.settings.servers import OneOfServers
from fate_flow.settings.traces import TraceSettings
from fate_flow.settings.worker_limits import WorkerLimits
from fate_flow.settings.worker_listen import WorkerListen

PART = ".part"
"""The suffix of a file in `uploads_dir` during its transfer."""


def _only_local() -> Mapping[str, EngineSettings]:
    return {LOCAL: ONLY_DEFAULTS}


@dataclass(frozen=True)
class Settings:
    """The configuration of one party's server."""

    party_id: str
    home: Path
    host: str = "127.0.0.1"
    http_port: int = 9380
    worker_port: int = 0                  # 0: any free port
    worker_listen: WorkerListen | None = None      # where workers on other hosts connect; None: there are none
    http_threads: int = 32
    http_workers: int = 1
    worker_threads: int = 32
    insecure_listen: bool = False
    allowed_hosts: frozenset[str] = frozenset()    # names of this server, besides IP addresses and this machine's
    client_keys: ClientKeys | None = None    # None: clients need not sign, or the keys are not made yet
    makes_client_keys: bool = False       # the next start makes a file with them in the home (`client_keys.py`)
    site: SiteRule = field(default_factory=SiteRule)
    site_key_file: Path = Path()          # the file of this party's private key; empty: below the home
    parties_listen: Listen | None = None  # the listener for other parties alone; None: they use http_port
    connected_by: str = ""                # a key, with its value, that leads to other machines; empty: there is none
    parties_dial: bool = False            # this party has no port for others: it keeps connections to them open
    parties_address: str = ""             # https URL under which others reach it; empty: nobody can be invited
    parties_behind_proxy: Listen | None = None     # where a proxy that ends TLS passes their requests on
    parties_certificate: Path | None = None        # what an authority of the company has made of the own tls key
    certified_parties: Mapping[str, CertifiedParty] = field(default_factory=dict)    # who may show such certificates
    plain_parties: PlainParties | None = None      # peers that speak plain v1, and the listener that lets them in
    database_url: str = ""                # empty: SQLite in the home folder
    one_of: OneOfServers | None = None    # of several servers of the party; None: it has no other one
    engines: Mapping[str, EngineSettings] = field(default_factory=_only_local)   # jobs reserve on the first
    queues: Queues = field(default_factory=Queues)
    routes: Mapping[str, Route] = field(default_factory=dict)
    data_roots: tuple[Path, ...] = ()     # folders of files that an upload or download may name
    duplicate_ids: str = LAST             # one of DUPLICATE_IDS; the default for uploads
    log_dir: Path = Path("logs")
    log_level: str = "DEBUG"
    log_sql: bool = True
    log_limits: LogLimits = field(default_factory=LogLimits)
    defaults: JobParameters = field(default_factory=JobParameters)
    limits: Limits = field(default_factory=Limits)
    retention: Retention = field(default_factory=Retention)
    ceilings: Ceilings = NO_CEILINGS
    quotas: Quotas = field(default_factory=Quotas)
    worker_limits: WorkerLimits = field(default_factory=WorkerLimits)
    commands: ProgramRules = field(default_factory=ProgramRules)
    approval: ApprovalRule = field(default_factory=ApprovalRule)
    notifications: NotificationSettings = field(default_factory=NotificationSettings)
    permission: PermissionRule = field(default_factory=PermissionRule)
    traces: TraceSettings = field(default_factory=TraceSettings)
    recording: RecordSettings = field(default_factory=RecordSettings)
    connectors: Mapping[str, MysqlServer] = field(default_factory=dict)    # by the name that clients use
    providers: Mapping[str, ProviderPlace] = field(default_factory=dict)   # besides those of this package, by name
    conf_path: Path = field(default=Path(), compare=False)     # the file of the settings; empty: none

    @property
    def clients_sign(self) -> bool:
        """Return whether clients have to sign their requests once the server runs."""
        return self.client_keys is not None or self.makes_client_keys

    @property
    def shared(self) -> Path:
        """Return the folder with all that belongs to the party, and not to one of its servers."""
        return self.one_of.shared_home if self.one_of is not None else self.home

    @property
    def jobs_dir(self) -> Path:
        return self.shared / "jobs"

    @property
    def data_dir(self) -> Path:
        return self.shared / "data"

    @property
    def spool_dir(self) -> Path:
        return self.shared / "spool"

    @property
    def providers_dir(self) -> Path:
        """Return the folder with what providers said of their components."""
        return self.home / "providers"

    @property
    def models_dir(self) -> Path:
        """Return the folder of the store of models."""
        return self.shared / "models"

    @property
    def uploads_dir(self) -> Path:
        return self.shared / "uploads"

    @property
    def parties_socket(self) -> Path:
        """Return the Unix socket at which the gateway passes on requests of other parties."""
        return self.run_dir / "parties.sock"

    @property
    def workers_socket(self) -> Path:
        """Return the Unix socket at which requests of workers on other hosts are passed on."""
        return self.run_dir / "workers.sock"

    @property
    def has_gateway(self) -> bool:
        """Return whether other parties reach this one through a gateway of its own, or it dials them."""
        listeners = (self.parties_listen, self.plain_parties, self.parties_behind_proxy)
        return self.parties_dial or any(one is not None for one in listeners)

    def why_no_stream(self, party_id: str) -> str:
        """Return why this server cannot open streams to another party; empty if it can, as far as is known here."""
        route = self.routes.get(party_id)
        if route is None:
            return f"party {party_id} has no route here"
        if route.is_dialed and self.parties_listen is None:
            return f"party {party_id} dials, and this server has no port for it (parties.listen)"
        return ""

    @property
    def measures_dir(self) -> Path:
        """Return the folder with the counts of each process."""
        return self.run_dir / "measures"

    @property
    def streams_dir(self) -> Path:
        """Return the folder with a file for each attempt whose workers may have streams now."""
        return self.run_dir / "streams"

    @property
    def streams_socket(self) -> Path:
        """Return the Unix socket at which the gateway hears that this folder has changed."""
        return self.run_dir / "streams.sock"

    @property
    def dialed_socket(self) -> Path:
        """Return the Unix socket at which the gateway has connections of parties that dial this one."""
        return self.run_dir / "dialed.sock"

    @property
    def alive_file(self) -> Path:
        """Return the file that the scheduler rewrites every few seconds."""
        return self.run_dir / "alive"

    @property
    def server_log_dir(self) -> Path:
        """Return the folder with the folder of this server's own logs; `log_dir` has those of jobs."""
        return self.log_dir if self.one_of is None else self.home / "logs"

    @property
    def shared_run_dir(self) -> Path:
        """Return the folder of what all servers of the party have to know of each other."""
        return self.shared / "run"

    @property
    def lease_file(self) -> Path:
        """Return the file that runners watch: it is rewritten every few seconds while a server of the party lives."""
        return self.shared_run_dir / "alive"

    @property
    def run_dir(self) -> Path:
        return self.home / "run"

    @property
    def private_key(self) -> Path:
        """Return the file of the message key, with which this party signs. Older releases named it site.pem."""
        if self.site_key_file != Path():
            return self.site_key_file
        old = self.keys_dir / "site.pem"
        return old if old.exists() else self.keys_dir / "message.pem"

    @property
    def keys_dir(self) -> Path:
        return self.shared / "keys"

    @property
    def invitations_dir(self) -> Path:
        return self.keys_dir / "invitations"

    @property
    def url(self) -> str:
        """Return the URL of this party's own server."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host  # noqa: S104
        return f"http://{host}:{self.http_port}"
