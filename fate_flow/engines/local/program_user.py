"""Programs as another user: what is handed over to that user, and how the worker becomes it.

The runner stays who it is, so the program cannot end it, and the worker folder stays the server's: the user may pass
through it, and reads what is handed over, but writes only below `work` and to the worker's volumes. All of this is done
before the first instruction of the program, in folders that nobody else could write to until then.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from fate_flow.components.providers.program_order import ORDER, PEERS
from fate_flow.components.tables.table_uri import SCHEME, TableAddress, parse_uri
from fate_flow.core.model.artifact import FILE_SCHEME
from fate_flow.core.text.yaml_text import read_yaml_text, yaml_text
from fate_flow.engines.local.worker import read_json

INPUTS = "inputs"
CONFIG = "task.yaml"          # the task configuration with the copies of the inputs
CONFIG_VARIABLE = "FATE_FLOW_TASK_CONFIG"
PASSES = 0o711                # of a folder that others may pass through, but not list
_PR_SET_NO_NEW_PRIVS = 38
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class ProgramUser:
    """The user as whom programs run (`commands.user`)."""

    name: str
    uid: int
    gid: int

    @classmethod
    def of(cls, name: str) -> Self:
        """Raises LookupError if this machine has no such user."""
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            raise LookupError("commands.user: this machine has no user of that name") from None
        return cls(name, entry.pw_uid, entry.pw_gid)

    def become(self) -> None:
        """Make this process one of the user, for good: no program that it runs gets other rights. Raises OSError."""
        os.initgroups(self.name, self.gid)
        os.setresgid(self.gid, self.gid, self.gid)
        os.setresuid(self.uid, self.uid, self.uid)
        if _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "cannot give up other rights (PR_SET_NO_NEW_PRIVS)")

    def environment(self, work: Path) -> dict[str, str]:
        return {"HOME": str(work), "USER": self.name, "LOGNAME": self.name}

    def why_not_reached(self, folder: Path) -> str:
        """Return which folder above this one the user may not pass through; empty if there is none."""
        groups = os.getgrouplist(self.name, self.gid)
        for one in reversed(folder.resolve().parents):
            seen = one.stat()
            bit = stat.S_IXUSR if seen.st_uid == self.uid else stat.S_IXGRP if seen.st_gid in groups else stat.S_IXOTH
            if not seen.st_mode & bit:
                return f"{one} has mode {stat.S_IMODE(seen.st_mode):04o}, so user {self.name} does not reach {folder}"
        return ""


def hand_over(user: ProgramUser, folder: Path, work: Path, volumes: Path) -> Mapping[str, str]:
    """Give a worker's user what the program needs of the worker folder; return variables for its environment.

    Raises OSError; ValueError for an input that a program of another user cannot have."""
    for entry in folder.iterdir():
        if entry.is_file():            # orders, with tokens and secrets; most have this mode already
            entry.chmod(stat.S_IMODE(entry.stat().st_mode) & ~0o077)
    variables = copy_inputs(folder, user.gid)
    _let_group_read(folder / PEERS, user.gid)
    for top in (work, volumes):
        for path in _all_below(top):
            os.chown(path, user.uid, user.gid, follow_symlinks=False)
    for descriptor in (1, 2):          # pipes to the runner: /dev/stdout and /dev/stderr open them again
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            os.fchown(descriptor, user.uid, user.gid)
    _open_the_way_to(folder)
    return variables


def take_back(folder: Path) -> None:
    """Close the worker folder to another user, if it was handed over to one, once none of the worker's processes is
    left."""
    policy = (read_json(folder / ORDER) or {}).get("policy")    # which a program of another user cannot change
    if isinstance(policy, dict) and policy.get("user"):
        with suppress(OSError):      # such as a folder that was removed: how the worker ended counts all the same
            folder.chmod(0o700)


def copy_inputs(folder: Path, group: int = -1) -> dict[str, str]:
    """Copy the inputs for a program that does not reach the home, and write a task configuration that names the copies.

    Return the variable with its path. `group`: the one that may read both; -1: that of the server. Raises OSError;
    ValueError for an input that such a program cannot have."""
    source = folder / "config.yaml"
    if not source.exists():
        return {}
    config: dict[str, Any] = read_yaml_text(source.read_text(encoding="utf-8"))
    inputs = folder / INPUTS
    inputs.mkdir(exist_ok=True)
    for artifact in _artifacts(config.get("input_artifacts")):
        artifact["uri"] = _copied(str(artifact["uri"]), inputs)
    for path in _all_below(inputs):
        os.chown(path, -1, group, follow_symlinks=False)
        path.chmod(0o750 if path.is_dir() else 0o440)
    target = folder / CONFIG
    target.write_text(yaml_text(config), encoding="utf-8")
    _let_group_read(target, group)
    return {CONFIG_VARIABLE: str(target)}


def _artifacts(found: object) -> Iterator[dict[str, Any]]:
    for one in found.values() if isinstance(found, dict) else ():
        yield from (each for each in (one if isinstance(one, list) else [one]) if isinstance(each, dict))


def _copied(uri: str, inputs: Path) -> str:
    if uri.startswith(SCHEME):
        table = parse_uri(uri)
        copy = TableAddress(inputs, table.namespace, table.name)
        copy.path.parent.mkdir(exist_ok=True)
        shutil.copyfile(table.path, copy.path)
        return copy.uri
    path = Path(uri.removeprefix(FILE_SCHEME))
    if not uri.startswith(FILE_SCHEME) or not path.is_file():
        raise ValueError(f"input {uri}: a program of another user, or in a sandbox, reads tables and files alone")
    target = inputs / path.name
    shutil.copyfile(path, target)
    return f"{FILE_SCHEME}{target}"


def _let_group_read(path: Path, group: int) -> None:
    if path.exists():
        os.chown(path, -1, group, follow_symlinks=False)
        path.chmod(0o640)


def _all_below(top: Path) -> Iterator[Path]:
    if top.exists():
        yield top
        yield from top.rglob("*")


def _open_the_way_to(folder: Path) -> None:
    """Let others pass to the worker folder. The server did so for the folder of all jobs when it started."""
    for one in (folder, *folder.parents):
        mode = stat.S_IMODE(one.stat().st_mode)
        if one != folder and mode & stat.S_IXOTH:
            return
        one.chmod(mode | PASSES)
