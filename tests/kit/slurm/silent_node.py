"""A Python on a node without a network: it has a loopback interface of its own, and no other."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

_SCRIPT = """import ctypes, fcntl, os, socket, struct, sys
NEW_USER, NEW_NET, GET_FLAGS, SET_FLAGS, UP = 0x10000000, 0x40000000, 0x8913, 0x8914, 1
user, group = os.getuid(), os.getgid()
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(NEW_NET if user == 0 else NEW_USER | NEW_NET):
    sys.exit("no network of its own: " + os.strerror(ctypes.get_errno()))
if user:
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
with socket.socket() as one:
    name, flags, rest = struct.unpack("16sh14s", fcntl.ioctl(one, GET_FLAGS, struct.pack("16sh14x", b"lo", 0)))
    fcntl.ioctl(one, SET_FLAGS, struct.pack("16sh14s", name, flags | UP, rest))
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def python_without_network(path: Path) -> Path:
    """Write the program to this path."""
    script = path.with_suffix(".py")
    script.write_text(_SCRIPT)
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P {shlex.quote(str(script))} "$@"\n')
    path.chmod(0o755)
    return path


def why_not(program: Path) -> str:
    """Why this machine has no networks for single processes; empty if it has."""
    done = subprocess.run([str(program), "-c", ""], capture_output=True, text=True, check=False)
    return done.stderr
