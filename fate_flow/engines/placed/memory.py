"""Whether the kernel has killed processes of this job for lack of memory, as the control group of this process says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_OWN, _MOUNT = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def counted(own: Path = _OWN, mount: Path = _MOUNT) -> int:
    """Return how many were killed since the group was made; 0 where no group counts them."""
    for line in _text(own).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        folder = mount / ("memory" if controllers else "") / path.lstrip("/")
        file = "memory.oom_control" if controllers else "memory.events"
        if not controllers or "memory" in controllers.split(","):
            for said in _text(folder / file).splitlines():
                name, _, number = said.partition(" ")
                if name == "oom_kill" and number.isdecimal():
                    return int(number)
    return 0


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


@dataclass(frozen=True)
class Kills:
    """How many there were at some moment."""

    before: int

    @classmethod
    def now(cls) -> Kills:
        return cls(counted())

    def are_more(self) -> bool:
        return counted() > self.before
