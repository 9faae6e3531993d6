"""The section `worker_limits`: what the kernel of this machine lets workers use."""

from __future__ import annotations

from dataclasses import dataclass

from fate_flow.core.model.errors import BadSettings
from fate_flow.settings.reading.section import Section, collected

AUTO, REQUIRED, NONE = "auto", "required", "none"


@dataclass(frozen=True)
class WorkerLimits:
    """The limits of workers on this machine, beside the cores and the memory that their jobs reserve."""

    cgroup: str = AUTO         # or REQUIRED, NONE, or the path of a group of version 2 that was made for this server
    processes: int = 4096      # and threads, of one worker; 0: no limit
    memory: int = 0            # MB of all workers together; 0: nine tenths of this machine's memory


@collected
def read_worker_limits(section: Section) -> WorkerLimits:
    cgroup = section.text("cgroup", AUTO)
    if cgroup not in (AUTO, REQUIRED, NONE) and not cgroup.startswith("/"):
        raise BadSettings(
            f"{section.name('cgroup')}: {cgroup!r} is neither {AUTO}, {REQUIRED} nor {NONE}, nor the absolute path of "
            "a cgroup, such as /sys/fs/cgroup/fate_flow"
        )
    found = WorkerLimits(
        cgroup=cgroup,
        processes=section.whole("processes", WorkerLimits.processes),
        memory=section.whole("memory", WorkerLimits.memory),
    )
    section.refuse_others()
    return found
