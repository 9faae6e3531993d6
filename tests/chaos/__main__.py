"""`bin/chaos`: faults on real servers from a seed, and whether the books balance afterwards."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.chaos import crash_points, run
from tests.chaos.parties import CHECKOUT
from tests.kit.tool import end_cleanly, tell, whole_number, write_results

ROOT = CHECKOUT / ".cache" / "chaos"
DURATION, PARTIES = 60.0, 3
LONGEST = 86_400


def main() -> int:
    options = _options()
    end_cleanly()
    root, seed, with_mariadb = options.dir.resolve(), options.seed, options.database == "mariadb"
    outcome: run.Outcome | crash_points.Outcome
    if options.crash_points:
        outcome = crash_points.run(root, seed, options.step or 1, with_mariadb, tell)
        is_good = not outcome.problems
    else:
        duration, parties = options.duration or DURATION, options.parties or PARTIES
        outcome = run.run(root, seed, duration, parties, with_mariadb, tell)
        is_good = not outcome.violations
    write_results(options.json, outcome.document())
    print(outcome.figures())
    return 0 if is_good else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bin/chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="faults and jobs follow from it; %(default)s")
    parser.add_argument("--duration", type=_seconds, metavar="SECONDS", help=f"of faults; {DURATION:g}")
    parser.add_argument("--parties", type=int, choices=range(3, 10), metavar="N", help=f"3 to 9; {PARTIES}")
    parser.add_argument("--database", choices=["sqlite", "mariadb"], default="sqlite", help="%(default)s")
    parser.add_argument("--crash-points", action="store_true", help="instead: a server dies at each point of a job")
    parser.add_argument("--step", type=whole_number, metavar="K", help="with --crash-points: only one point in K; 1")
    parser.add_argument("--dir", type=Path, default=ROOT, help="where the homes are made; %(default)s")
    parser.add_argument("--json", type=Path, default=ROOT / "results.json", metavar="FILE", help="%(default)s")
    options = parser.parse_args()
    not_for = ("duration", "parties") if options.crash_points else ("step",)
    for name in not_for:
        if getattr(options, name) is not None:
            parser.error(f"--{name}: means nothing {'with' if options.crash_points else 'without'} --crash-points")
    return options


def _seconds(text: str) -> float:
    if not (0 < _number(text) <= LONGEST):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0, {LONGEST} at most")
    return float(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


if __name__ == "__main__":
    sys.exit(main())
