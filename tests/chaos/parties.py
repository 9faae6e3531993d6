"""The servers that are to suffer: their homes, databases, processes, and the ways between them."""

from __future__ import annotations

import json
import secrets
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pymysql
import requests
import yaml

from fate_flow.cli.server import service
from fate_flow.cli.server.cluster_plan import Cluster
from tests.kit.servers.warm import WARM
from tests.kit.signing import signature_of_clients

CHECKOUT = Path(__file__).resolve().parents[2]
CORES, MEMORY = 8, 1024
LOOK_SECONDS = 0.05
ANSWER_SECONDS = 40.0            # more than a server lets a submit wait
DATABASE_ERRORS = (sqlite3.Error, pymysql.MySQLError, OSError)

Row = dict[str, Any]


class ChaosFailed(Exception):
    """The run could not be made as asked."""


@dataclass
class Party:
    """One server, as its clients and its operator reach it."""

    party_id: str
    url: str
    home: Path
    conf: Path
    database: str                        # URL; empty: SQLite in the home
    _local: threading.local = field(default_factory=threading.local)

    def post(self, path: str, body: object, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The envelope that a v1 route answers. Raises requests.RequestException, ValueError for no JSON."""
        session = getattr(self._local, "session", None)
        if session is None:
            session = self._local.session = requests.Session()
            session.trust_env = False
            session.auth = signature_of_clients(self.home)
        answer = session.post(f"{self.url}/v1/{path}", json=body, timeout=ANSWER_SECONDS, headers=headers).json()
        if not isinstance(answer, dict):
            raise ValueError(f"party {self.party_id}: {path} answered {answer!r}")
        return answer

    def upload(self, name: str, text: str) -> str:
        """A CSV becomes table `name` in namespace `chaos`; the id of the job that makes it one."""
        wanted = {
            "file": f"{name}.csv", "head": 1, "partition": 2, "id_delimiter": ",", "namespace": "chaos",
            "table_name": name, "task_cores": 1,
        }
        query = quote(json.dumps(wanted), safe="")
        files = {"file": (f"{name}.csv", text)}
        auth = signature_of_clients(self.home)
        answer = requests.post(f"{self.url}/v1/data/upload?{query}", files=files, timeout=60, auth=auth).json()
        if answer["retcode"]:
            raise ChaosFailed(f"party {self.party_id}: upload: {answer}")
        return str(answer["jobId"])

    def rows(self, statement: str, *values: object) -> list[Row]:
        """What this SELECT finds in the party's database. Raises one of DATABASE_ERRORS."""
        with self.reading() as rows:
            return rows(statement, *values)

    @contextmanager
    def reading(self) -> Iterator[Callable[..., list[Row]]]:
        """`rows` on one connection: SQLite reads the whole schema for each. Raises one of DATABASE_ERRORS."""
        if self.database:
            with closing(_mariadb(self.database)) as remote, remote.cursor() as cursor:
                def of_mariadb(statement: str, *values: object) -> list[Row]:
                    cursor.execute(statement.replace("?", "%s"), values)
                    return list(cursor.fetchall())

                yield of_mariadb
            return
        path = f"{(self.home / 'fate_flow.sqlite').as_uri()}?mode=ro"
        with closing(sqlite3.connect(path, uri=True, timeout=60)) as connection:
            connection.row_factory = sqlite3.Row
            yield lambda statement, *values: [dict(row) for row in connection.execute(statement, values)]

    def start(self) -> None:
        """Returns when the server answers. Raises ChaosFailed."""
        _warm("bin/service.sh", "start", "-c", str(self.conf))

    def kill(self) -> bool:
        """kill -9 of every process of the server; its workers live on."""
        return service.kill(self.home)

    @property
    def is_up(self) -> bool:
        return service.find(self.home) is not None


def _mariadb(url: str) -> pymysql.Connection[pymysql.cursors.DictCursor]:
    address = urlsplit(url)
    return pymysql.connect(
        host=address.hostname, port=address.port or 3306, user=address.username, password=address.password or "",
        database=address.path.strip("/"), connect_timeout=5, read_timeout=20, autocommit=True,
        cursorclass=pymysql.cursors.DictCursor,
        ssl_disabled=True,      # or each connection would read all certificates of the system
    )


@contextmanager
def running_parties(
    root: Path, party_ids: Sequence[str], database: str = "", overlay: Mapping[str, Any] | None = None,
    routes: Mapping[str, Mapping[str, str]] | None = None,
) -> Iterator[dict[str, Party]]:
    """Servers that are ended whatever happens, with all that they started.

    `overlay` goes over every configuration, `routes` says by party where it finds the others."""
    for party_id in party_ids:
        over = dict(overlay or {})
        if routes:
            over["routes"] = {other: {"url": url} for other, url in routes[party_id].items()}
        path = root / party_id / "conf" / "local.service_conf.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(yaml.safe_dump(over), encoding="utf-8")
    base_port = 20_000 + secrets.randbelow(400) * 25       # below the ports that Linux hands out
    # Faults are injected into the messages between servers, which nobody could read over TLS.
    options = ["--plain", "--cores", str(CORES), "--memory", str(MEMORY), "--base-port", str(base_port)]
    options += ["--database", database] if database else []
    try:
        _warm("bin/cluster", "up", "--dir", str(root), *(f"--party={one}" for one in party_ids), *options)
        cluster = Cluster.read(root)
        assert cluster is not None
        yield {
            member.party_id: Party(
                member.party_id, member.url, cluster.home(member.party_id), cluster.conf_path(member.party_id),
                database.replace("{party_id}", member.party_id),
            )
            for member in cluster.members
        }
    finally:
        for party_id in party_ids:
            service.kill(root / party_id)
        if (root / "cluster.json").exists():
            _warm("bin/cluster", "down", "--dir", str(root))


class MariaDb:
    """A MariaDB server of our own, which may be killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def start(self) -> str:
        """Its URL, once it answers."""
        return str(json.loads(self._call("start"))["url"])

    def kill(self) -> None:
        self._call("kill")

    def _call(self, verb: str) -> str:
        return _command(str(CHECKOUT / "bin" / "_mariadb.py"), verb, "--dir", str(self._folder))


@contextmanager
def own_database(folder: Path, is_wanted: bool) -> Iterator[tuple[MariaDb | None, str]]:
    """A MariaDB server in this folder and its URL, ended whatever happens; neither when none is wanted."""
    if not is_wanted:
        yield None, ""
        return
    database = MariaDb(folder / "mariadb")
    try:
        yield database, database.start()
    finally:
        database.kill()


def _command(*arguments: str) -> str:
    """What a program of ours prints."""
    done = subprocess.run(
        [sys.executable, "-P", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180,
        check=False, start_new_session=True,
    )
    if done.returncode:
        raise ChaosFailed(f"{' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def _warm(*arguments: str) -> None:
    """Run a command of ours, without the time that its start takes."""
    done = WARM.run(*arguments)
    if done.code:
        raise ChaosFailed(f"{' '.join(arguments)}: {done.err.strip()}")


class Keeper:
    """Brings the server of a party back whenever it is gone, after the pause that its end asked for."""

    def __init__(self, party: Party) -> None:
        self._party = party
        self.not_before = 0.0            # on the monotonic clock
        self._is_ending = threading.Event()
        self.starts = 0
        self._thread = threading.Thread(target=self._keep, name=f"keeper-{party.party_id}")
        self._thread.start()

    def close(self) -> None:
        self._is_ending.set()
        self._thread.join()

    def _keep(self) -> None:
        while not self._is_ending.wait(LOOK_SECONDS):
            if time.monotonic() < self.not_before or self._party.is_up:
                continue
            try:
                self._party.start()
                self.starts += 1
            except ChaosFailed:
                # Killed while it began, or its database is away: the next round tries again.
                continue


def wait_until(look: Callable[[], bool], seconds: float) -> bool:
    """Whether it came true in that time."""
    deadline = time.monotonic() + seconds
    while not look():
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_SECONDS)
    return True
