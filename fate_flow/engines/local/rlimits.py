"""Limits of single processes, where there are no groups with limits (`groups.py`).

They hold less: each process of a worker may take as much as the worker, an allocation beyond fails instead of ending
the worker, and cores and the number of processes are not limited.
"""

from __future__ import annotations

import resource
from pathlib import Path

from fate_flow.engines.local.groups import Limits

_MEGABYTE = 1024 * 1024


def limit_process(limits: Limits, *, inherits: bool, counts: bool = False) -> None:
    """Limit the data of this process and of those that it forks, and how many there may be.

    Data, not address space: numeric libraries and virtual machines reserve address space that they never use.
    `inherits`: this process goes on with the memory of the spawner, which does not count. `counts`: it becomes a
    process of another user; the kernel counts the processes of a user, and those of the server's are its own."""
    if counts and limits.processes:
        resource.setrlimit(resource.RLIMIT_NPROC, (limits.processes, limits.processes))
    if limits.memory_mb:
        size = limits.memory_mb * _MEGABYTE + (_data_bytes() if inherits else 0)
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = size if hard == resource.RLIM_INFINITY else min(size, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _data_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:")), 0)
