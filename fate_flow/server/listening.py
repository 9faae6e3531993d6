"""The sockets on which a server listens; the supervisor opens them before it forks."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

from fate_flow.core.model.errors import FlowError
from fate_flow.core.text.os_errors import os_error_text

_BACKLOG = 1024


def listen(host: str, port: int, key: str) -> socket.socket:
    """Return a TCP socket that listens; `key` is that of the configuration. Raise FlowError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise FlowError(f"{key}: cannot listen on {host}:{port}: {error.strerror}") from error
    listener.listen(_BACKLOG)
    return listener


def listen_at(path: Path) -> socket.socket:
    """Return a Unix socket that only this user can reach, in place of one that a server before has left. Raise
    FlowError."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    mask = os.umask(0o177)
    try:
        with suppress(FileNotFoundError):
            path.unlink()
        listener.bind(f"/proc/self/fd/{folder}/{path.name}")      # a path of a socket has at most 107 bytes
    except OSError as error:
        listener.close()
        raise FlowError(f"cannot listen at {path}: {os_error_text(error)}") from error
    finally:
        os.umask(mask)
        os.close(folder)
    listener.listen(_BACKLOG)
    return listener
