"""The search for groups with limits that this server may use (cgroups), at its start."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fate_flow.engines.local.groups import Groups, Limits

AUTO, NONE = "auto", "none"
CONTROLLERS = ("memory", "pids", "cpu")
SERVER_LEAF = "fate_flow-server"
"""With version 2, a group with groups below it has no processes: the server itself is in this one."""
_BY_SYSTEMD = "INVOCATION_ID"
_RESTARTS = (
    f"a restart beside living workers fails unless the unit has DelegateSubgroup={SERVER_LEAF} (systemd 254)"
)
_TRIAL = "trial"
_TRIAL_LIMITS = Limits(cores=1, memory_mb=64, processes=16)


@dataclass(frozen=True)
class Found:
    """The groups that the server may use, or why there are none."""

    groups: Groups | None
    why_not: str = ""
    note: str = ""          # what the operator should know about them


@dataclass(frozen=True)
class Mount:
    """A mounted tree of groups."""

    version: int
    folder: Path
    root: str                       # what of the tree is mounted there
    controllers: frozenset[str]     # of version 1; version 2 lists them in each group


def find_groups(where: str, name: str, memory_bytes: int, proc: Path = Path("/proc/self")) -> Found:
    """Return the groups below which this process may make groups with limits.

    `where`: AUTO, NONE, or the path of a group of version 2 that was made for this server. With version 2 and AUTO this
    process may move itself into a group below its own, so call this before it has children."""
    if where == NONE:
        return Found(None, "worker_limits.cgroup is none")
    try:
        began_in = _name_of_own_group(proc) if where == AUTO else ""
        if where == AUTO:
            groups = own_groups(name, memory_bytes, proc)
        else:
            groups = Groups(2, _all_in(Path(where)), name, memory_bytes)
        if groups is None:
            return Found(None, "this machine has no cgroups with the controllers memory and pids")
        groups.begin(_TRIAL, _TRIAL_LIMITS).end()
    except OSError as error:
        return Found(None, f"this server may not make cgroups: {error.filename or where}: {error.strerror}")
    has_moved = groups.version != 1 and Path(groups.trees["memory"]).name == began_in
    return Found(groups, note=_RESTARTS if has_moved and _BY_SYSTEMD in os.environ else "")


def _name_of_own_group(proc: Path) -> str:
    """Return the last part of the path of this process's group of version 2; empty if it is in none, or at the top."""
    return Path(_groups_in((proc / "cgroup").read_text()).get("", "/")).name


def own_groups(name: str, memory_bytes: int, proc: Path) -> Groups | None:
    """Return the groups below that of this process; None if this machine has none with limits. Raises OSError."""
    own = _groups_in((proc / "cgroup").read_text())
    mounts = list(_mounts((proc / "mountinfo").read_text()))
    trees = {
        controller: str(_folder(mount, own[controller]))
        for mount in mounts for controller in mount.controllers & own.keys()
    }  # fmt: skip
    if {"memory", "pids"} <= trees.keys():
        return Groups(1, trees, name, memory_bytes)
    for mount in mounts:
        if mount.version != 1 and "" in own:
            return _of_version_2(mount, _folder(mount, own[""]), name, memory_bytes)
    return None


def _of_version_2(mount: Mount, own: Path, name: str, memory_bytes: int) -> Groups | None:
    """Return the groups below the own one if nobody else is in it, as a service of systemd has it with `Delegate=yes`.

    Root without such a group takes the top of the tree. Raises OSError."""
    is_started_there = own.name == SERVER_LEAF            # DelegateSubgroup; or the server before has moved a parent
    if not {"memory", "pids"} <= set(_controllers(own.parent if is_started_there else own)):
        return None
    others = {int(line) for line in (own / "cgroup.procs").read_text().split()} - {os.getpid()}
    if is_started_there:
        return Groups(2, _all_in(own.parent), name, memory_bytes)
    if own != mount.folder and not others:
        leaf = own / SERVER_LEAF
        leaf.mkdir(exist_ok=True)
        (leaf / "cgroup.procs").write_text(str(os.getpid()))
        return Groups(2, _all_in(own), name, memory_bytes)
    if os.geteuid() == 0:
        return Groups(2, _all_in(mount.folder), name, memory_bytes)
    raise PermissionError(1, "it has other processes than this server (systemd: Delegate=yes)", str(own))


def _all_in(folder: Path) -> Mapping[str, str]:
    """Let groups below a group of version 2 have limits, and return the tree of each. Raises OSError."""
    wanted = [one for one in _controllers(folder) if one in CONTROLLERS]
    enabled = (folder / "cgroup.subtree_control").read_text().split()
    if missing := [f"+{one}" for one in wanted if one not in enabled]:
        (folder / "cgroup.subtree_control").write_text(" ".join(missing))
    return dict.fromkeys(wanted, str(folder))


def _controllers(folder: Path) -> list[str]:
    return (folder / "cgroup.controllers").read_text().split()


def _groups_in(text: str) -> dict[str, str]:
    """Return the path of the own group by controller, as /proc/self/cgroup has it; "" stands for version 2."""
    found = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        found.update({one: path for one in controllers.split(",") if one in (*CONTROLLERS, "")})
    return found


def _mounts(text: str) -> Iterator[Mount]:
    """Yield the trees of groups, as /proc/self/mountinfo has them."""
    for line in text.splitlines():
        mounted, _, filesystem = line.partition(" - ")
        fields, (kind, _, options) = mounted.split(), filesystem.split(maxsplit=2)
        if kind == "cgroup2":
            yield Mount(2, Path(_plain(fields[4])), _plain(fields[3]), frozenset())
        elif kind == "cgroup":
            controllers = frozenset(options.split(",")) & frozenset(CONTROLLERS)
            yield Mount(1, Path(_plain(fields[4])), _plain(fields[3]), controllers)


def _plain(text: str) -> str:
    """Return a path of mountinfo without its escapes."""
    return text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")


def _folder(mount: Mount, path: str) -> Path:
    """Return the folder of a group. In a container its path may be one of the host; what is mounted is its own then."""
    inside = path.removeprefix(mount.root) if mount.root != "/" else path
    folder = mount.folder / inside.lstrip("/")
    return folder if ".." not in folder.parts and folder.is_dir() else mount.folder
