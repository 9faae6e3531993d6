"""`bin/bench`: runs the measurements on real servers, prints a table, writes a JSON file."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench import burst, flood, idle, latency, load, paging, record, silence, streams, trust, upload
from tests.bench.cluster import ROOT, BenchFailed
from tests.bench.machine import machine
from tests.bench.numbers import medians
from tests.bench.parts import databases, exchange, queries
from tests.bench.report import show_machine, show_measurement
from tests.bench.scale import failover, long_record, million, servers, simulated
from tests.bench.starts import starts
from tests.bench.traces import spans
from tests.bench.trees import compare
from tests.kit.tool import end_cleanly, tell, whole_number, write_results

DEFAULT_RUNS, QUICK_RUNS = 3, 1
_DEFAULT = 11                # the last of the measurements that are run unless somebody chooses


@dataclass(frozen=True)
class Measurement:
    """One row of the issue: what is run, in full and quickly."""

    title: str
    run: Callable[..., dict[str, Any]]
    full: dict[str, Any]
    quick: dict[str, Any]


MEASUREMENTS = {
    1: Measurement("idle latency", latency.measure, {"jobs": 30}, {"jobs": 8}),
    2: Measurement("jobs submitted at once", burst.measure, {"jobs": 200}, {"jobs": 40}),
    3: Measurement(
        "start latency under load", load.measure,
        {"jobs": 20, "waiting": 1_000, "finished": 10_000}, {"jobs": 6, "waiting": 60, "finished": 500},
    ),
    4: Measurement("an idle server", idle.measure, {"seconds": 30.0}, {"seconds": 5.0}),
    5: Measurement(
        "start latency beside a silent party", silence.measure, {"jobs": 20, "waiting": 20}, {"jobs": 6, "waiting": 3}
    ),
    6: Measurement(
        "pages of jobs and tasks", paging.measure,
        {"small": 1_000, "large": 100_000, "requests_each": 31}, {"small": 500, "large": 5_000, "requests_each": 5},
    ),
    7: Measurement("a large CSV file", upload.measure, {"megabytes": 200}, {"megabytes": 20}),
    8: Measurement("what trust costs", trust.measure, {"jobs": 30}, {"jobs": 8}),
    9: Measurement("honest callers while flooded", flood.measure, {"seconds": 20.0}, {"seconds": 3.0}),
    10: Measurement("streams between workers", streams.measure, {"megabytes": 4_000}, {"megabytes": 300}),
    11: Measurement(
        "what the record costs", record.measure, {"jobs": 150, "at_once": 100}, {"jobs": 8, "at_once": 20}
    ),
    12: Measurement(
        "a crowd of parties, simulated", simulated.measure,
        {"parties": 50, "jobs_a_day": 10_000, "task_seconds": 10.0, "round_trip_ms": 30, "warm_up": 90, "seconds": 180},
        {"parties": 5, "jobs_a_day": 40_000, "task_seconds": 1.0, "round_trip_ms": 30, "warm_up": 5, "seconds": 10},
    ),
    13: Measurement(
        "a crowd of real servers", servers.measure, {"parties": 20, "jobs": 5_000}, {"parties": 4, "jobs": 40}
    ),
    14: Measurement(
        "queries in a long history", million.measure,
        {"small": 1_000, "large": 1_000_000, "requests_each": 5},
        {"small": 1_000, "large": 10_000, "requests_each": 3},
    ),
    15: Measurement("a long record", long_record.measure, {"entries": 10_000_000}, {"entries": 200_000}),
    16: Measurement("a party's other server takes over", failover.measure, {"deaths": 20}, {"deaths": 2}),
    17: Measurement("spans for a dead collector", spans.measure, {"spans": 20_000}, {"spans": 1_000}),
    18: Measurement("what a start takes", starts.measure, {"starts": 9, "demos": 3}, {"starts": 2, "demos": 1}),
    19: Measurement("queries of one job", queries.measure, {"requests_each": 500}, {"requests_each": 50}),
    20: Measurement(
        "messages between workers", exchange.measure,
        {"rounds": 400, "megabytes": 800}, {"rounds": 40, "megabytes": 40},
    ),
    21: Measurement("MariaDB instead of SQLite", databases.measure, {"jobs": 40}, {"jobs": 6}),
}  # fmt: skip


def main() -> int:
    options = _options()
    # bin/bench sets it for us alone; the servers are to run as they always do.
    os.environ.pop("PYTHONPATH", None)
    end_cleanly()
    document: dict[str, Any] = {
        "began": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "quick": options.quick, "machine": machine(),
        "measurements": {},
    }  # fmt: skip
    show_machine(document["machine"])
    if options.compare:
        return _compare(document, options)
    for number in options.only:
        _measure(document, number, options)
        write_results(options.json, document)
    print(f"\nall runs: {options.json}")
    return 0


def _compare(document: dict[str, Any], options: argparse.Namespace) -> int:
    """Return the exit code: 1 if a job costs more than it may."""
    try:
        found = compare.measure(options.compare, compare.SHORT_SIZES if options.quick else compare.FULL_SIZES)
    except compare.NotThere as error:
        print(f"NOT COMPARED with {options.compare}: {error}")
        return 0 if options.most_cpu is not None else 1
    write_results(options.json, {**document, "compared": found})
    compare.show(found)
    if options.most_cpu is None or not compare.is_dearer(found, options.most_cpu):
        return 0
    print(f"A JOB COSTS MORE: the ratio of {compare.COST!r} is above {options.most_cpu:g}")
    return 1


def _measure(document: dict[str, Any], number: int, options: argparse.Namespace) -> None:
    one = MEASUREMENTS[number]
    sizes = one.quick if options.quick else one.full
    runs: list[dict[str, Any]] = []
    for run in range(1, options.runs + 1):
        tell(f"({number}) {one.title}: run {run} of {options.runs} ...")
        begun = time.monotonic()
        runs.append(one.run(**sizes))
        runs[-1]["took_s"] = round(time.monotonic() - begun, 1)
    found = {"title": one.title, "sizes": sizes, "medians": medians(runs), "runs": runs}
    document["measurements"][str(number)] = found
    show_measurement(number, found)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bin/bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes and one run, to see that it works")
    parser.add_argument("--json", type=Path, default=ROOT / "results.json", metavar="FILE", help="%(default)s")
    some = f"some of 1 to {max(MEASUREMENTS)}; default: the first {_DEFAULT}, the others take long"
    parser.add_argument(
        "--only", type=_numbers, default=[one for one in MEASUREMENTS if one <= _DEFAULT], metavar="1,2", help=some
    )
    parser.add_argument(
        "--runs", type=whole_number, metavar="N", help=f"of each measurement; {DEFAULT_RUNS} unless given"
    )
    parser.add_argument(
        "--compare", metavar="REVISION", help="measure this tree against that commit, by turns, and nothing else"
    )
    parser.add_argument(
        "--most-cpu", type=float, metavar="RATIO",
        help="with --compare: fail if a job takes so much more processor time, and not if that commit is not here",
    )
    options = parser.parse_args()
    if options.most_cpu is not None and not options.compare:
        parser.error("--most-cpu: is for --compare alone")
    options.runs = options.runs or (QUICK_RUNS if options.quick else DEFAULT_RUNS)
    options.json = options.json.resolve()
    return options


def _numbers(text: str) -> list[int]:
    found = sorted({int(piece) for piece in text.split(",")})
    if not set(found) <= set(MEASUREMENTS):
        raise ValueError(text)
    return found


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchFailed as error:
        sys.exit(f"bench: {error}")
