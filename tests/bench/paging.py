"""(6) Lists of jobs and tasks, page by page, in a database of 1,000 jobs and of 100,000, over HTTP.

On SQLite and on a MariaDB of the tests. The jobs are copies of the rows of a real one: its job, its seats and its
tasks, each copy a second older than the one before. 200 of the oldest thousand have failed and 200 are of another
role, so that filters find the same in both databases, and find it late.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from fate_flow.store.database.opening import open_database
from tests.bench.cluster import (
    BASE_PORT,
    CHECKOUT,
    GUEST,
    HOST,
    ROOT,
    BenchFailed,
    Client,
    Server,
    Servers,
    fresh_cluster,
)
from tests.bench.numbers import spread
from tests.bench.processes import CpuMeter
from tests.kit.store.many_jobs import fill

DATABASES = ("SQLite", "MariaDB")
JOBS, TASKS = "job/list/job", "job/list/task"
LIMIT = 10
WARM_UP = 5
JOB_SECONDS = 60.0


def measure(small: int, large: int, requests_each: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in DATABASES:
        with ExitStack() as stack:
            url = stack.enter_context(_database(name))
            two = [
                stack.enter_context(_filled(url, BASE_PORT + 20 * place, size, small))
                for place, size in enumerate((small, large))
            ]
            found[name] = _compared(two, requests_each)
    return found


@dataclass(frozen=True)
class _Full:
    """A server with so many jobs."""

    servers: Servers
    job_id: str
    jobs: int


@contextmanager
def _filled(template: str, base_port: int, jobs: int, old: int) -> Iterator[_Full]:
    """As many jobs, of which the `old` oldest are those that filters look for."""
    url = template.replace("{jobs}", str(jobs))
    with fresh_cluster("paging", database=url, base_port=base_port) as servers:
        server = servers[GUEST]
        job_id = Client(server, servers[HOST]).submit().job_id
        _await_success(server, job_id)
        with closing(open_database(url.replace("{party_id}", GUEST), server.home)) as database:
            fill(database, job_id, range(jobs - old, jobs), with_special=True)
            fill(database, job_id, range(jobs - old), with_special=False)
        yield _Full(servers, job_id, jobs)


def _compared(two: Sequence[_Full], requests_each: int) -> dict[str, Any]:
    """Both are asked in turns, so that what else the machine does falls on both."""
    meter = CpuMeter([server for one in two for server in one.servers.values()])
    answers: dict[str, Any] = {}
    for questions_of_one in zip(*(questions(one.job_id, one.jobs) for one in two), strict=True):
        took = _ask_alternately([one.servers[GUEST] for one in two], questions_of_one, requests_each)
        small, large = map(spread, took)
        ratio = round(statistics.median(took[1]) / statistics.median(took[0]), 2)
        answers[questions_of_one[0].name] = {"small": small, "large": large, "ratio": ratio}
    return {"answers": answers, "others_percent": round(meter.read().others_percent, 1)}


def _ask_alternately(
    servers: Sequence[Server], asked: Sequence[Question], requests_each: int
) -> tuple[list[float], list[float]]:
    """Milliseconds of each request, at the one and at the other server, on a connection for each."""
    took: tuple[list[float], list[float]] = [], []
    with requests.Session() as session:
        session.trust_env = False
        for number in range(WARM_UP + requests_each):
            for times, server, question in zip(took, servers, asked, strict=True):
                milliseconds = _ask(session, server, question)
                if number >= WARM_UP:
                    times.append(milliseconds)
    return took


def _ask(session: requests.Session, server: Server, question: Question) -> float:
    begun = time.perf_counter()
    response = session.post(f"{server.url}/v1/{question.path}", json=question.body, timeout=120, auth=server.auth)
    taken = (time.perf_counter() - begun) * 1000
    if response.json()["retcode"]:
        raise BenchFailed(f"{question}: {response.text[:500]}")
    return taken


@dataclass(frozen=True)
class Question:
    name: str
    path: str
    body: Mapping[str, Any]


def questions(job_id: str, jobs: int) -> list[Question]:
    """The pages are as far in as the database is large."""
    return [*_pages(jobs), *_orders(jobs), *_filters(jobs), *_queries(job_id, jobs)]


def _pages(jobs: int) -> Iterator[Question]:
    for what, path, rows, body in (
        ("job list", JOBS, jobs, {}), ("task list", TASKS, 2 * jobs, {}),
        ("job query -r guest", "job/query", jobs * 3 // 4, {"role": "guest"}),
    ):  # fmt: skip
        for where, page in {"first": 1, "middle": rows // 2 // LIMIT, "last": rows // LIMIT}.items():
            yield Question(f"{what}: {where} page", path, {**body, "limit": LIMIT, "page": page})


def _orders(jobs: int) -> Iterator[Question]:
    for by in ("start_time", "end_time", "elapsed"):
        yield Question(f"job list by {by}", JOBS, {"limit": LIMIT, "page": 3, "order_by": by})
    yield Question("task list by elapsed", TASKS, {"limit": LIMIT, "page": 3, "order_by": "elapsed"})
    middle = {"limit": LIMIT, "page": jobs // 2 // LIMIT}
    for by in ("start_time", "elapsed"):
        yield Question(f"job list by {by}: middle page", JOBS, {**middle, "order_by": by})
    late = {"limit": LIMIT, "page": jobs // LIMIT, "order_by": "elapsed"}
    yield Question("job list by elapsed: last page", JOBS, late)
    yield Question("task list by elapsed: middle page", TASKS, late)


def _filters(jobs: int) -> Iterator[Question]:
    for name, pending in {
        "status": {"status": "failed"}, "common status": {"status": "success"}, "role": {"role": "local"},
        "party": {"role": "guest", "party_id": GUEST}, "part of an id": {"job_id": f"{jobs - 5:06d}"},
        "partner": {"partner": HOST}, "part of a description": {"description": "nobody wrote this"},
    }.items():  # fmt: skip
        yield Question(f"job list, {name}", JOBS, {**pending, "limit": LIMIT})
    late = {"limit": LIMIT, "page": jobs * 3 // 8 // LIMIT}
    for name, pending in {
        "common status": {"status": "success"},
        "common status, by elapsed": {"status": "success", "order_by": "elapsed"},
        "party, by elapsed": {"role": "guest", "order_by": "elapsed"},
    }.items():  # fmt: skip
        yield Question(f"job list, {name}: middle page", JOBS, {**pending, **late})
    for name, pending in {"role": {"role": "local"}, "party": {"role": "host", "party_id": HOST}}.items():
        yield Question(f"task list, {name}", TASKS, {**pending, "limit": LIMIT})
    yield Question("task list, party: middle page", TASKS, {"role": "host", "limit": LIMIT, "page": jobs // 2 // LIMIT})


def _queries(job_id: str, jobs: int) -> Iterator[Question]:
    everybody = {"role": "guest", "party_id": GUEST, "status": "success"}
    middle = {"limit": LIMIT, "page": jobs * 3 // 8 // LIMIT}
    for what, path in (("job query", "job/query"), ("task query", "job/task/query")):
        yield Question(f"{what} -j", path, {"job_id": job_id})
        for status in ("failed", "success"):
            yield Question(f"{what} -s {status}: first page", path, {"status": status, "limit": LIMIT})
        yield Question(f"{what} -r -p -s: first page", path, {**everybody, "limit": LIMIT})
    for name, pending in {"-s success": {"status": "success"}, "-r -p -s": everybody}.items():
        yield Question(f"job query {name}: middle page", "job/query", {**pending, **middle})
    yield Question("job query -p: without a page, 1,000 jobs in full", "job/query", {"party_id": GUEST})


def _await_success(server: Server, job_id: str) -> None:
    deadline = time.monotonic() + JOB_SECONDS
    while time.monotonic() < deadline:
        body = {"job_id": job_id}
        [row] = requests.post(f"{server.url}/v1/job/query", json=body, timeout=60, auth=server.auth).json()["data"]
        if row["f_status"] == "success":
            return
        time.sleep(0.05)
    raise BenchFailed(f"job {job_id} did not end within {JOB_SECONDS:g} s")


@contextmanager
def _database(name: str) -> Iterator[str]:
    """The URL of databases for the parties; empty for SQLite."""
    if name == "SQLite":
        yield ""
        return
    with mariadb() as url:
        yield f"{url}/bench_{{jobs}}_{{party_id}}"


@contextmanager
def mariadb() -> Iterator[str]:
    """A server of its own: its URL, without a database and without a slash at its end."""
    folder = ROOT / f"mariadb.{time.time_ns()}"
    try:
        yield str(json.loads(_mariadb("start", folder))["url"]).rstrip("/")
    finally:
        _mariadb("stop", folder)
        shutil.rmtree(folder, ignore_errors=True)


def _mariadb(verb: str, folder: Path) -> str:
    """What the command printed."""
    argv = [sys.executable, "-P", str(CHECKOUT / "bin" / "_mariadb.py"), verb, "--dir", str(folder)]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchFailed(f"MariaDB did not {verb}: {done.stderr}")
    return done.stdout
