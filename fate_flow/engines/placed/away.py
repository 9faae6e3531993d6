"""What a placed job executes on a host without the home of the server: the agent of one staged worker.

`python -P -m fate_flow.engines.placed.away FOLDER WORKER`

FOLDER is on this host, and of this user alone. The worker has a folder of its own below it, which is removed when the
worker has ended. It is locked while its agent lives, so that the next agent on this host removes what one has left that
was killed: nothing that such a worker still makes would reach the server.

What the cluster says goes to the standard output of its job, which is a file of this host. The server gets it with the
files of the worker. The file is removed unless the agent fails: then it says to the operator why.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import signal
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from fate_flow.engines.placed.folder import OUTPUT, end_of_output
from fate_flow.engines.placed.memory import Kills
from fate_flow.engines.placed.run import TIME_IS_OVER
from fate_flow.engines.staged import agent
from fate_flow.engines.staged.places import ROOT, WORKER

BAD_FOLDER = 79                  # the exit code for the cluster; what is wrong is in its output
_LOCK = ".lock"


@dataclass
class NodeAgent(agent.Agent):
    """The agent in a job of a cluster, which ends jobs for causes of its own."""

    SIGNALS: ClassVar[tuple[signal.Signals, ...]] = (
        signal.SIGTERM, signal.SIGINT, signal.SIGHUP, TIME_IS_OVER,
    )  # fmt: skip
    output: Path | None = None       # what the cluster says of its job
    is_out_of_time: bool = False
    kills: Kills = field(default_factory=Kills.now)

    def tell_to_end(self, _number: int, _frame: object) -> None:
        if _number == TIME_IS_OVER and not self.asked:
            self.is_out_of_time = True
        super().tell_to_end(_number, _frame)

    def leave_more(self, folder: Path) -> None:
        if self.output is not None:
            (folder / OUTPUT).write_bytes(end_of_output(self.output))

    def explained(self, end: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the end with a cause that only this host knows; not if the server wanted it, or it has ended well."""
        if self.asked or end.get("cause") not in ("exited", "stopped") or end.get("exit_code") == 0:
            return end
        if self.is_out_of_time:
            return {**end, "cause": "timeout", "message": "the time that its cluster gives it is over"}
        if self.kills.are_more():
            return {**end, "cause": "out_of_memory", "message": "its cluster has no more memory for it"}
        return end


def main(argv: Sequence[str], output: Path | None = None) -> int:
    """Run the worker to its end; return the exit code for the cluster: 0 if the end has reached the server.

    `output`: the file of this host into which the cluster speaks, if it is for the server."""
    signal.signal(TIME_IS_OVER, signal.SIG_IGN)      # until the agent can take it: it would end this process
    base, os.environ[WORKER] = Path(argv[0]), argv[1]
    try:
        with scratch(base) as root:
            os.environ[ROOT] = str(root)
            code = agent.main(["run"], partial(NodeAgent, output=output))
    except (OSError, NotOurs) as error:
        sys.stderr.write(f"this host cannot run the worker: {error}\n")
        return BAD_FOLDER
    if code in (agent.OK, agent.NOT_MINE) and output is not None:
        with suppress(OSError):
            output.unlink()
    return code


class NotOurs(Exception):
    """A folder that others of this host can write to, or read."""


@contextmanager
def scratch(base: Path) -> Iterator[Path]:
    """Make a folder for one worker, and remove it with all that is in it. Raises OSError, NotOurs."""
    with suppress(FileExistsError):
        base.mkdir(mode=0o700)
    found = base.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise NotOurs(f"{base} is not a folder of this user alone (mode 0700): remove it, or name another place")
    _remove_left(base)
    root = base / secrets.token_hex(8)
    draft = base / f".{root.name}"
    draft.mkdir(mode=0o700)                        # not to be taken for one that was left, while it has no lock
    lock = os.open(draft / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        draft.rename(root)
        yield root
    finally:
        for one in (root, draft):
            shutil.rmtree(one, ignore_errors=True)
        os.close(lock)


def _remove_left(base: Path) -> None:
    for one in base.iterdir():
        if one.name.startswith("."):
            continue
        try:
            lock = os.open(one / _LOCK, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue                               # another agent has removed it
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pass                                   # its agent lives
        else:
            shutil.rmtree(one, ignore_errors=True)
        finally:
            os.close(lock)


def output_file() -> Path | None:
    """Return the file to which this process prints; None if it prints to something else."""
    try:
        if not stat.S_ISREG(os.fstat(1).st_mode):
            return None
        path = Path(os.readlink("/proc/self/fd/1"))
        return path if os.path.samestat(path.stat(), os.fstat(1)) else None
    except OSError:
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], output_file()))
