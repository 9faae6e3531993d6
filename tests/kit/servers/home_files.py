"""The files below the home of a server that runs: one of them may go while they are looked at.

`Path.rglob` of Python 3.11 raises for a folder that is removed between its listing and its reading.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path


def paths_below(folder: Path) -> Iterator[Path]:
    """Every file and folder that is there when its folder is read; nothing of a folder that is gone by then."""
    for where, folders, files in os.walk(folder):     # passes over a folder that it cannot read
        yield from (Path(where, name) for name in [*folders, *files])


def contents_below(folder: Path) -> dict[Path, bytes]:
    """The contents of all regular files, without those that went before they were read."""
    found = {}
    for path in paths_below(folder):
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISREG(path.stat().st_mode):
                found[path] = path.read_bytes()
    return found


def tracebacks_below(home: Path) -> list[str]:
    """What a defect leaves in the logs of the server with this home: each traceback, with the lines around it."""
    found = []
    for path in (home / "logs" / "fate_flow" / "ERROR.log", home / "logs" / "fate_flow" / "console.log"):
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        places = [number for number, line in enumerate(lines) if "Traceback" in line]
        found += ["\n".join([f"{path}:", *lines[max(0, one - 2) : one + 60]]) for one in places]
    return found
