"""Errors that FATE Flow 2's clients know by a code of their own (`envelope.py` has the codes of all others)."""

from __future__ import annotations

from typing import Any

from fate_flow.core.model.errors import BadRequest, Conflict, FlowError, JobNotFound, NotFound


class CodedError(FlowError):
    """An error with a code of FATE Flow 2."""

    code: int


class TaskNotFound(CodedError, NotFound):
    """No found task"""

    code = 2000


class ModelNotFound(CodedError, NotFound):
    """No found output model"""

    code = 2005


class TableNotFound(CodedError, NotFound):
    """No found table"""

    code = 7001


class TableExists(CodedError, Conflict):
    """The table exists already"""

    code = 7002


class FileNotThere(CodedError, NotFound):
    """No found file or dir"""

    code = 8001


class ServerNotFound(CodedError, NotFound):
    """No found server"""

    code = 6003


class PermissionFailed(CodedError):
    """A grant names something that is not here, or was not granted."""

    code = 5006


class CreateFailed(CodedError):
    """Create job failed"""

    code = 1002


class BadDag(CodedError, BadRequest):
    """Job params error"""

    code = 1000


class RefusedByInitiator(CodedError):
    """The initiator of the job refused the request."""

    code = 1003


class InvalidRequest(BadRequest):
    """Arguments are missing or of a wrong type; `data` has the place and the key."""

    def __init__(self, place: str, key: str, problem: str) -> None:
        super().__init__("Invalid request.", data={place: {key: [problem]}})


def not_found(kind: type[NotFound], **looked_for: Any) -> NotFound:
    """Return an error with FATE's text: what there is not, and what was looked for."""
    text = "No found job" if kind is JobNotFound else kind().message
    given = ",".join(f"{key}[{value}]" for key, value in looked_for.items() if value is not None)
    return kind(f"{text}: {given}" if given else text)
