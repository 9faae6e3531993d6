"""What the commands bin/bench, bin/chaos and bin/fuzz have in common."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

_ENDS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def end_cleanly() -> None:
    """Let the first signal to end raise SystemExit, so that the servers are taken down, and ignore later ones."""
    for number in _ENDS:
        signal.signal(number, _end_on)


def whole_number(text: str) -> int:
    """Return the value of an argument that is a whole number from 1 on."""
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def tell(text: str) -> None:
    """Print one line of progress."""
    print(text, file=sys.stderr, flush=True)


def write_results(path: Path, document: dict[str, Any]) -> None:
    """Write the results as JSON, and make the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _end_on(number: int, _frame: FrameType | None) -> None:
    for one in _ENDS:
        signal.signal(one, signal.SIG_IGN)      # what is left to do has to be done
    raise SystemExit(128 + number)
