"""`bin/fuzz`: made-up input from a seed for all listeners of a real server, and whether it is as well as before."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.chaos.parties import CHECKOUT
from tests.fuzz.run import run
from tests.kit.tool import end_cleanly, tell, whole_number, write_results

ROOT = CHECKOUT / ".cache" / "fuzz"
INPUTS = 10_000


def main() -> int:
    options = _options()
    end_cleanly()
    outcome = run(options.dir.resolve(), options.seed, options.inputs, options.first, tell)
    write_results(options.json, outcome.document())
    print(outcome.figures())
    return 1 if outcome.violations else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bin/fuzz", description=__doc__)
    parser.add_argument("--inputs", type=whole_number, default=INPUTS, metavar="N", help="how many; %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="all inputs follow from it; %(default)s")
    parser.add_argument("--first", type=whole_number, default=1, metavar="N", help="begin with this one; %(default)s")
    parser.add_argument("--dir", type=Path, default=ROOT, help="where the home is made; %(default)s")
    parser.add_argument("--json", type=Path, default=ROOT / "results.json", metavar="FILE", help="%(default)s")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
