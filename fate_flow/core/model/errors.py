"""The errors of the product. The docstring of a class is its default message. What a caller is told about an error is
decided by the envelope of the API; the retcodes of FATE's envelope are in core/wire/v1/retcodes.py."""

from __future__ import annotations

from typing import Any

# The retcodes of answers between parties that servers decide by. They are here, since to import jobs takes `flow` long.
NOT_EFFECTIVE = 10
NO_CAPACITY = 103
UNREACHABLE = 104
NOT_READY = 106
NOT_AUTHENTICATED = 109


class FlowError(Exception):
    """The request could not be carried out."""

    def __init__(self, message: str = "", *, data: Any = None) -> None:
        self.message = message or (type(self).__doc__ or "").strip()
        self.data = data
        super().__init__(self.message)


class BadRequest(FlowError):
    """The request is not well formed."""


class BadDocument(BadRequest):
    """A submitted document is wrong; the message begins with the path of the offending key."""

    def __init__(self, path: str, problem: str) -> None:
        self.problem = problem
        super().__init__(f"{path}: {problem}" if path else problem)


class NotFound(FlowError):
    """No such thing."""


class NotOffered(FlowError):
    """This server does not do that."""


class JobNotFound(NotFound):
    """No such job."""


class Conflict(FlowError):
    """The thing exists already, or is in another state than the request needs."""


class OperationFailed(FlowError):
    """The operation failed."""


class Refused(OperationFailed):
    """A party refused."""


class TooLarge(Refused):
    """What was sent is larger than it may be."""


class TooMany(Refused):
    """The caller has as much here as it may have at once."""


class NoSpace(Refused):
    """The disk is nearly full."""


class NotEffective(FlowError):
    """The request changed nothing: the row has moved on."""


class NotReady(FlowError):
    """Not finished yet; ask again."""


class PeerUnreachable(FlowError):
    """The other party did not answer."""


class PermissionDenied(FlowError):
    """The caller may not do this."""


class Busy(FlowError):
    """Too much at once; try again in a moment."""


class StorageFailed(FlowError):
    """The database or the disk refused the write; nothing was changed."""


class StorageUnavailable(StorageFailed):
    """The database was locked, broke a deadlock, or was gone before the commit; nothing was changed."""


class DiskFull(StorageFailed):
    """The disk of the database has no space for the write; nothing was changed."""


class CommitUnknown(StorageFailed):
    """The database was gone while it committed; whether anything was changed is not known."""


DATABASE_AWAY = (StorageUnavailable, CommitUnknown, DiskFull)
"""Errors that are no bug of ours: they are logged without a traceback."""


class BadSettings(FlowError):
    """The configuration is wrong; the message names the file and the key."""
