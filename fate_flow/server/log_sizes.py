"""Measure the folders of all jobs often, without checking every file.

Finished jobs have thousands of folders to which nobody writes. So a folder without writes for some minutes keeps its
measured size until all folders are measured again. The cost of a measurement depends on the number of jobs that ran in
these minutes, not on the number of kept jobs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import check_job_id

_QUIET_SECONDS = 600


@dataclass(frozen=True)
class Measured:
    """What was found in the folders of a job."""

    newest: int              # time of the last write in them, in nanoseconds since the epoch
    size: int                # disk space of all files in them, in bytes
    is_quiet: bool           # there were no writes for a while before the measurement


def measured(folders: Iterable[Path], known: Measured | None) -> Measured:
    """Measure the folders of a job; if they were quiet the last time, return what was found then."""
    if known is not None and known.is_quiet:
        return known
    newest = size = 0
    for folder in folders:
        for path, _, names in os.walk(folder):
            for name in names:
                with suppress(OSError):
                    found = os.stat(os.path.join(path, name), follow_symlinks=False)
                    newest, size = max(newest, found.st_mtime_ns), size + found.st_blocks * 512
    is_quiet = 0 < newest < time.time_ns() - _QUIET_SECONDS * 1_000_000_000      # 0: nothing was written yet
    return Measured(newest, size, is_quiet)


def jobs_in(folder: Path, prefix: str = "") -> Iterator[str]:
    """Yield the job ids of the names in a folder that are one, after this prefix."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(prefix):
                with suppress(BadRequest):
                    yield check_job_id(entry.name.removeprefix(prefix))


class JobLogSizes:
    """The sizes of the log folders of jobs, by job id."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._measured: dict[str, Measured] = {}

    def beyond(self, most_bytes: int, job_ids: Iterable[str], measure_all: bool) -> list[str]:
        """Return the jobs whose logs have to be removed to get below `most_bytes`, those with the oldest writes first.

        `job_ids`: all jobs with logs. Without `measure_all`, quiet folders keep their measured size."""
        known = {} if measure_all else self._measured
        self._measured = {job_id: measured((self._logs / job_id,), known.get(job_id)) for job_id in job_ids}
        newest_first = sorted(
            ((one.newest, one.size, job_id) for job_id, one in self._measured.items() if one.size), reverse=True
        )
        totals = accumulate(size for _, size, _ in newest_first)
        beyond = [job_id for total, (_, _, job_id) in zip(totals, newest_first, strict=True) if total > most_bytes]
        return beyond[::-1]
