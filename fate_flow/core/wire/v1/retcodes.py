"""The retcodes of FATE's envelope for the errors of the product (reference: client-api-v1, section 1).

Servers answer each other with them, and the API v1 answers clients with them.
"""

from __future__ import annotations

from collections.abc import Mapping

from fate_flow.core.model.errors import (
    NOT_EFFECTIVE,
    NOT_READY,
    UNREACHABLE,
    BadRequest,
    Busy,
    FlowError,
    JobNotFound,
    NoSpace,
    NotEffective,
    NotFound,
    NotReady,
    OperationFailed,
    PeerUnreachable,
    PermissionDenied,
    StorageFailed,
    TooLarge,
    TooMany,
)

_ANY_ERROR = 100


class TooOld(FlowError):
    """The server of the caller is too old."""


class DecidedBefore(OperationFailed):
    """A submit was refused before; `retcode` and message are stored."""

    def __init__(self, retcode: int, message: str) -> None:
        super().__init__(message)
        self.retcode = retcode


RETCODE_OF: Mapping[type[FlowError], int] = {
    NotEffective: NOT_EFFECTIVE,
    BadRequest: 101,
    JobNotFound: 102,
    NotFound: 101,
    TooLarge: 413,
    TooMany: 429,
    NoSpace: 507,
    OperationFailed: 103,
    PeerUnreachable: UNREACHABLE,
    NotReady: NOT_READY,
    TooOld: 107,
    PermissionDenied: 108,
    StorageFailed: 500,
    Busy: 503,
}
"""The first class that fits counts; all other errors have 100."""


def retcode_of(error: FlowError) -> int:
    return error.retcode if isinstance(error, DecidedBefore) else retcode_of_kind(type(error))


def retcode_of_kind(kind: type[FlowError]) -> int:
    return next((retcode for known, retcode in RETCODE_OF.items() if issubclass(kind, known)), _ANY_ERROR)


OF_QUOTAS = frozenset(map(retcode_of_kind, (NoSpace, TooLarge, TooMany)))
"""The retcodes of refusals by quotas."""

OF_PERMISSIONS = frozenset({retcode_of_kind(PermissionDenied)})
"""The retcodes of refusals because the caller may not do that, or has not proved who it is."""
