"""Whether this host sees the home of the server: a runner asks before it claims its worker.

The probe is the file that the server has written into the folder of the worker just before it submitted it. No other
home has it, and no older state of this one. A shared folder may show new files late, so the probe has some time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from fate_flow.core.text.os_errors import os_error_text
from fate_flow.engines.placed.folder import PLACED, Placed

SETTLE_SECONDS = 30.0
_PAUSE_SECONDS = 0.5


def why_not_the_home(
    folder: Path, seconds: float = SETTLE_SECONDS, now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> str:  # fmt: skip
    """Return why the worker of this folder cannot run here, and what to do; empty if this is the home of its server."""
    until = now() + seconds
    while not _is_placed(folder):
        if now() >= until:
            return _why_missing(folder)
        sleep(_PAUSE_SECONDS)
    probe = folder / f".probe.{os.uname().nodename}.{os.getpid()}"
    try:
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        return f"this host cannot write to the home of the server: {os_error_text(error)}: mount it with that right"
    return ""


def _is_placed(folder: Path) -> bool:
    found = Placed.read(folder)
    return found is not None and found.name.endswith(folder.name)


def _why_missing(folder: Path) -> str:
    if not folder.exists():
        there = next((one for one in folder.parents if one.exists()), Path("/"))
        what = f"{folder} is not there; the last part of it that is there is {there}"
    else:
        what = f"{folder} has no {PLACED} of its worker"
    return (
        f"this host does not see the home of the server, or an old state of it: {what}. Mount the same home at the "
        "same path on every host of this engine, or use an engine that shares none"
    )
