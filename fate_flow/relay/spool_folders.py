"""The folder of one session: its lock, its end, its channels, and its small JSON files."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from fate_flow.core.model.spec import Party
from fate_flow.core.record.carried import ChannelCount, Direction
from fate_flow.relay.channel_files import ChannelFile, Total, locked, locked_channel, make_channel_file

SESSION = "session"
CLOSED = "closed"
SENT = ".sent"                  # the end of the names of files about channels to other parties
_RECEIVED = "received"
_LOCK = "lock"
_OWN_FILES = frozenset({SESSION, CLOSED, _RECEIVED, _LOCK})  # all other files in a session's folder belong to channels
DISK_IS_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

Stamp = tuple[int, int, int, int]
"""Identifies the content of a file: it differs after the file was replaced."""


@contextmanager
def session_folder(folder: str) -> Iterator[None]:
    """Hold the lock of a session's folder; make the folder if it is missing.

    Raises FileNotFoundError if a purge removes it meanwhile."""
    for path in (os.path.dirname(folder), folder):
        with suppress(FileExistsError):     # not `makedirs`: it fails if a purge comes after its own check
            os.mkdir(path, 0o700)
    with locked_folder(folder):
        yield


@contextmanager
def locked_folder(folder: str) -> Iterator[None]:
    """Hold the lock of a session's folder: a file in it, since folders of a file server (NFS) cannot be locked.

    Raises FileNotFoundError if the folder is missing."""
    path = os.path.join(folder, _LOCK)
    with suppress(FileExistsError):
        if not os.path.exists(path):        # on a full disk, nothing is made
            make_channel_file(path)
    with locked(path, os.O_RDWR):
        yield


def entomb(folder: str) -> None:
    try:
        os.rename(os.path.join(folder, SESSION), os.path.join(folder, CLOSED))
    except FileNotFoundError:  # never opened, or closed before
        os.close(os.open(os.path.join(folder, CLOSED), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def drop_channels(folder: str, total: Total) -> None:
    """Delete all channels of a closed session; keep how many chunks they had."""
    received: dict[str, Any] = {}
    for path in channels_in(folder):
        # With the lock, earlier pushes have finished, and later ones see that the session is closed.
        with suppress(FileNotFoundError), locked_channel(path) as channel:
            received[os.path.basename(path)] = channel.marks.stored
    _note_received(folder, received)
    uncount(folder, total)
    for name in os.listdir(folder):
        if name not in _OWN_FILES:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))


def uncount(folder: str, total: Total) -> None:
    """Remove the channels of a session, and their count."""
    for path in channels_in(folder):
        with suppress(FileNotFoundError), locked_channel(path) as channel:
            channel.remove(total)


def channels_in(folder: str) -> list[str]:
    with suppress(FileNotFoundError):
        names = os.listdir(folder)
        return [os.path.join(folder, name) for name in names if name not in _OWN_FILES and "." not in name]
    return []


def counts_in(folder: str) -> Iterator[ChannelCount]:
    """Yield what each channel of a session has carried."""
    with suppress(FileNotFoundError):
        for name in os.listdir(folder):
            if name.endswith(SENT) or (name not in _OWN_FILES and "." not in name):
                found = _count_in(os.path.join(folder, name))
                if found is not None:
                    yield found


def _count_in(path: str) -> ChannelCount | None:
    """Return what a channel has carried; None if that is nothing, or if an older release has made the channel."""
    with suppress(FileNotFoundError), locked(path) as fd:
        channel = ChannelFile(fd, path)
        marks, (role, party_id, topic) = channel.marks, (*channel.name().split("/", 2), "", "")[:3]
        if marks.stored and topic:
            direction = Direction.SENT if path.endswith(SENT) else Direction.RECEIVED
            return ChannelCount(
                direction, Party(role, party_id), topic, marks.stored, marks.messages, marks.size, marks.digest
            )  # fmt: skip
    return None


def _note_received(folder: str, received: dict[str, Any]) -> None:
    if not received:
        return
    try:
        write_json(os.path.join(folder, _RECEIVED), {**received_in(folder), **received})
    except OSError as error:
        # Closing must work on a full disk. Without this file, a repeated push is answered that the session is gone.
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
    """Return the stamp of a file and its document. A file that a power failure emptied counts as missing."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
        if not text.endswith("}"):
            raise FileNotFoundError(errno.ENOENT, "not written to its end", path)
        return stamp_of(os.fstat(file.fileno())), json.loads(text)


def write_json(path: str, document: dict[str, Any]) -> None:
    """Write the document atomically: a reader sees the old one or the new one."""
    fresh = f"{path}.new"
    with open(fresh, "w", encoding="utf-8") as file:
        json.dump(document, file)
    os.replace(fresh, path)


def stamp_of(stat: os.stat_result) -> Stamp:
    return stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size
