"""(3) The start latency of (1) on a server with a long queue and a long history, beside the same without.

All stages of a run are measured on one cluster, so that they differ in nothing but the load: nothing, then 10,000
finished jobs, then also 1,000 jobs that wait for the cores of a third party. The finished jobs are copies of the rows
of a real one, at both parties. The waiting jobs are real; what holds the third party's cores is a job that
an initiator of another name has started there over the party API and that has no worker.
"""

from __future__ import annotations

import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

import requests

from fate_flow.cli.flow.toy import toy_job
from tests.bench.burst import submit_all
from tests.bench.cluster import FULL, GUEST, HOST, THIRD, BenchFailed, Client, Server, Servers, fresh_cluster
from tests.bench.latency import run_one_by_one, summary
from tests.bench.processes import CpuMeter

CORES = 20
HOLDER = "7777"                     # the name of the initiator that we are to the third party
HEARTBEAT_SECONDS = 10.0
COPIED_TABLES = ("t_job", "t_seat", "t_task", "t_worker", "t_submission", "t_tracking_metric", "t_component_summary")
COPIES_AT_ONCE = 500
WARM_UP = 3
SETTLE_SECONDS = 3.0
QUEUE_SECONDS = 600.0
_WAITING = "SELECT COUNT(*) FROM t_job WHERE f_status = 'waiting' AND f_blocked_on = ? AND f_ready_signal = 0"


def measure(jobs: int, waiting: int, finished: int) -> dict[str, Any]:
    with fresh_cluster("load", (GUEST, HOST, THIRD), CORES, overlay=FULL) as servers:
        client = Client(servers[GUEST], servers[HOST])
        stages = {"empty": stage(servers, client, jobs)}
        for party_id in (GUEST, HOST):
            copy_finished(servers[party_id], finished)
        stages["finished"] = stage(servers, client, jobs)
        with _cores_held(servers[THIRD]):
            begun = time.monotonic()
            submit_all(Client(servers[GUEST], servers[THIRD]), waiting)
            _await_queue(servers, waiting)
            queued_seconds = time.monotonic() - begun
            stages["finished and waiting"] = stage(servers, client, jobs)
            _check(servers, waiting, finished)
    return {
        "stages": stages,
        "ratio": ratio(stages, "finished and waiting", "start_ms"),
        "ratio_of_finished_alone": ratio(stages, "finished", "start_ms"),
        "ratio_until_success": ratio(stages, "finished and waiting", "success_ms"),
        "waiting": waiting,
        "finished": finished,
        "queued_per_s": round(waiting / queued_seconds, 1),
    }


def stage(servers: Servers, client: Client, jobs: int) -> dict[str, Any]:
    """The latency of so many jobs, one after the other, as the servers are now."""
    time.sleep(SETTLE_SECONDS)
    run_one_by_one(servers, client, WARM_UP)
    meter = CpuMeter(servers.values())
    done = run_one_by_one(servers, client, jobs)
    cpu = meter.read()
    scheduler = cpu.servers[GUEST]["scheduler"]
    return {
        **summary(done),
        "scheduler_percent_of_a_core": round(100 * scheduler / cpu.elapsed, 1),
        "others_percent": round(cpu.others_percent, 1),
        "start_ms_of_each": [job["RUNNING AT BOTH"] for job in done],
    }


def ratio(stages: Mapping[str, Any], one: str, what: str, to: str = "empty") -> float:
    """How many times slower one stage is than another, at the median."""
    return round(float(stages[one][what]["median"] / stages[to][what]["median"]), 3)


def _await_queue(servers: Servers, waiting: int) -> None:
    deadline = time.monotonic() + QUEUE_SECONDS
    while servers[GUEST].number(_WAITING, THIRD) < waiting:
        if time.monotonic() > deadline:
            raise BenchFailed(f"{servers[GUEST].number(_WAITING, THIRD)} of {waiting} jobs wait for party {THIRD}")
        time.sleep(0.25)


def _check(servers: Servers, waiting: int, finished: int) -> None:
    """The load was there until the end."""
    still = servers[GUEST].number("SELECT COUNT(*) FROM t_job WHERE f_status = 'waiting'")
    ended = servers[GUEST].number("SELECT COUNT(*) FROM t_job WHERE f_status = 'success'")
    if still != waiting or ended < finished:
        raise BenchFailed(f"{still} of {waiting} jobs wait in the end and {ended} of {finished} are finished")


# ------------------------------------------------------------------ finished jobs


def copy_finished(server: Server, count: int) -> None:
    """Put so many copies of a finished job into the database, each a second older than the one before."""
    path = server.home / "fate_flow.sqlite"
    with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as database:
        database.row_factory = sqlite3.Row
        job_id = database.execute("SELECT MIN(f_job_id) FROM t_job WHERE f_status = 'success'").fetchone()[0]
        original = {
            table: database.execute(f"SELECT * FROM {table} WHERE f_job_id = ?", (job_id,)).fetchall()
            for table in COPIED_TABLES
        }
        for begin in range(0, count, COPIES_AT_ONCE):
            database.execute("BEGIN IMMEDIATE")
            for number in range(begin, min(count, begin + COPIES_AT_ONCE)):
                _insert_copy(database, original, job_id, number)
            database.execute("COMMIT")
            time.sleep(0.05)    # the server writes too


def _insert_copy(
    database: sqlite3.Connection, original: Mapping[str, Sequence[sqlite3.Row]], job_id: str, number: int
) -> None:
    new_id = f"2020{number:0{len(job_id) - 4}d}"
    fresh: dict[str, str] = {}
    for table, rows in original.items():
        for row in rows:
            copied = copy_of(dict(row), job_id, new_id, (number + 1) * 1000, fresh)
            columns, marks = ", ".join(copied), ", ".join("?" * len(copied))
            database.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", tuple(copied.values()))


def copy_of(
    row: Mapping[str, Any], job_id: str, new_id: str, older_by: int, fresh: dict[str, str]
) -> dict[str, Any]:
    """The row as one of another job, so many milliseconds earlier; `fresh` keeps the new name of each worker."""
    copied = {}
    for column, value in row.items():
        if column == "f_id":
            continue
        if column == "f_worker_id" and value:
            value = fresh.setdefault(value, uuid.uuid4().hex)
        elif isinstance(value, str):
            value = value.replace(job_id, new_id)
        elif isinstance(value, int) and column.endswith("_time") and value:
            value -= older_by
        copied[column] = value
    return copied


# ------------------------------------------------------------------ the third party's cores


@contextmanager
def _cores_held(server: Server) -> Iterator[None]:
    """A job of ours runs at this party and holds all its cores; it has no worker, only heartbeats."""
    job_id = f"{time.strftime('%Y%m%d%H%M%S')}0000000000"
    with requests.Session() as session:
        session.headers.update({"SRC-PARTY-ID": HOLDER, "DEST-PARTY-ID": server.party_id})
        session.trust_env = False
        conf = toy_job(HOLDER, server.party_id, CORES)
        create = {"dsl": conf["job_dsl"], "runtime_conf": conf["job_runtime_conf"], "extensions": {"batch": 1}}
        for command, body in (("create", create), ("status/waiting", {}), ("resource/apply", {}), ("start", {})):
            _command(session, f"{server.url}/v1/party/{job_id}/host/{server.party_id}/{command}", body)
        is_over = threading.Event()
        beat = threading.Thread(target=_beat, args=(session, server, job_id, is_over), daemon=True)
        beat.start()
        try:
            yield
        finally:
            is_over.set()
            beat.join()
    free = server.number("SELECT f_remaining_cores FROM t_engine_registry")
    if free:
        raise BenchFailed(f"party {server.party_id} has {free} cores free, they were to be held")


def _command(session: requests.Session, url: str, body: Mapping[str, Any]) -> None:
    document = session.post(url, json=body, timeout=30).json()
    if document["retcode"]:
        raise BenchFailed(f"{url}: {document['retcode']} {document['retmsg']}")


def _beat(session: requests.Session, server: Server, job_id: str, is_over: threading.Event) -> None:
    while not is_over.wait(HEARTBEAT_SECONDS):
        _command(session, f"{server.url}/v1/party/heartbeat", {"jobs": [[job_id, 0]]})
