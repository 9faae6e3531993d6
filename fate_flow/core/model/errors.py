"""The errors of the product. The docstring of a class is its default message; `retcode` is its code in the v1
envelope (reference: client-api-v1, section 1)."""

from __future__ import annotations

from typing import Any


class FlowError(Exception):
    """The request could not be carried out."""

    retcode = 100

    def __init__(self, message: str = "", *, data: Any = None) -> None:
        self.message = message or (type(self).__doc__ or "").strip()
        self.data = data
        super().__init__(self.message)


class BadRequest(FlowError):
    """The request is not well formed."""

    retcode = 101


class BadDocument(BadRequest):
    """A submitted document is wrong; the message begins with the path of the offending key."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        super().__init__(f"{path}: {problem}" if path else problem)


class NotFound(FlowError):
    """No such thing."""

    retcode = 101


class NotOffered(FlowError):
    """This server does not do that."""


class JobNotFound(NotFound):
    """No such job."""

    retcode = 102


class Conflict(FlowError):
    """The thing exists already, or is in another state than the request needs."""

    retcode = 100


class OperationFailed(FlowError):
    """The operation failed."""

    retcode = 103


class Refused(OperationFailed):
    """A party refused."""


class NotEffective(FlowError):
    """The request changed nothing: the row has moved on."""

    retcode = 10


class NotReady(FlowError):
    """Not finished yet; ask again."""

    retcode = 106


class PeerUnreachable(FlowError):
    """The other party did not answer."""

    retcode = 104


class PermissionDenied(FlowError):
    """The caller may not do this."""

    retcode = 108


class Busy(FlowError):
    """Too much at once; try again in a moment."""

    retcode = 503


class StorageFailed(FlowError):
    """The database or the disk refused the write; nothing was changed."""

    retcode = 500


class StorageUnavailable(StorageFailed):
    """The database was locked, broke a deadlock, or was gone before the commit; nothing was changed."""


class CommitUnknown(StorageFailed):
    """The database was gone while it committed; whether anything was changed is not known."""


class BadSettings(FlowError):
    """The configuration is wrong; the message names the file and the key."""
