"""The files of private keys: readable for their user alone, complete or absent, never replaced."""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fate_flow.core.model.errors import BadSettings, Conflict

ROOT_FILE, TLS_FILE, LIST_FILE = "root.pem", "tls.pem", "list.json"
RECORD_FILE, WITNESS_FILE = "record.pem", "witness.pem"
"""In the folder of the keys of a party. The file of the message key has no fixed name."""


_LOCK_FILE = ".lock"


@contextmanager
def locked(folder: Path, *, makes_folder: bool = False) -> Iterator[None]:
    """Let no other command change the keys in this folder meanwhile. Without the folder, nothing is locked.

    The lock ends with its process. Raises Conflict if another command has it; BadSettings."""
    path = folder / _LOCK_FILE
    try:
        if makes_folder:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600) if folder.exists() else None
    except OSError as error:
        raise BadSettings(f"{path}: cannot be opened: {error.strerror}") from error
    try:
        if handle is not None:
            _lock(handle, path)
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _lock(handle: int, path: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise Conflict(
            f"{path}: another fate_flow key command changes the keys of this party now, so nothing was changed: run "
            "this one again when that has ended"
        ) from error


def next_to(path: Path) -> Path:
    """Return the file of the announced key that takes the place of the one in this file."""
    return path.with_name(f"{path.stem}.next{path.suffix}")


def put_next(path: Path, key_id: str) -> None:
    """Let the announced key take the place of this one, whose file is kept under its key id.

    At every moment there is a key under this name. Raises BadSettings."""
    try:
        with suppress(FileExistsError):          # after a crash between the two steps
            os.link(path, path.with_name(f"{path.stem}.{key_id[:16]}{path.suffix}"))
        os.replace(next_to(path), path)
    except OSError as error:
        raise BadSettings(f"{path}: cannot be replaced: {error.strerror}") from error


def read_private(path: Path) -> bytes:
    """Return the content of the file of a private key. Raises BadSettings, naming the file."""
    try:
        mode, content = stat.S_IMODE(path.stat().st_mode), path.read_bytes()
    except FileNotFoundError as error:
        raise BadSettings(f"{path}: there is no private key of this party: fate_flow key make -c CONF") from error
    except OSError as error:
        raise BadSettings(f"{path}: cannot be read: {error.strerror}") from error
    if mode & 0o077:
        raise BadSettings(f"{path}: is of mode {mode:04o}, so that others may use the key of this party: chmod 600")
    return content


def write_private(path: Path, content: bytes) -> None:
    """Write the file of a new private key. Raises Conflict if it exists; BadSettings if it cannot be written."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = _written(path, content, 0o600)
        try:
            os.link(draft, path)                 # never replaces an existing file
        finally:
            draft.unlink()
    except FileExistsError as error:
        raise Conflict(
            f"{path}: is there already, and all other parties have its public key. To change a key of a party that is "
            "connected: fate_flow key announce"
        ) from error
    except OSError as error:
        raise BadSettings(f"{path}: cannot be written: {error.strerror}") from error


def write_public(path: Path, text: str) -> None:
    """Write or replace a file of public keys. Raises BadSettings if it cannot be written."""
    try:
        draft = _written(path, text.encode(), 0o644)
        os.replace(draft, path)
    except OSError as error:
        raise BadSettings(f"{path}: cannot be written: {error.strerror}") from error


def _written(path: Path, content: bytes, mode: int) -> Path:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        with open(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise
    return draft
