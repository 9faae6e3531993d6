"""Errors of the operating system as text that says what to do."""

from __future__ import annotations

import errno

_REMEDIES = {
    errno.ENOSPC: "the disk is full; make room there",
    errno.EDQUOT: "the quota of this user is used up; make room there",
    errno.EROFS: "the file system is mounted read-only; mount it writable, or configure another folder",
    errno.EACCES: "permission denied; give this user access, or configure another folder",
}


def os_error_text(error: OSError, path: object = None) -> str:
    """Return one line that says what failed and what to do, without the error number.

    Give `path`, the file to be read or written, if the error names no file or only a temporary one."""
    what = _REMEDIES.get(error.errno or 0) or error.strerror or str(error)
    named = path or error.filename
    return f"{named}: {what}" if named is not None else what
