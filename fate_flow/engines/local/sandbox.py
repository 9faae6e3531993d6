"""The sandbox of programs (`commands.sandbox: bubblewrap`): what a program sees of the machine, and its network.

The worker makes a network of its own, in which there is nothing but loopback, and listens there at the port of the
server's listener for workers. A socket stays in the network in which it was made, so a process outside can accept at
it: this *forwarder* carries each connection to the real listener, byte by byte. Then the worker becomes bubblewrap,
which shows the program a machine that it cannot write to, with a /tmp, a /run and processes of its own, and becomes
the program.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from stat import S_ISDIR
from typing import Any
from urllib.parse import urlsplit

from fate_flow.core.model.program import BUBBLEWRAP
from fate_flow.engines.local import proc
from fate_flow.engines.local.program_user import ProgramUser

_PROGRAM = "bwrap"
_LISTENER_VARIABLE = "FATE_FLOW_EXCHANGE_URL"
_PACKAGE_VARIABLE = "FATE_FLOW_PYTHON_PATH"
_OF_STREAMS = ("FATE_FLOW_LISTEN_", "FATE_FLOW_PORT_")
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_REQUEST = "16sH14s"                 # of an interface: its name and flags
_PR_SET_DUMPABLE = 4
_PIECE = 65536
_TRIAL_SECONDS = 20.0
_LIBC = ctypes.CDLL(None, use_errno=True)


def find_bubblewrap(where: str) -> str:
    """Return the path of bubblewrap. `where`: BUBBLEWRAP, or its path. Raises LookupError if there is none."""
    program = which(_PROGRAM if where == BUBBLEWRAP else where)
    if program is None:
        raise LookupError(f"commands.sandbox: {where}: there is no such program on the PATH of this server (bwrap)")
    return program


def check_bubblewrap(where: str, user: ProgramUser | None) -> None:
    """Raises LookupError with the reason if this machine does not let programs of a user be in bubblewrap; None: the
    server's user."""
    program = find_bubblewrap(where)
    trial = [program, "--cap-drop", "ALL", "--unshare-net", "--unshare-pid", "--ro-bind", "/", "/", "--dev", "/dev"]
    trial += ["--proc", "/proc", "true"]
    other: dict[str, Any] = {"user": user.uid, "group": user.gid, "extra_groups": []} if user else {}
    try:
        done = subprocess.run(
            trial, capture_output=True, text=True, timeout=_TRIAL_SECONDS, check=False, cwd="/", **other
        )
    except (OSError, subprocess.TimeoutExpired) as error:       # such as a program that the user does not reach
        raise LookupError(f"commands.sandbox: {program} does not work here: {error}") from error
    if done.returncode:
        raise LookupError(f"commands.sandbox: {program} does not work here: {done.stderr.strip() or done.returncode}")


def check_without_network(env: Mapping[str, str]) -> None:
    """Raises PermissionError for a program that needs more of the network than its server."""
    if any(name.startswith(_OF_STREAMS) for name in env):
        raise PermissionError(
            "ports: this party runs programs without a network (commands.sandbox), so they can have no streams"
        )


def leave_network(env: Mapping[str, str]) -> None:
    """Put this process into a network of its own, where only the listener for workers answers. Raises OSError.

    The forwarder is a process of this worker, and ends with it."""
    url = urlsplit(env.get(_LISTENER_VARIABLE, ""))
    address = (url.hostname, url.port) if url.hostname and url.port else None
    here, there = socket.socketpair()
    if os.fork() == 0:
        _become_forwarder(there, here, address)
    there.close()
    user, group = os.geteuid(), os.getegid()
    _LIBC.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)      # after a change of the user, the files below are root's otherwise
    _unshare(_CLONE_NEWNET if user == 0 else _CLONE_NEWNET | _CLONE_NEWUSER)
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _raise_loopback()
    if address:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", address[1]))
        listener.listen(128)
        socket.send_fds(here, [b"!"], [listener.fileno()])
        listener.close()
    here.close()


@dataclass(frozen=True)
class Sandbox:
    """What bubblewrap shows a program: the machine without its own /tmp, /run and the homes, and its worker folder."""

    bubblewrap: str
    folder: Path                       # of the worker
    homes: tuple[Path, ...]            # to hide; outer ones first
    writable: tuple[Path, ...]         # the first of these is the working folder

    def arguments(self, argv: Iterable[str], program: Path, env: Mapping[str, str]) -> tuple[str, ...]:
        """Return the arguments of bubblewrap that run the program. Call it as the program's user."""
        found = [
            # Bubblewrap of root would leave all capabilities, and with them ways out, to the program.
            self.bubblewrap, "--cap-drop", "ALL", "--unshare-pid", "--unshare-ipc", "--ro-bind", "/", "/",
            "--dev", "/dev", "--proc", "/proc",
            "--tmpfs", "/tmp", "--tmpfs", "/var/tmp", "--tmpfs", "/run",  # noqa: S108  # inside
            *(part for home in self.homes for part in _hiding(home)),
            "--ro-bind", str(self.folder), str(self.folder),
        ]  # fmt: skip
        if package := env.get(_PACKAGE_VARIABLE):
            found += ["--ro-bind-try", package, package]
        for place in self.writable:
            found += ["--bind", str(place), str(place)]
        _, *rest = argv
        return (*found, "--chdir", str(self.writable[0]), "--", str(program), *rest)


def _hiding(home: Path) -> tuple[str, ...]:
    """Return the arguments that hide a home. Bubblewrap mounts nothing where its user does not reach: the folder that
    closes the way is hidden instead. Raises OSError if it cannot be known where the home is."""
    real = Path(os.path.realpath(home))          # else a folder that only has a link in it would be hidden
    for folder in (real, *real.parents):
        try:
            return ("--tmpfs", str(folder)) if S_ISDIR(folder.stat().st_mode) else ()
        except PermissionError:
            continue
        except (FileNotFoundError, NotADirectoryError):
            break
    return ()


def _unshare(flags: int) -> None:
    if _LIBC.unshare(flags):
        number = ctypes.get_errno()
        raise OSError(number, f"commands.sandbox: no network of its own for a program: {os.strerror(number)}")


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack(_REQUEST, b"lo", 0, b"")
        _, flags, _ = struct.unpack(_REQUEST, fcntl.ioctl(any_socket, _SIOCGIFFLAGS, asked))
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack(_REQUEST, b"lo", flags | _IFF_UP, b""))


def _become_forwarder(there: socket.socket, here: socket.socket, address: tuple[str, int] | None) -> None:
    """Carry connections until this process is killed with its worker, which has the only other end."""
    try:
        proc.set_name("fate-forwarder")
        os.setpgid(0, 0)               # a stop asks the group of the worker, and waits for all of it
        here.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        _, descriptors, _, _ = socket.recv_fds(there, 1, 1)
        there.close()
        for number in (0, 1, 2):       # the runner reads the worker's output to its end
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, number)
            os.close(null)
        if descriptors and address:
            with socket.socket(fileno=descriptors[0]) as listener:
                while True:
                    _begin_to_carry(listener.accept()[0], address)
    finally:
        os._exit(0)


def _begin_to_carry(accepted: socket.socket, address: tuple[str, int]) -> None:
    """Let a thread carry this connection; close it if there can be none, and carry later ones all the same."""
    try:
        threading.Thread(target=_carry, args=(accepted, address), daemon=True).start()
    except RuntimeError:               # too many processes of this user, or too little memory of this machine
        accepted.close()


def _carry(accepted: socket.socket, address: tuple[str, int]) -> None:
    with suppress(OSError), accepted, socket.create_connection(address) as server:
        back = threading.Thread(target=_pump, args=(server, accepted), daemon=True)
        back.start()
        _pump(accepted, server)
        back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(_PIECE):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
