"""Errors of the operating system in words that say what to do."""

from __future__ import annotations

import errno

_REMEDIES = {
    errno.ENOSPC: "the disk is full; make room there",
    errno.EDQUOT: "the quota of this user is used up; make room there",
    errno.EROFS: "the file system is mounted read-only; mount it writable, or configure another folder",
    errno.EACCES: "permission denied; give this user access, or configure another folder",
}


def os_error_text(error: OSError, path: object = None) -> str:
    """What failed, and what to do about it, in one line without the number of the error.

    `path`: what was to be read or written, where the error names none or only a draft of it."""
    what = _REMEDIES.get(error.errno or 0) or error.strerror or str(error)
    named = path or error.filename
    return f"{named}: {what}" if named is not None else what
