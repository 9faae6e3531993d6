"""Servers of parties: started by the program behind `bin/cluster`, looked at from outside.

A test talks to a server as its users do, over HTTP or with `flow`, and looks at its database and its folders to see
what is left. `Cluster.held` keeps a job where it is without any pause in it: with the spawner of one party stopped,
that party accepts the order for a worker and none comes up, while the other parties' workers wait for it.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
import pymysql
import pytest
import requests
import yaml

from fate_flow.cli.server import service
from fate_flow.components.tables.table_uri import format_uri, parse_uri
from fate_flow.engines.local.engine import living_workers
from fate_flow.engines.local.spawner import SPAWNER
from fate_flow.engines.local.worker import RUNNER, Started
from tests.kit.servers.decisions import decided
from tests.kit.servers.home_files import tracebacks_below
from tests.kit.servers.mariadb import open_mariadb
from tests.kit.servers.warm import EXECUTED_SPAWNER, WARM
from tests.kit.signing import signature_of_clients
from tests.kit.waiting import SECONDS, eventually

GUEST, HOST, OTHER = "9999", "10000", "10001"
EVERYBODY = {"guest": [GUEST], "host": [HOST, OTHER]}
CORES = 20
_RUN, _PROCESS = os.getppid(), int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
BASE_PORT = 11_000 + (_RUN % 10 * 5 + _PROCESS % 5) * 320     # those of a killed server stay free until its start
OVER = ("success", "failed", "canceled", "timeout")
FREE_CORES = "SELECT f_remaining_cores AS free FROM t_engine_registry"
ROWS = ("t_job", "t_seat", "t_task", "t_worker", "t_outbox", "t_submission")
FOLDERS = ("jobs", "data", "uploads", "spool/sessions", "spool/tokens", "spool/trash")

Row = dict[str, Any]
Answer = dict[str, Any]


# ---------------------------------------------------------------------- one server


@dataclass
class PartyServer:
    """One party's server, as its users, its operator and other parties see it."""

    party_id: str
    url: str
    home: Path
    database: str = ""                # URL; empty: SQLite in the home
    _session: requests.Session = field(default_factory=requests.Session)
    _quiet: dict[str, int] = field(default_factory=dict)
    """The jobs of whose workers none ran any more when it was looked, and how many workers they had had."""

    def __post_init__(self) -> None:
        self._session.auth = signature_of_clients(self.home)

    def post(self, path: str, body: object = None, *, headers: Mapping[str, str] | None = None) -> Answer:
        """The envelope of a v1 route."""
        response = self.raw("POST", path, json=body, headers=headers)
        answer = response.json()
        assert isinstance(answer, dict), answer
        return answer

    def raw(self, method: str, path: str, *, api: str = "v1", **content: Any) -> requests.Response:
        return self._session.request(method, f"{self.url}/{api}/{path}", timeout=60, **content)

    def ask(self, path: str, body: object = None) -> Any:
        """The data of an answer that has to be good."""
        answer = self.post(path, body)
        assert answer["retcode"] == 0, answer
        return answer.get("data")

    def from_party(self, caller: str, endpoint: str, body: object = None) -> Answer:
        """What this server answers when a server that says it is `caller` commands it."""
        return self.post(endpoint, body if body is not None else {}, headers={"SRC-PARTY-ID": caller})

    # what is in it

    def rows(self, statement: str, *values: object) -> list[Row]:
        """What this SELECT finds in the party's own database."""
        with self._reading() as rows:
            return rows(statement, *values)

    @contextmanager
    def _reading(self) -> Iterator[Callable[..., list[Row]]]:
        """`rows` on one connection: SQLite reads the whole schema for each."""
        if self.database:
            def of_mariadb(statement: str, *values: object) -> list[Row]:
                with self._mariadb.cursor() as cursor:
                    cursor.execute(statement.replace("?", "%s"), values)
                    return list(cursor.fetchall())

            yield of_mariadb
            return
        path = f"{(self.home / 'fate_flow.sqlite').as_uri()}?mode=ro"
        with closing(sqlite3.connect(path, uri=True, timeout=60)) as connection:
            connection.row_factory = sqlite3.Row
            yield lambda statement, *values: [dict(row) for row in connection.execute(statement, values)]

    def write(self, statement: str, *values: object) -> None:
        """Change its SQLite database behind its back, as if time had passed."""
        with closing(sqlite3.connect(self.home / "fate_flow.sqlite", timeout=60)) as connection, connection:
            connection.execute(statement, values)

    @cached_property
    def _mariadb(self) -> pymysql.Connection[pymysql.cursors.DictCursor]:
        return open_mariadb(self.database)

    def job(self, job_id: str) -> Row:
        """The row of a job, where the party has one seat in it."""
        rows = self.rows("SELECT * FROM t_job WHERE f_job_id = ?", job_id)
        assert len(rows) == 1, rows
        return rows[0]

    def tasks(self, job_id: str, component: str = "") -> list[Row]:
        """The rows of this party's own share, by component and version."""
        found = self.rows(
            "SELECT * FROM t_task WHERE f_job_id = ? AND f_run_on_this_party = 1"
            " ORDER BY f_component_name, f_task_version", job_id,
        )
        return [row for row in found if component in ("", row["f_component_name"])]

    @property
    def free_cores(self) -> int:
        return int(self.rows(FREE_CORES)[0]["free"])

    def log(self, *parts: str) -> list[str]:
        return (self.home / "logs").joinpath(*parts).read_text(encoding="utf-8").splitlines()

    def files(self, folders: Sequence[str] = FOLDERS) -> set[str]:
        """What stands in the folders that jobs write to."""
        found: set[str] = set()
        left = [f"{self.home}/{top}" for top in folders]
        while left:      # os.walk takes three times as long, and the servers of a session collect thousands of files
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(left.pop()) as entries:    # gone meanwhile
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
                    else:
                        found.add(entry.path[len(str(self.home)) + 1:])
        return found

    def _folders(self) -> set[str]:
        """The jobs with a folder; that of a refused job goes after its rows."""
        return {path.name for path in (self.home / "jobs").iterdir()}

    def traces(self) -> dict[str, object]:
        """All that a refused request must not change."""
        with self._reading() as rows:
            counts = {table: rows(f"SELECT count(*) AS n FROM {table}")[0]["n"] for table in ROWS}
            tables = rows("SELECT f_namespace, f_name FROM t_storage_table_meta")
            free = rows(FREE_CORES)[0]["free"]
        names = {(row["f_namespace"], row["f_name"]) for row in tables}
        files = self.files()
        by_folder = {folder: {path for path in files if path.startswith(folder)} for folder in FOLDERS}
        return {**counts, **by_folder, "tables": names, "free cores": free}

    def tracebacks(self) -> list[str]:
        """What a defect leaves in the server's own logs. A deadlock that MariaDB resolved is a warning, and none."""
        return tracebacks_below(self.home)

    def unfinished(self) -> list[str]:
        """What a party that has nothing to do does not have.

        The servers of a session collect jobs: the folder of a job is looked at last, and once for each of its workers.
        """
        with self._reading() as rows:
            found = [f"job {row}" for row in rows(
                "SELECT f_job_id, f_status, f_resource_in_use, f_ready_signal FROM t_job"
                " WHERE f_status NOT IN (?, ?, ?, ?) OR f_resource_in_use <> 0 OR f_ready_signal <> 0", *OVER,
            )]
            found += [f"outbox {row}" for row in rows("SELECT * FROM t_outbox")]
            found += [f"worker {row}" for row in rows("SELECT * FROM t_worker WHERE f_status <> 'exited'")]
            free = int(rows(FREE_CORES)[0]["free"])
            known = {row["f_job_id"] for row in rows("SELECT DISTINCT f_job_id FROM t_job")}
            workers = {row["f_job_id"]: row["n"] for row in rows(
                "SELECT f_job_id, count(*) AS n FROM t_worker GROUP BY f_job_id"
            )}
        found += sorted(self.files([one for one in FOLDERS if one.startswith(("spool", "uploads"))]))
        if free != CORES:
            found.append(f"{free} of {CORES} cores free")
        if not found:
            folders = self._folders()
            found = [f"folder of {one}, which is not here" for one in sorted(folders - known)]
            for job_id in sorted(folders & known):
                count = int(workers.get(job_id, 0))
                if self._quiet.get(job_id) != count:
                    living = living_workers(self.home / "jobs" / job_id)
                    found += [f"process in {folder}" for folder in living]
                    self._quiet |= {} if living else {job_id: count}
        return [f"party {self.party_id}: {one}" for one in found]

    # how it is used

    def flow(self, *arguments: object, code: int = 0, cwd: Path | None = None) -> Printed:
        """`flow` at this server, in a process of its own, as a user has it."""
        argv = ("--server", self.url, *map(str, arguments))
        done = decided(
            lambda: WARM.run("flow", *argv, cwd=cwd or Path.cwd()), lambda done: done.out if done.code else ""
        )
        assert done.code == code, f"exit code {done.code}\n{done.out}\n{done.err}"
        assert "Traceback" not in done.err
        return Printed(done.out, done.err)

    def submit(self, document: Mapping[str, Any], **headers: str) -> Answer:
        return decided(lambda: self.post("job/submit", document, headers=headers), lambda said: str(said["retmsg"]))

    def upload(self, name: str, text: str, **conf: object) -> Answer:
        """A CSV from the client's machine becomes table `name` in namespace `it`."""
        wanted = {
            "file": f"{name}.csv", "head": 1, "partition": 2, "id_delimiter": ",", "namespace": "it",
            "table_name": name, "task_cores": 1, **conf,
        }
        query = requests.utils.quote(json.dumps(wanted), safe="")
        response = self.raw("POST", f"data/upload?{query}", files={"file": (f"{name}.csv", text)})
        answer = response.json()
        assert isinstance(answer, dict)
        return answer

    def has_table(self, name: str, text: str, **conf: object) -> None:
        """Upload a table and wait until it is there."""
        answer = self.upload(name, text, drop=1, **conf)
        assert answer["retcode"] == 0, answer
        self.wait(answer["jobId"], "success")

    def has_lost_table(self, name: str) -> None:
        """A table whose file has gone: a job that reads it is accepted, and fails."""
        self.has_table(name, csv_text(["id", "x"], {"a": [1]}))
        parse_uri(format_uri(self.home / "data", "it", name)).path.unlink()

    def metrics(self, job_id: str, component: str) -> dict[str, str]:
        """What a component measured at this party, by key. A party may hear of a job's success after another one."""
        self.wait(job_id)
        row = self.tasks(job_id, component)[0]
        place = {"job_id": job_id, "role": row["f_role"], "party_id": self.party_id, "component_name": component}
        found = self.ask("tracking/component/metric/all", place)
        return {key: str(value) for names in found.values() for one in names.values() for key, value in one["data"]}

    def wait(self, job_id: str, *statuses: str, seconds: float = SECONDS) -> Row:
        """The row of the job once it has one of these statuses; once it is over when none is given."""
        wanted = statuses or OVER

        def state() -> str:
            return f"job {job_id} {' or '.join(wanted)}: {self.post('job/explain', {'job_id': job_id})}"

        with self._reading() as read:
            def look() -> Row | None:
                row = next(iter(read("SELECT * FROM t_job WHERE f_job_id = ?", job_id)), None)
                if row and row["f_status"] in OVER and row["f_status"] not in wanted:
                    pytest.fail(f"job {job_id} is {row['f_status']}: {row['f_reason']} {row['f_message']}")
                return row if row and row["f_status"] in wanted else None

            return eventually(look, state, seconds)

    def worker_of(self, job_id: str, component: str) -> Started:
        """The worker that runs, or ran, this party's share; waits for it."""
        jobs = self.home / "jobs" / job_id

        def look() -> Started | None:
            found = sorted(jobs.glob(f"*/*/{component}/*/*/task_executor/*/{RUNNER}"))
            return Started.read(found[0].parent) if found else None

        return eventually(look, f"a worker of {component} at party {self.party_id}")


@dataclass(frozen=True)
class Printed:
    """What a command printed."""

    out: str
    err: str

    @property
    def document(self) -> Answer:
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found

    @property
    def job_id(self) -> str:
        return str(self.document["jobId"])


# ---------------------------------------------------------------------- several servers


@dataclass
class Cluster:
    """Parties of one `bin/cluster`; a test may kill a party as long as it starts it again."""

    root: Path
    parties: dict[str, PartyServer]
    has_many_jobs: bool = False         # so that their spawners are executed

    @property
    def guest(self) -> PartyServer:
        return self.parties[GUEST]

    @property
    def host(self) -> PartyServer:
        return self.parties[HOST]

    def has_table(self, name: str) -> None:
        """A table with a column `x` in namespace `it`, at every party that has none of this name."""
        for party in self.parties.values():
            if not party.ask("table/table_info", {"namespace": "it", "table_name": name})["exist"]:
                party.has_table(name, csv_text(["id", "x"], {"a": [1], "b": [2]}))

    def submit(self, document: Mapping[str, Any], *, at: str = GUEST, **headers: str) -> str:
        """The id of a job that every party has accepted; `at`: its initiator."""
        answer = self.parties[at].submit(document, **headers)
        assert answer["retcode"] == 0, answer
        return str(answer["jobId"])

    def run(self, document: Mapping[str, Any]) -> str:
        """The id of a job that has succeeded at every party of it."""
        job_id = self.submit(document)
        self.wait(job_id, "success")
        return job_id

    def wait(self, job_id: str, *statuses: str, seconds: float = SECONDS) -> dict[str, Row]:
        """The rows of all parties of the job, once each has one of these statuses."""
        initiator = self.guest.wait(job_id, *statuses, seconds=seconds)
        seats = {party for ids in json.loads(initiator["f_roles"]).values() for party in map(str, ids)}
        return {party: self.parties[party].wait(job_id, *statuses, seconds=seconds) for party in sorted(seats)}

    def check_idle(self) -> None:
        """Everything that was begun is over, everywhere; nothing is held, kept or still to be said."""
        def unfinished() -> list[str]:
            return [one for party in self.parties.values() for one in party.unfinished()]

        eventually(lambda: not unfinished(), lambda: "\n".join(["idle servers", *unfinished()]))
        found = [one for party in self.parties.values() for one in party.tracebacks()]
        assert not found, "\n\n".join(found)

    @contextmanager
    def unchanged(self, *, besides: Collection[str] = ()) -> Iterator[None]:
        """What happens inside leaves nothing behind at any party: no row, no file, no core."""
        self.check_idle()
        before = {name: party.traces() for name, party in self.parties.items()}
        yield

        def changes() -> list[str]:
            return [
                f"party {name}: {key}: {before[name][key]} -> {value}"
                for name, party in self.parties.items()
                for key, value in party.traces().items()
                if before[name][key] != value and key not in besides
            ]

        eventually(lambda: not changes(), lambda: "\n".join(["nothing left behind", *changes()]))

    @contextmanager
    def held(self, party_id: str) -> Iterator[None]:
        """No worker comes up at this party meanwhile; those that are ordered do afterwards."""
        running = service.find(self.parties[party_id].home)
        assert running is not None
        server = psutil.Process(running.pid)
        # A server answers before its spawner, a Python of its own, has its name.
        [spawner] = eventually(lambda: [one for one in server.children() if one.name() == SPAWNER], "the spawner")
        spawner.suspend()
        try:
            yield
        finally:
            with suppress(psutil.NoSuchProcess):
                spawner.resume()

    def kill(self, party_id: str) -> None:
        """kill -9 of the server, all its processes; its workers live on."""
        bin_cluster("kill", self.root, "--party", party_id)

    def start(self, party_id: str) -> None:
        bin_cluster("start", self.root, "--party", party_id, has_many_jobs=self.has_many_jobs)


def bin_cluster(verb: str, root: Path, *arguments: str, has_many_jobs: bool = False) -> dict[str, Row]:
    """The parties that the command prints, by their ids."""
    done = WARM.run("bin/cluster", verb, "--dir", str(root), *arguments, more=EXECUTED_SPAWNER if has_many_jobs else {})
    assert done.code == 0, done.err
    return {party["party_id"]: party for party in json.loads(done.out)["parties"]}


@contextmanager
def running_cluster(
    root: Path, party_ids: Sequence[str], database: str = "", base_port: int = BASE_PORT,
    overlays: Mapping[str, Any] | None = None, over_tls: bool = False, has_many_jobs: bool = False,
) -> Iterator[Cluster]:
    """Servers that are taken down whatever happens, with all that they started; `overlays` go over their confs."""
    for party_id in party_ids:
        # One party may fill another one's server, for tests of queues.
        overlay = {"quotas": {"default": {"cores_share": 1.0}}, **(overlays or {}).get(party_id, {})}
        conf = root / party_id / "conf"
        conf.mkdir(parents=True)
        (conf / "local.service_conf.yaml").write_text(yaml.safe_dump(overlay), encoding="utf-8")
        (conf / "local.service_conf.yaml").chmod(0o600)
    # A test of TLS makes keys itself, in an overlay; the others ask for no gateways, which take time to start.
    options = [*([] if over_tls else ["--plain"]), "--cores", str(CORES), "--base-port", str(base_port)]
    options += ["--database", database] if database else []
    parties = [word for party_id in party_ids for word in ("--party", party_id)]
    try:
        found = bin_cluster("up", root, *parties, *options, has_many_jobs=has_many_jobs)
        servers = {
            name: PartyServer(name, party["url"], Path(party["home"]), database.replace("{party_id}", name))
            for name, party in found.items()
        }
        yield Cluster(root, servers, has_many_jobs)
    finally:
        if (root / "cluster.json").exists():
            bin_cluster("kill", root, *parties)     # a server that is to end waits for kept-alive connections
            bin_cluster("down", root)
        left = processes_of(root)
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
    assert left == [], left
    if not os.environ.get("FATE_FLOW_TEST_KEEP"):     # thousands of files, which would be left to the end of the run
        shutil.rmtree(root, ignore_errors=True)


def processes_of(root: Path) -> list[psutil.Process]:
    """Everything that was started for this folder: its name is in every command line."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and str(root) in " ".join(process.cmdline()):
                found.append(process)
    return found


# ---------------------------------------------------------------------- documents


def job_of(
    components: Mapping[str, Any],
    roles: Mapping[str, Sequence[str]],
    *,
    common: Mapping[str, Any] | None = None,
    by_role: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What is posted to `job/submit`; the guest is the initiator."""
    return {
        "job_dsl": {"components": deepcopy(dict(components))},
        "job_runtime_conf": {
            "dsl_version": 2,
            "initiator": {"role": "guest", "party_id": int(roles["guest"][0])},
            "role": {role: [int(one) for one in ids] for role, ids in roles.items()},
            "job_parameters": {"common": {"task_cores": 2, **(parameters or {})}},
            "component_parameters": {"common": dict(common or {}), "role": dict(by_role or {})},
        },
    }


def toy(*, data_num: int = 1000, host: str = HOST, **parameters: Any) -> dict[str, Any]:
    """One task at a guest and a host; with the host held, it runs until somebody ends it."""
    return job_of(
        {"toy_0": {"module": "SecureAddExample"}}, {"guest": [GUEST], "host": [host]},
        common={"toy_0": {"data_num": data_num}}, parameters=parameters,
    )


def taking_from(*sources: str) -> dict[str, Any]:
    return {"data": {"data": list(sources)}}


def csv_text(header: Sequence[str], rows: Mapping[str, Sequence[object]]) -> str:
    lines = [",".join(header), *(",".join(map(str, (sid, *values))) for sid, values in rows.items())]
    return "\n".join(lines) + "\n"


READER = {"module": "Reader", "output": {"data": ["raw"]}}


def summing(source: str) -> dict[str, Any]:
    return {"module": "SecureSum", "input": taking_from(source), "output": {"data": ["total"]}}


def table_named(name: str) -> dict[str, Any]:
    return {"table": {"namespace": "it", "name": name}}
