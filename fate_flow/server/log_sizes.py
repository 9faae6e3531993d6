"""How much the logs of all jobs take, measured often without a look at every file.

Jobs that are over keep thousands of folders that nobody writes to. So a folder in which nothing was written for some
minutes keeps the size that was measured, until all are measured again. What a look costs follows from how many jobs
have run in these minutes, not from how many are kept.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

_QUIET_SECONDS = 600


@dataclass(frozen=True)
class _Measured:
    newest: int              # when something in the folder was last written, in nanoseconds since the epoch
    size: int                # bytes of all files in it, as the disk counts them
    is_quiet: bool           # nothing was written for a while when this was measured


class JobLogSizes:
    """The sizes of the log folders of jobs, by job id."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._measured: dict[str, _Measured] = {}

    def beyond(self, most_bytes: int, job_ids: Iterable[str], measure_all: bool) -> list[str]:
        """Jobs whose logs go, those that were written to longest ago first, until the rest takes no more than that.

        `job_ids`: all that have logs. Without `measure_all`, quiet folders that were measured before count as then."""
        known = {} if measure_all else self._measured
        self._measured = {job_id: self._size_of(job_id, known.get(job_id)) for job_id in job_ids}
        newest_first = sorted(
            ((one.newest, one.size, job_id) for job_id, one in self._measured.items() if one.size), reverse=True
        )
        totals = accumulate(size for _, size, _ in newest_first)
        beyond = [job_id for total, (_, _, job_id) in zip(totals, newest_first, strict=True) if total > most_bytes]
        return beyond[::-1]

    def _size_of(self, job_id: str, known: _Measured | None) -> _Measured:
        if known is not None and known.is_quiet:
            return known
        newest = size = 0
        for path, _, names in os.walk(self._logs / job_id):
            for name in names:
                with suppress(OSError):
                    found = os.stat(os.path.join(path, name), follow_symlinks=False)
                    newest, size = max(newest, found.st_mtime_ns), size + found.st_blocks * 512
        is_quiet = 0 < newest < time.time_ns() - _QUIET_SECONDS * 1_000_000_000      # 0: nothing was written yet
        return _Measured(newest, size, is_quiet)
