"""`bin/demo`: its options, and which of the two demos runs."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path
from types import FrameType

import common_customers
import credit_scores
import provider
from servers import CHECKOUT, Folder

_ENDS = (signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/demo", description="Run a federated job over three servers.")
    parser.add_argument("--fate", action="store_true", help="train, deploy and use a model with FATE's algorithms")
    parser.add_argument(
        "--provider", type=Path, metavar="PYTHON",
        help="with --fate: a Python that has FATE; otherwise bin/fate-provider install makes one in .cache",
    )
    parser.add_argument("--keep", action="store_true", help="leave the servers running afterwards")
    parser.add_argument(
        "--dir", type=Path, metavar="FOLDER", default=CHECKOUT / ".cache" / "demo",
        help="its folder, which each demo makes anew (default: %(default)s)",
    )
    options = parser.parse_args()
    if options.provider and not options.fate:
        parser.error("--provider: only the demo with FATE's algorithms needs it; add --fate")
    for number in _ENDS:
        signal.signal(number, _end_on)
    began = time.monotonic()
    python = provider.found(options.provider) if options.fate else None
    with Folder.opened(options.dir) as folder:
        if python is None:
            is_right = common_customers.run(folder, options.keep)
        else:
            is_right = credit_scores.run(folder, python, options.keep)
    print(f"\ntook {time.monotonic() - began:.1f} s")
    print("demo: success" if is_right else "demo: FAILED")
    return 0 if is_right else 1


def _end_on(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
