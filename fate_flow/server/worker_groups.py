"""The limits that this machine holds for workers: what a server finds at its start, and says about it."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace

from fate_flow.core.model.errors import BadSettings
from fate_flow.engines.local.group_search import AUTO as ANYWHERE
from fate_flow.engines.local.group_search import Found, find_groups
from fate_flow.engines.local.groups import LIMITS
from fate_flow.engines.local.worker import write_atomically
from fate_flow.server.runtime import home_id_of
from fate_flow.settings.settings import Settings
from fate_flow.settings.worker_limits import AUTO, NONE, REQUIRED

_SHARE_OF_ALL = 0.9


def prepare_groups(settings: Settings) -> str:
    """Find the groups for workers, write them down for the processes of this server, and return a line about them.

    Raises BadSettings if there are none and the configuration requires them."""
    found = _found(settings, _name_of(settings))
    _refuse_missing(settings, found)
    file = settings.run_dir / LIMITS
    if found.groups:
        write_atomically(file, found.groups.to_json())
    else:
        file.unlink(missing_ok=True)
    return _line(found)


def _name_of(settings: Settings) -> str:
    """Return the name of the group of this server. A copy of its home has the same id, and another path."""
    path = hashlib.sha256(os.fsencode(settings.run_dir.resolve())).hexdigest()
    return f"fate_flow-{home_id_of(settings)}-{path[:8]}"


def seen_groups(settings: Settings) -> str:
    """Return the line of a server that is started where this process is. Raises BadSettings as it does."""
    found = _found(settings, f"fate_flow-check-{os.getpid()}")
    _refuse_missing(settings, found)
    return _line(found)


def _found(settings: Settings, name: str) -> Found:
    asked = settings.worker_limits
    where = ANYWHERE if asked.cgroup in (AUTO, REQUIRED) else asked.cgroup
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    found = find_groups(where, name, asked.memory * 1024 * 1024 or int(whole * _SHARE_OF_ALL))
    if found.groups is None and asked.cgroup == NONE:
        return replace(found, why_not="worker_limits.cgroup is none")
    return found


def _refuse_missing(settings: Settings, found: Found) -> None:
    asked = settings.worker_limits.cgroup
    if found.groups is None and asked not in (AUTO, NONE):
        raise BadSettings(f"worker_limits.cgroup: {asked}: {found.why_not}")


def _line(found: Found) -> str:
    if found.groups is None:
        return (
            f"WARNING: workers have no group with limits: {found.why_not}. Each process of a worker may take "
            "task_memory; cores and the number of processes are not limited (docs/explanation/limits.md)"
        )
    held = [name for name in ("memory", "pids", "cpu") if name in found.groups.trees]
    line = f"limits of workers: cgroups of version {found.groups.version} ({', '.join(held)})"
    return f"{line}; {found.note}" if found.note else line
