"""The sockets on which a server listens; the supervisor opens them before it forks."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fate_flow.core.model.errors import FlowError
from fate_flow.core.text.os_errors import os_error_text

_BACKLOG = 1024


def listen(host: str, port: int, key: str) -> socket.socket:
    """Return a TCP socket that listens; `key` is that of the configuration. Raise FlowError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.socket(family, socket.SOCK_STREAM)
        with _closed_on_error(listener):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen(_BACKLOG)
    except OSError as error:
        raise FlowError(f"{key}: cannot listen on {host}:{port}: {error.strerror}") from error
    return listener


def listen_at(path: Path) -> socket.socket:
    """Return a Unix socket that only this user can reach, in place of one that a server before has left. Raise
    FlowError."""
    try:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with _closed_on_error(listener):
            _bind(listener, path)
            listener.listen(_BACKLOG)
    except OSError as error:
        raise FlowError(f"cannot listen at {path}: {os_error_text(error)}") from error
    return listener


def _bind(listener: socket.socket, path: Path) -> None:
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    mask = os.umask(0o177)
    try:
        with suppress(FileNotFoundError):
            path.unlink()
        listener.bind(f"/proc/self/fd/{folder}/{path.name}")      # a path of a socket has at most 107 bytes
    finally:
        os.umask(mask)
        os.close(folder)


@contextmanager
def _closed_on_error(listener: socket.socket) -> Iterator[None]:
    try:
        yield
    except BaseException:
        listener.close()
        raise
