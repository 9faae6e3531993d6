"""(15) A record of ten million entries: what one more costs, what a job's entries cost to find, and how fast it is
verified.

The database is written by the functions of the server, in its own transactions: entries of jobs in the own log and in
the logs with two other parties, sealed in batches, and signed from time to time. The disk is not waited for while it is
filled; the samples wait for it, as a server does.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from fate_flow.core.record.entry import OWN_LOG, Kind, NewEntry, log_with, new_entry
from fate_flow.services.record.reading import entries_of_job
from fate_flow.services.record.sealing import seal_new
from fate_flow.store.database.migrations import upgrade
from fate_flow.store.database.opening import open_database
from fate_flow.store.sql.store import SqlStore
from tests.bench.cluster import ROOT, BenchFailed
from tests.kit.services.records import KEYS, sign, verified
from tests.kit.tool import tell

_OF_JOB = 20                 # entries
_JOBS_AT_ONCE = 50           # in a transaction while the record is filled
_SAMPLES = 200
_SIGNED_EVERY = 100_000      # entries
_LOGS = (OWN_LOG, log_with("10000"), log_with("10001"))
_BEGIN = 1_700_000_000_000
_CACHE_KB = 200_000          # while the record is filled


def measure(entries: int) -> dict[str, Any]:
    folder = ROOT / f"long_record.{time.time_ns()}"
    folder.mkdir(parents=True)
    try:
        with _store(folder) as store:
            jobs = count()
            first = _fill(store, jobs, _SIGNED_EVERY)
            short = {"append_ms": _appended(store, jobs), "show_ms": _shown(store, first)}
            filled = time.monotonic()
            done = first + _fill(store, jobs, entries - first, _tells)
            filled = time.monotonic() - filled
            long = {"append_ms": _appended(store, jobs), "show_ms": _shown(store, done)}
            verify = _verified(store)
            size = sum(one.stat().st_size for one in folder.iterdir())
        return {
            "entries": done, "short": short, "long": long,
            "ratio_of_append": round(long["append_ms"]["median"] / short["append_ms"]["median"], 3),
            "filled_per_s": round((done - first) / filled), "verified_per_cpu_s": verify,
            "database_gb": round(size / 1e9, 2), "bytes_per_entry": round(size / done),
        }  # fmt: skip
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _store(folder: Path) -> Iterator[SqlStore]:
    with closing(open_database("", folder)) as database:
        database.connect()
        upgrade(database)
        yield SqlStore(database)


def _fill(store: SqlStore, jobs: Iterator[int], entries: int, tells: Callable[[int], None] = lambda _: None) -> int:
    """Return how many entries were added: at least so many."""
    database, done = store.database, 0
    database.pragma("synchronous", "off")
    database.pragma("cache_size", -_CACHE_KB)
    unsigned = 0
    while done < entries:
        some = [one for _ in range(_JOBS_AT_ONCE) for one in _of_job(next(jobs))]
        with store.transaction() as tx:
            tx.add_to_record(some)
            seal_new(tx, some[-1].at)
        done, unsigned = done + len(some), unsigned + len(some)
        if unsigned >= _SIGNED_EVERY:
            sign(store, some[-1].at)
            unsigned = 0
            tells(done)
    database.pragma("synchronous", "full")
    return done


def _tells(done: int) -> None:
    if done % 1_000_000 < _SIGNED_EVERY:
        tell(f"    {done} entries ...")


def _of_job(number: int) -> Iterator[NewEntry]:
    for step in range(_OF_JOB):
        at, log = _BEGIN + number * 1000 + step, _LOGS[step % 3]
        fields = {
            "level": "task", "party": "guest-9999", "task": "secure_add_example_0", "version": 0, "old": "waiting",
            "new": "running", "message": f"{number * _OF_JOB + step:064x}",
        }  # fmt: skip
        yield new_entry(log, Kind.STATUS, at, fields, job_id=_job_id(number), trace=f"{number:032x}", salt="7e" * 32)


def _job_id(number: int) -> str:
    return f"2026{number:017d}"


def _appended(store: SqlStore, jobs: Iterator[int]) -> dict[str, float]:
    """What a transaction takes that adds and seals the entries of a job, in ms."""
    return _times(_SAMPLES, lambda: _append(store, next(jobs)))


def _append(store: SqlStore, number: int) -> None:
    with store.transaction() as tx:
        tx.add_to_record(list(_of_job(number)))
        seal_new(tx, _BEGIN)


def _shown(store: SqlStore, entries: int) -> dict[str, float]:
    """What it takes to find the entries of jobs all over the record, in ms."""
    numbers = iter(range(0, entries // _OF_JOB, max(1, entries // _OF_JOB // _SAMPLES)))

    def show() -> None:
        with store.reading() as tx:
            found = entries_of_job(tx, _job_id(next(numbers)))
        if len(found) != _OF_JOB:
            raise BenchFailed(f"{len(found)} of {_OF_JOB} entries of a job were found")

    return _times(_SAMPLES, show)


def _times(samples: int, act: Callable[[], None]) -> dict[str, float]:
    found = []
    for _ in range(samples):
        begun = time.perf_counter()
        act()
        found.append(1000 * (time.perf_counter() - begun))
    return {"median": round(statistics.median(found), 2), "max": round(max(found), 2)}


def _verified(store: SqlStore) -> int:
    """Return how many entries are verified in a second of processor time."""
    begun, size = time.process_time(), 0
    for log in _LOGS:
        report = verified(store, log, KEYS)
        if report.why or not report.signed_to:
            raise BenchFailed(f"{log}: {report}")
        size += report.size
    return round(size / (time.process_time() - begun))
