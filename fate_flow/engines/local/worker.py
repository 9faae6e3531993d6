"""The files of a worker: its order, its processes, its end (docs/reference/contracts.md, "The worker folder").

Each file has one writer and appears complete or not at all, so that any process may read or die at any moment. Besides
the files of the contract there is `claimed`, which contains the identity of the claiming process. Only the process that
links it first may start the worker, or decide that it never starts.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from signal import pidfd_send_signal
from typing import Any, Literal, Self, TypeVar, cast, get_args

from fate_flow.components.base.own_servers import machine_of_processes
from fate_flow.components.base.regular_file import NoRegularFile, open_regular
from fate_flow.core.model.artifact import Content, contents_in
from fate_flow.engines.local import proc
from fate_flow.engines.local.groups import Limits

JOBS = "jobs"                               # the folder of a home with the folders of workers
RUN = "run"                                 # the folder of a home with what its processes share
WORKER_VARIABLE = "FATE_FLOW_WORKER"        # in the environment of a program: the folder of its worker
LAUNCH = "launch.json"
CLAIMED = "claimed"
RUNNER = "runner.json"
ARRIVED = "arrived"                         # its runner waits for the others of its gang
GO = "go"                                   # all of the gang have begun
SECOND = "begun_again"                      # a second job of it has found its claim; the first may compute
RESULT = "result.json"
STOP = "stop.json"
EXIT = "exit.json"
MOST_JSON_BYTES = 32 * 1024 * 1024

T = TypeVar("T")
_MACHINE = os.uname().nodename[:60]

Way = Literal["fork", "exec"]
Cause = Literal[
    "exited", "stopped", "timeout", "out_of_memory", "server_lost", "not_started",
    "preempted", "node_lost", "not_placed", "lost",      # which only an engine of many machines can say
]
State = Literal["created", "running", "exited", "lost"]


@dataclass(frozen=True)
class WorkerSpec:
    """The order to run one worker. All paths are absolute, because a runner has no folder of its own."""

    worker_id: str
    folder: Path
    provider: str                       # the name of the provider that asked for it; nothing here depends on it
    way: Way                            # fork: argv are arguments of `python -m fate_flow.components`; exec: a program
    argv: tuple[str, ...]
    cwd: Path
    stdout: Path
    stderr: Path
    env: Mapping[str, str] = field(default_factory=dict)    # added to the server's own
    timeout_seconds: float = 0.0        # 0: no limit
    grace_seconds: float = 10.0         # between SIGTERM and SIGKILL
    lease_file: Path | None = None      # rewritten by a living server
    lease_seconds: float = 0.0          # 0: the worker runs on without a server
    output_max_bytes: int = 0           # kept of stdout and of stderr; 0: all of it, written by the worker itself
    output_setting: str = ""            # the key of the configuration that this limit comes from
    limits: Limits = field(default_factory=Limits)
    sign_seconds: float = 0.0           # how often the runner shows that it lives (`signs.py`); 0: nobody looks
    gather_seconds: float | None = None     # how long it waits for the others of its gang; 0: no limit; None: not
    reads_contents: bool = False        # the runner says what the worker has run, read and made, by digests

    def __post_init__(self) -> None:
        for path in (self.folder, self.cwd, self.stdout, self.stderr, self.lease_file):
            if path is not None and not path.is_absolute():
                raise ValueError(f"worker {self.worker_id}: {path} is not absolute")
        if self.way not in ("fork", "exec"):
            raise ValueError(f"worker {self.worker_id}: way {self.way!r} is neither fork nor exec")
        if self.way == "exec" and not self.argv:
            raise ValueError(f"worker {self.worker_id}: no program")

    def to_json(self) -> str:
        """Return all fields except the folder, in which the text is stored."""
        return json.dumps({
            "worker_id": self.worker_id, "provider": self.provider, "way": self.way, "argv": self.argv,
            "env": dict(self.env),
            "cwd": str(self.cwd), "stdout": str(self.stdout), "stderr": str(self.stderr),
            "timeout_seconds": self.timeout_seconds, "grace_seconds": self.grace_seconds,
            "lease_file": str(self.lease_file or ""), "lease_seconds": self.lease_seconds,
            "output_max_bytes": self.output_max_bytes, "output_setting": self.output_setting,
            "limits": asdict(self.limits), "sign_seconds": self.sign_seconds, "gather_seconds": self.gather_seconds,
            "reads_contents": self.reads_contents})

    @classmethod
    def from_json(cls, folder: Path, text: str) -> Self:
        """Read the text of `to_json`. Raises ValueError, KeyError or TypeError for any other text."""
        value = json.loads(text)
        return cls(
            worker_id=value["worker_id"], folder=folder, provider=value["provider"], way=value["way"],
            argv=tuple(value["argv"]),
            cwd=Path(value["cwd"]), stdout=Path(value["stdout"]), stderr=Path(value["stderr"]), env=value["env"],
            timeout_seconds=value["timeout_seconds"], grace_seconds=value["grace_seconds"],
            lease_file=Path(value["lease_file"]) if value["lease_file"] else None,
            lease_seconds=value["lease_seconds"], output_max_bytes=value["output_max_bytes"],
            output_setting=value["output_setting"],
            limits=Limits(**value.get("limits", {})),     # an order of an earlier release has none
            sign_seconds=value.get("sign_seconds", 0.0), gather_seconds=value.get("gather_seconds"),
            reads_contents=value.get("reads_contents", False))


@dataclass(frozen=True)
class ProcessId:
    """The identity of one process; a later process with the same number has another one."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> Self:
        """Return the identity of a process. Raises ProcessLookupError if it does not exist."""
        stat = proc.read_stat(pid)
        if stat is None:
            raise ProcessLookupError(f"no process {pid}")
        return cls.seen(stat)

    @classmethod
    def seen(cls, stat: proc.Stat) -> Self:
        """Return the identity of a process that was seen so."""
        return cls(stat.pid, stat.started)

    def is_alive(self) -> bool:
        return self._running() is not None

    def _running(self) -> proc.Stat | None:
        stat = proc.read_stat(self.pid)
        return stat if stat is not None and stat.started == self.started and stat.is_running else None

    def send(self, signal_number: int, *, group: int | None = None) -> bool:
        """Send a signal to this very process, never to another; False if it is gone.

        `group`: send only while it is in this group; False if it has left it."""
        try:
            handle = os.pidfd_open(self.pid)
        except OSError:
            return False
        try:
            # Checked with the handle open, because the handle cannot refer to another process from then on.
            stat = self._running()
            if stat is None or group not in (None, stat.group):
                return False
            pidfd_send_signal(handle, signal_number)
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)
        return True


NOBODY = ProcessId(0, 0)
"""No process has this number."""


@dataclass(frozen=True)
class Started:
    """`runner.json`: the processes of a worker that was started."""

    runner: ProcessId
    worker: ProcessId
    machine: str = ""         # whose process numbers these are; empty in folders of older releases

    def to_json(self) -> str:
        return json.dumps({"runner_pid": self.runner.pid, "runner_started": self.runner.started,
                           "pid": self.worker.pid, "pid_started": self.worker.started, "machine": self.machine})

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        return _read(folder / RUNNER, cls.of)

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self:
        """Read the object of `to_json`. Raises KeyError, TypeError, ValueError for any other."""
        return cls(
            _process_in(value, "runner_pid", "runner_started"), _process_in(value, "pid", "pid_started"),
            str(value.get("machine", "")),
        )  # fmt: skip

    @property
    def is_elsewhere(self) -> bool:
        """Return whether these are processes of another machine, or of this one before its last boot."""
        return self.machine not in ("", machine_of_processes())

    def survivors(self) -> list[proc.Stat]:
        """Return the processes of this worker that run without its runner; they are still in the runner's session."""
        leader = proc.read_stat(self.runner.pid)
        if leader is not None and leader.started != self.runner.started:
            return []    # the number is reused, so no process of the old session is left
        members = proc.running_in_session(self.runner.pid)
        return [stat for stat in members
                if stat.pid != self.runner.pid and stat.started >= self.runner.started]


@dataclass(frozen=True)
class Exit:
    """`exit.json`: how a worker ended, written when none of its processes runs any more."""

    exit_code: int | None
    signal: int | None
    cause: Cause
    message: str = ""    # one line, if it did not start or had too little memory
    contents: tuple[Content, ...] = ()

    def to_json(self) -> str:
        value = {"exit_code": self.exit_code, "signal": self.signal, "cause": self.cause}
        more = {"message": self.message, "contents": [one.as_json() for one in self.contents]}
        return json.dumps({**value, **{key: said for key, said in more.items() if said}})

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        return _read(folder / EXIT, cls.of)

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self:
        """Read the object of `to_json`. Raises KeyError, TypeError, ValueError for any other."""
        return cls(
            _number_or_none(value["exit_code"]), _number_or_none(value["signal"]), _cause(value["cause"]),
            str(value.get("message", "")), contents_in(value.get("contents", [])),
        )


@dataclass(frozen=True)
class Stop:
    """`stop.json`: the request that a worker ends."""

    grace_seconds: float
    asked_at: float = 0.0    # on the machine's monotonic clock, which all processes share until the next boot
    machine: str = ""        # whose clock that is

    def to_json(self) -> str:
        return json.dumps({"grace_seconds": self.grace_seconds, "asked_at": self.asked_at, "machine": self.machine})

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        return _read(folder / STOP, lambda value: cls(
            _seconds(value["grace_seconds"]), _seconds(value.get("asked_at", 0.0)), str(value.get("machine", ""))
        ))  # fmt: skip


@dataclass(frozen=True)
class Observation:
    """The state of a worker at one moment, from its folder and its processes."""

    state: State
    process: ProcessId | None = None       # of the worker; None if it never started
    exit: Exit | None = None               # in state exited
    result: dict[str, Any] | None = None   # in states exited and lost; None: there is none, or it is incomplete
    waits: str = ""                        # in state created: what it waits for, where a cluster has it
    is_placed: bool = False                # in state created: a cluster has it, or may have, and decides when it runs
    has_arrived: bool = False              # in state created: its runner waits for the others of its gang


def claim(folder: Path) -> bool:
    """Claim the worker of this folder; True only for the one process that may decide whether it starts."""
    me = ProcessId.of(os.getpid())
    draft = draft_of(folder / CLAIMED)
    draft.write_text(json.dumps({"pid": me.pid, "started": me.started, "machine": machine_of_processes()}))
    try:
        # A link, not O_EXCL, because the claim must never exist without the identity of its process.
        os.link(draft, folder / CLAIMED)
    except FileExistsError:
        # A server of files may have made the link, and have been asked again because its answer was lost.
        return draft.stat().st_nlink > 1
    finally:
        draft.unlink()
    return True


def never_start(folder: Path, end: Exit) -> bool:
    """Claim the worker of this folder and write its end; False if another process has claimed it."""
    if not claim(folder):
        return False
    try:
        write_atomically(folder / EXIT, end.to_json())
    except OSError:
        # No runner has this claim: while this process lives, nobody could start the worker or end it.
        (folder / CLAIMED).unlink(missing_ok=True)
        raise
    return True


def release(folder: Path) -> None:
    """Let a worker begin that waits for the others of its gang."""
    with suppress(FileNotFoundError):        # the folder was removed
        write_atomically(folder / GO, "", is_durable=False)


def claimer(folder: Path) -> ProcessId | None:
    """Return the process that claimed this folder; None if none did. If the claim is not readable, that process counts
    as dead."""
    found = _claim_in(folder)
    if found is None and (folder / CLAIMED).exists():
        return _claim_in(folder) or NOBODY      # read again: it may be newer than the first look
    return found


def is_claimed_elsewhere(folder: Path) -> bool:
    """Return whether a process of another machine has claimed this folder."""
    machine = _read(folder / CLAIMED, lambda value: str(value.get("machine", "")))
    return machine not in (None, "", machine_of_processes())


def _claim_in(folder: Path) -> ProcessId | None:
    return _read(folder / CLAIMED, lambda value: _process_in(value, "pid", "started"))


def _read(path: Path, make: Callable[[dict[str, Any]], T]) -> T | None:
    """Return what a file of the worker folder says; None if it is missing, or says nothing of the kind.

    A program can write to it, too, and must not stop the server with it."""
    value = read_json(path)
    try:
        return None if value is None else make(value)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _process_in(value: Mapping[str, Any], pid: str, started: str) -> ProcessId:
    return ProcessId(_number(value[pid]), _number(value[started]))


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise ValueError(f"{value!r} is no number")
    return value


def _number_or_none(value: object) -> int | None:
    return None if value is None else _number(value)


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
        raise ValueError(f"{value!r} is no time")
    return float(value)


def _cause(value: object) -> Cause:
    if value not in get_args(Cause):
        raise ValueError(f"{value!r} is no cause of an end")
    return cast("Cause", value)


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON object; None if the file is missing, larger than MOST_JSON_BYTES, or not a complete JSON object.

    Programs can write into the folder of their worker, so anything may be there instead."""
    try:
        with open_regular(path) as file:
            text = file.read(MOST_JSON_BYTES + 1)
        value = json.loads(text) if len(text) <= MOST_JSON_BYTES else None
    except (NoRegularFile, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def write_atomically(path: Path, text: str, *, mode: int = 0o644, is_durable: bool = True) -> None:
    """Write a file so that it never appears incomplete; if `is_durable`, not even after a power cut."""
    draft = draft_of(path)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with open(descriptor, "w") as file:
            file.write(text)
            file.flush()
            if is_durable:
                os.fsync(descriptor)
        os.replace(draft, path)
    except OSError:                    # on a full disk, a useless draft must not take space
        draft.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def draft_of(path: Path) -> Path:
    """Return a path in the same folder that no other thread writes, on whatever machine."""
    return path.with_name(f".{path.name}.{_MACHINE}.{os.getpid()}.{threading.get_ident()}")
