"""What a worker uses: its runner looks now and then, and writes a line for each look into the folder of the worker.

A line is `[seconds, processor seconds, MB]`: since the worker was started, of all its processes so far, and the
resident memory of those that live, where each counts the pages that it shares with others. The last line is an object,
with what the kernel has counted for all of them. Nothing is kept in memory, and the looks become rarer as the worker
lives longer: a thousand lines are a month.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from fate_flow.components.base.regular_file import NoRegularFile, open_regular
from fate_flow.components.provider_process.execute import BESIDE
from fate_flow.core.model.resources import UsageSample, WorkerUsage
from fate_flow.engines.local import proc
from fate_flow.engines.local.worker import read_json

USAGE = "usage.jsonl"
FIRST_SECONDS = 10.0
_PART = 120                      # later, a look comes when the worker is older by this part of its age
_MOST_BYTES = 128 * 1024
_MOST_NUMBER = 1e15
_TICKS, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
_MEGABYTE = 1024 * 1024


class UsageLog:
    """Of the processes below this one, which are those of its worker; and of those below a guard, where the component
    is a child of a provider's warm process, as the worker has noted (`components/provider_process/execute.py`). A full
    disk, or a program that has put something in the place of the file, leaves it without samples, and stops nothing
    else."""

    def __init__(self, folder: Path, began: float) -> None:
        self._began, self._due, self._beside = began, began + FIRST_SECONDS, folder / BESIDE
        self._seconds_beside = 0.0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file: int | None = None
        with suppress(OSError):
            self._file = os.open(folder / USAGE, flags, 0o644)

    def look(self, now: float) -> None:
        """Write what the worker uses, if it is time."""
        if now < self._due or self._file is None:
            return
        age = now - self._began
        self._due = now + max(FIRST_SECONDS, age / _PART)
        used = _used_below(0)
        if used:
            beside = self._used_beside()
            seconds = _ended_seconds() + sum(one.ticks for one in used) / _TICKS + self._seconds_beside
            megabytes = sum(one.pages for one in (*used, *beside)) * _PAGE / _MEGABYTE
            self._write([round(age, 2), round(seconds, 2), round(megabytes, 1)])

    def finish(self, now: float) -> None:
        """Write what all processes have used, once each has ended and was waited for."""
        kilobytes = getrusage(RUSAGE_CHILDREN).ru_maxrss
        match _numbers_of(self._beside, "used"):
            case [seconds, largest]:         # otherwise, it was killed: what the last look has seen remains
                # The kernel does not count children for which the component has not waited; a look has.
                self._seconds_beside, kilobytes = max(self._seconds_beside, seconds), max(kilobytes, int(largest))
        self._write({
            "seconds": round(now - self._began, 2),
            "processor_seconds": round(_ended_seconds() + self._seconds_beside, 2),
            "largest_process_mb": round(kilobytes / 1024, 1),
        })  # fmt: skip
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _used_beside(self) -> list[proc.Use]:
        match _numbers_of(self._beside, "guard"):
            case [guard] if (found := _used_below(int(guard))):
                self._seconds_beside = max(self._seconds_beside, sum(one.ticks for one in found) / _TICKS)
                return found
        return []

    def _write(self, line: object) -> None:
        if self._file is not None:
            with suppress(OSError):
                os.write(self._file, f"{json.dumps(line)}\n".encode())


def _used_below(root: int) -> list[proc.Use]:
    return [use for pid in proc.descendants(root) if (use := proc.read_use(pid)) is not None]


def _numbers_of(path: Path, key: str) -> list[float]:
    """Return numbers that the worker has noted; [] if there are none. A program can write there, too."""
    found = (read_json(path) or {}).get(key)
    return [one for one in found if type(one) is float and 0 <= one < _MOST_NUMBER] if isinstance(found, list) else []


def _ended_seconds() -> float:
    ended = getrusage(RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


def usage_in(folder: Path) -> WorkerUsage | None:
    """Return what the worker of a folder has used; None if nothing has measured it, or the folder was removed.

    A program can write there, too: what is no line as above is left out."""
    try:
        with open_regular(folder / USAGE) as file:
            lines = file.read(_MOST_BYTES).splitlines()
    except NoRegularFile:
        return None
    samples, end = list[UsageSample](), None
    for line in lines:
        numbers = _numbers_in(line)
        if len(numbers) != 3:
            continue
        if line.startswith(b"{"):
            end = UsageSample(*numbers)
        elif not samples or samples[-1].seconds < numbers[0]:
            samples.append(UsageSample(*numbers))
    return WorkerUsage(tuple(samples), end)


def _numbers_in(line: bytes) -> list[float]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return []
    if isinstance(value, dict):
        value = [value.get(key) for key in ("seconds", "processor_seconds", "largest_process_mb")]
    if not isinstance(value, list):
        return []
    return [float(one) for one in value if type(one) in (int, float) and 0 <= one < _MOST_NUMBER]
