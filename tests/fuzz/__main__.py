"""`bin/fuzz`: made-up input from a seed for all listeners of a real server, and whether it is as well as before."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from types import FrameType

from tests.chaos.parties import CHECKOUT
from tests.fuzz.run import run

ROOT = CHECKOUT / ".cache" / "fuzz"
INPUTS = 10_000
ENDS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def main() -> int:
    options = _options()
    for number in ENDS:
        signal.signal(number, _end_on)      # so that the server is taken down
    outcome = run(options.dir.resolve(), options.seed, options.inputs, options.first, _tell)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(outcome.document(), indent=1) + "\n", encoding="utf-8")
    print(outcome.figures())
    return 1 if outcome.violations else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bin/fuzz", description=__doc__)
    parser.add_argument("--inputs", type=_count, default=INPUTS, metavar="N", help="for all listeners; %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="all inputs follow from it; %(default)s")
    parser.add_argument("--first", type=_count, default=1, metavar="N", help="the number to begin with; %(default)s")
    parser.add_argument("--dir", type=Path, default=ROOT, help="where the home is made; %(default)s")
    parser.add_argument("--json", type=Path, default=ROOT / "results.json", metavar="FILE", help="%(default)s")
    return parser.parse_args()


def _count(text: str) -> int:
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _end_on(number: int, _frame: FrameType | None) -> None:
    for one in ENDS:
        signal.signal(one, signal.SIG_IGN)      # what is left to do has to be done
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
