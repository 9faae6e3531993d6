"""A fresh cluster for each measurement, made by `bin/cluster` and always taken down, and the toy job to put on it."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import requests
import yaml
from requests.auth import AuthBase

from fate_flow.cli.flow.toy import toy_job
from tests.kit.signing import signature_of_clients

CHECKOUT = Path(__file__).resolve().parents[2]
ROOT = CHECKOUT / ".cache" / "bench"
BASE_PORT = 23_380
GUEST, HOST, THIRD = "9999", "10000", "10001"
TASK = "secure_add_example_0"
FINAL = ("success", "failed", "canceled", "timeout")
BUSY_PAUSE_SECONDS = 0.2


class BenchFailed(Exception):
    """What was measured is not what was meant to be measured."""


@dataclass(frozen=True)
class Server:
    """One party of the cluster."""

    party_id: str
    url: str
    home: Path
    pid: int

    @cached_property
    def auth(self) -> AuthBase | None:
        """What signs the requests of its clients."""
        return signature_of_clients(self.home)

    @property
    def ports(self) -> tuple[int, int]:
        """Where clients and other parties, and where workers are answered."""
        worker_url = json.loads((self.home / "run" / "server.json").read_text())["worker_url"]
        return int(self.url.rsplit(":", 1)[1]), int(worker_url.rsplit(":", 1)[1])

    def rows(self, statement: str, *values: object) -> list[sqlite3.Row]:
        """What the database says; it is opened read-only and no lock is held."""
        uri = f"{(self.home / 'fate_flow.sqlite').as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=30, isolation_level=None)) as database:
            database.row_factory = sqlite3.Row
            return database.execute(statement, values).fetchall()

    def ask(self, path: str, body: Mapping[str, Any]) -> Any:
        """What the API answers as `data`. Raises BenchFailed if it refuses."""
        answer = requests.post(f"{self.url}/v1/{path}", json=body, auth=self.auth, timeout=60).json()
        if answer["retcode"]:
            raise BenchFailed(f"{path}: {answer['retcode']} {answer['retmsg']}")
        return answer["data"]

    def number(self, statement: str, *values: object) -> int:
        return int(self.rows(statement, *values)[0][0] or 0)


Servers = dict[str, Server]

FULL = {"quotas": {"default": {"cores_share": 1.0}}}
"""An overlay: one party may fill the server of another one."""


@contextmanager
def fresh_cluster(
    name: str, party_ids: Sequence[str] = (GUEST, HOST), cores: int = 20, database: str = "",
    base_port: int = BASE_PORT, over_tls: bool = False, overlay: Mapping[str, Any] | None = None,
    checkout: Path = CHECKOUT,
) -> Iterator[Servers]:
    """The servers by party, on SQLite or on this URL; afterwards none of their processes and files is left.

    `over_tls`: the parties know each other by keys. `overlay` goes over every configuration. `checkout`: the tree whose
    servers run."""
    folder = ROOT / f"{name}.{time.time_ns()}"
    folder.mkdir(parents=True)
    for party_id in party_ids if overlay else ():
        conf = folder / party_id / "conf"
        conf.mkdir(parents=True)
        (conf / "local.service_conf.yaml").write_text(yaml.safe_dump(dict(overlay or {})), encoding="utf-8")
    options = [part for party_id in party_ids for part in ("--party", party_id)]
    options += ["--database", database] if database else []
    options += [] if over_tls else ["--plain"]
    try:
        document = json.loads(
            _command(checkout, "up", folder, *options, "--cores", str(cores), "--base-port", str(base_port))
        )
        yield {one["party_id"]: _server(one) for one in document["parties"]}
    finally:
        _command(checkout, "down", folder)
        shutil.rmtree(folder, ignore_errors=True)


def _server(document: dict[str, Any]) -> Server:
    return Server(document["party_id"], document["url"], Path(document["home"]), int(document["pid"]))


def _command(checkout: Path, action: str, folder: Path, *arguments: str) -> str:
    program = [str(checkout / "bin" / "cluster"), action, "--dir", str(folder), *arguments]
    done = subprocess.run(program, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchFailed(f"bin/cluster {action} ended with {done.returncode}: {done.stderr}")
    return done.stdout


@dataclass(frozen=True)
class Submitted:
    """One submit as the client saw it; seconds since the epoch."""

    job_id: str
    asked: float
    answered: float
    refusals: int        # answers 503 before it was taken


class Client:
    """Submits one document again and again; each thread has a kept-alive connection of its own."""

    def __init__(self, guest: Server, host: Server, document: Mapping[str, Any] | None = None) -> None:
        """`document`: of another job than the toy."""
        self._url, self._auth = f"{guest.url}/v1/job/submit", guest.auth
        self._job = document or toy_job(guest.party_id, host.party_id, 1)
        self._local = threading.local()

    def submit(self) -> Submitted:
        """Raises BenchFailed when the server refuses for good."""
        asked = time.time()
        refusals = 0
        while True:
            response = self._session().post(self._url, json=self._job, timeout=60)
            if response.status_code != 503:
                break
            refusals += 1
            time.sleep(BUSY_PAUSE_SECONDS)
        document = response.json()
        if document["retcode"]:
            raise BenchFailed(f"submit: {document['retcode']} {document['retmsg']}")
        return Submitted(str(document["jobId"]), asked, time.time(), refusals)

    def _session(self) -> requests.Session:
        if not hasattr(self._local, "session"):
            self._local.session = requests.Session()
            self._local.session.trust_env = False
            self._local.session.auth = self._auth
        session: requests.Session = self._local.session
        return session
