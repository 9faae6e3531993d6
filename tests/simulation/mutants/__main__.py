"""`python -m tests.simulation.mutants [NAME ...]` hunts them and prints the seed and the rule that caught each."""

from __future__ import annotations

import sys

from tests.simulation.mutants.hunting import hunt_all
from tests.simulation.mutants.table import MUTANTS


def main() -> int:
    missed = 0
    for caught in hunt_all(sys.argv[1:] or MUTANTS, 2):
        missed += not caught.is_caught
        print(caught.text, flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
