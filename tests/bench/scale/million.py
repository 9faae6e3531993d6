"""(14) What the board and the API ask of the database of a party with a million jobs, and of one with a thousand.

The jobs are copies of a real one, which the simulation has carried out. Every fifth of the large database has failed.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from peewee import Database

from fate_flow.store.database.opening import open_database
from fate_flow.store.sql.store import SqlStore
from fate_flow.store.views.views import Views
from tests.bench.cluster import ROOT
from tests.bench.scale.crowd import Load, crowd_of
from tests.kit.job_documents import job
from tests.kit.store.many_jobs import fill, without_indexes
from tests.kit.store.view_queries import Ask, view_queries

_CACHE_KB = 200_000             # while rows are copied
_JOB_SECONDS = 20
_TASK = "work_0"
_GUEST, _HOST = "9999", "10000"


def measure(small: int, large: int, requests_each: int) -> dict[str, Any]:
    """Both databases are asked in turns; each number is the median in milliseconds, the first one beside it."""
    folder = ROOT / f"million.{time.time_ns()}"
    folder.mkdir(parents=True)
    try:
        begun = time.monotonic()
        taken = {size: _asked(folder, size, requests_each) for size in (small, large)}
        return {
            "answers": {
                name: {
                    "small": taken[small][name], "large": taken[large][name],
                    "ratio": round(taken[large][name]["median"] / max(0.01, taken[small][name]["median"]), 2),
                }
                for name in taken[large]
            },
            "large_mb": round(sum(one.stat().st_size for one in (folder / str(large)).iterdir()) / 1e6),
            "made_and_asked_s": round(time.monotonic() - begun, 1),
        }  # fmt: skip
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _asked(folder: Path, size: int, requests_each: int) -> dict[str, Any]:
    with database_of(folder / str(size), size) as (database, job_id):
        SqlStore(database)          # binds the models
        created = database.execute_sql("SELECT MIN(f_create_time) FROM t_job WHERE f_job_id = ?", (job_id,)).fetchone()
        views = Views(database)
        return {
            name: _took(views, ask, requests_each)
            for name, ask in view_queries(job_id, _GUEST, _HOST, _TASK, created[0]).items()
        }


def _took(views: Views, ask: Ask, requests_each: int) -> dict[str, float]:
    """Milliseconds; the first time stands by itself, since it may count what is remembered afterwards."""
    found = []
    for _ in range(1 + requests_each):
        begun = time.perf_counter()
        ask(views)
        found.append(1000 * (time.perf_counter() - begun))
    return {"first": round(found[0], 2), "median": round(statistics.median(found[1:]), 2)}


@contextmanager
def database_of(folder: Path, jobs: int) -> Iterator[tuple[Database, str]]:
    """A database of a guest with so many jobs, and the id of one in the middle of them."""
    folder.mkdir(parents=True)
    job_id, template = _carried_out()
    (folder / "fate_flow.sqlite").write_bytes(template)
    with closing(open_database("", folder)) as database:
        database.connect()
        for name, value in (("synchronous", "off"), ("cache_size", -_CACHE_KB)):
            database.pragma(name, value)
        with without_indexes(database):
            fill(database, job_id, range(jobs), with_special=True)
    with closing(open_database("", folder)) as database:
        database.connect()
        yield database, f"2020{jobs // 2 // 5 * 5 + 2:017d}"       # neither failed nor local


@cache
def _carried_out() -> tuple[str, bytes]:
    """Return the id of one job of the simulation, and the database of its guest."""
    with crowd_of(Load(parties=2, jobs_a_day=1, task_seconds=0.1)) as crowd:
        job_id = crowd.submit_one(job({"guest": [_GUEST], "host": [_HOST]}, {_TASK: []}))
        crowd.run_for(_JOB_SECONDS)
        return job_id, crowd.database_of(_GUEST)
