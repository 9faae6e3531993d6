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
