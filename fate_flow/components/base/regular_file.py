"""Opening files whose place a job chose, or which a program could replace by something else."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_WHAT_IS_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EPERM)


class NoRegularFile(OSError):
    """At this path is nothing that can be read: nothing at all, a folder, pipe, socket, device, or a file of mode 0."""


def open_regular(path: Path | str) -> BinaryIO:
    """Open a file to read its bytes; a link counts as its target. This never waits, not even for a pipe's writer.

    Raises NoRegularFile; another OSError if the machine is at fault, so that another attempt may succeed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in _WHAT_IS_NO_FILE:
            raise NoRegularFile(error.errno, error.strerror, str(path)) from error
        raise
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        is_folder = stat.S_ISDIR(mode)
        raise NoRegularFile(
            errno.EISDIR if is_folder else errno.EINVAL, "Is a directory" if is_folder else "Not a regular file",
            str(path),
        )  # fmt: skip
    return open(descriptor, "rb")
