"""Limits of single processes, where there are no groups with limits (`groups.py`).

They hold less: each process of a worker may take as much as the worker, an allocation beyond fails instead of ending
the worker, and cores and the number of processes are not limited.
"""

from __future__ import annotations

import resource
from pathlib import Path

from fate_flow.engines.local.groups import Limits

_MEGABYTE = 1024 * 1024


def limit_number(limits: Limits) -> None:
    """Limit how many processes there may be of the user that this process is about to become. The kernel counts those
    of a user, so this is no limit for programs of the server's own user."""
    if limits.processes:
        resource.setrlimit(resource.RLIMIT_NPROC, (limits.processes, limits.processes))


def limit_process(limits: Limits, *, inherits: bool) -> None:
    """Limit the data of this process and of those that it forks.

    Data, not address space: numeric libraries and virtual machines reserve address space that they never use.
    `inherits`: this process goes on with the memory of the spawner, which does not count."""
    if limits.memory_mb:
        size = limits.memory_mb * _MEGABYTE + (_data_bytes() if inherits else 0)
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = size if hard == resource.RLIM_INFINITY else min(size, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _data_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:")), 0)
