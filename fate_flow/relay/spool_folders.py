"""The folder of one session: its lock, its end, its channels, and the small documents in it."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from fate_flow.relay.channel_files import Total, locked, locked_channel

SESSION = "session"
CLOSED = "closed"
_RECEIVED = "received"
_OWN_FILES = frozenset({SESSION, CLOSED, _RECEIVED})  # the rest of a session's folder are channels
DISK_IS_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

Stamp = tuple[int, int, int, int]
"""Of a file: it is another one once the file has been replaced."""


@contextmanager
def session_folder(folder: str) -> Iterator[None]:
    """The folder of a session under its lock, made when it is not there; FileNotFoundError when a purge takes it."""
    for path in (os.path.dirname(folder), folder):
        with suppress(FileExistsError):     # not `makedirs`: it fails when a purge follows its own look
            os.mkdir(path, 0o700)
    with locked(folder):
        yield


def entomb(folder: str) -> None:
    try:
        os.rename(os.path.join(folder, SESSION), os.path.join(folder, CLOSED))
    except FileNotFoundError:  # never opened, or closed before
        os.close(os.open(os.path.join(folder, CLOSED), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def drop_channels(folder: str, total: Total) -> None:
    """Delete all channels of a closed session, but for how much they had."""
    received: dict[str, Any] = {}
    for path in channels_in(folder):
        # Whoever was storing has finished; whoever comes now sees the tombstone.
        with suppress(FileNotFoundError), locked_channel(path) as channel:
            received[os.path.basename(path)] = channel.marks.stored
    _note_received(folder, received)
    uncount(folder, total)
    for name in os.listdir(folder):
        if name not in _OWN_FILES:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))


def uncount(folder: str, total: Total) -> None:
    """Remove the channels of a session, and what they count."""
    for path in channels_in(folder):
        with suppress(FileNotFoundError), locked_channel(path) as channel:
            channel.remove(total)


def channels_in(folder: str) -> list[str]:
    with suppress(FileNotFoundError):
        names = os.listdir(folder)
        return [os.path.join(folder, name) for name in names if name not in _OWN_FILES and "." not in name]
    return []


def _note_received(folder: str, received: dict[str, Any]) -> None:
    if not received:
        return
    try:
        write_json(os.path.join(folder, _RECEIVED), {**received_in(folder), **received})
    except OSError as error:
        # Closing has to work on a full disk; who repeats a push is then told that the session is gone.
        if error.errno not in DISK_IS_FULL:
            raise


def received_in(folder: str) -> dict[str, Any]:
    try:
        return read_json(os.path.join(folder, _RECEIVED))[1]
    except FileNotFoundError:
        return {}


def folders_in(path: str) -> list[str]:
    with suppress(FileNotFoundError), os.scandir(path) as entries:
        return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    return []


def read_json(path: str) -> tuple[Stamp, dict[str, Any]]:
    """The document and the stamp of its file; one that a power failure emptied counts as not there."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
        if not text.endswith("}"):
            raise FileNotFoundError(errno.ENOENT, "not written to its end", path)
        return stamp_of(os.fstat(file.fileno())), json.loads(text)


def write_json(path: str, document: dict[str, Any]) -> None:
    """Put the document there as a whole; a reader sees the old one or the new one."""
    fresh = f"{path}.new"
    with open(fresh, "w", encoding="utf-8") as file:
        json.dump(document, file)
    os.replace(fresh, path)


def stamp_of(stat: os.stat_result) -> Stamp:
    return stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size
