"""Receive files of clients: straight to disk below `<home>/uploads`, whatever their size, and complete or not at all.

During the transfer, the file is named `<uuid>.part`. When it is complete it gets its final name, and from then on it
belongs to the job that reads it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from flask import request
from werkzeug.exceptions import RequestEntityTooLarge

from fate_flow.api.bodies.reading import BodyRequest
from fate_flow.core.model.errors import BadRequest, StorageFailed
from fate_flow.core.model.grammar import shown
from fate_flow.settings.settings import PART, Settings

_FORM_BYTES = 1024 * 1024           # limit for the form without its file
_STALE_SECONDS = 24 * 3600


class ReceivingRequest(BodyRequest):
    """A request that stores its files in our own folder instead of the machine's temporary folder."""

    uploads: Path                   # set by `request_class`
    part: Path | None = None        # the file of this request

    def _get_file_stream(self, *_: Any, **__: Any) -> IO[bytes]:
        """Return the file that the form parser writes to, whatever name the client gave it."""
        if self.part is not None:
            raise BadRequest("file: the form has several files, only one is allowed")
        self.uploads.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.part = self.uploads / f"{uuid4().hex}{PART}"
        return self.part.open("x+b")


def request_class(settings: Settings) -> type[ReceivingRequest]:
    """Return the class of requests of this server; remove the partial files of a killed server."""
    folder = settings.uploads_dir
    _sweep(folder, time.time() - _STALE_SECONDS)
    return type("HomeRequest", (ReceivingRequest,), {"uploads": folder})


def is_upload() -> bool:
    """Return whether the request is a form, which brings a file."""
    return request.mimetype == "multipart/form-data"


@contextmanager
def received(max_bytes: int) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the file of this request on our disk, and the other fields of its form.

    If the block raises, the file is removed. Raise BadRequest if there is no complete file, StorageFailed if it cannot
    be written."""
    path: Path | None = None
    try:
        path, fields = _receive(max_bytes)
        yield path, fields
    except BaseException:
        _remove(path)
        raise
    finally:
        drop_part()


def _receive(max_bytes: int) -> tuple[Path, dict[str, Any]]:
    # The larger limit is only for forms, which are parsed piece by piece; any other body is read at once.
    request.max_content_length = max_bytes + _FORM_BYTES
    if (request.content_length or 0) > request.max_content_length:
        raise _too_large(max_bytes)
    try:
        files, fields = request.files, request.form.to_dict()
        file = files.get("file")
        part = _part()
        if file is None or part is None:
            raise BadRequest("required argument are missing: file; the form has no complete file")
        file.close()
        return _complete(part, file.filename, max_bytes), fields
    except RequestEntityTooLarge as error:
        if _part() is None:
            raise BadRequest("file: is missing among the first fields of the form") from error
        raise _too_large(max_bytes) from error
    except OSError as error:
        raise StorageFailed(f"file: cannot be written below uploads: {error.strerror}") from error


def _complete(part: Path, name: str | None, max_bytes: int) -> Path:
    size = part.stat().st_size
    if size > max_bytes:
        raise _too_large(max_bytes)
    if not size:
        raise BadRequest(f"file: {shown(name)} is empty")
    return part.rename(part.with_suffix(""))


def _too_large(max_bytes: int) -> BadRequest:
    return BadRequest(f"file: is larger than {max_bytes} bytes, the limit of limits.upload_max_bytes")


def _part() -> Path | None:
    return getattr(request, "part", None)


def _remove(path: Path | None) -> None:
    if path is not None:
        path.unlink(missing_ok=True)


def drop_part(_: BaseException | None = None) -> None:
    """Remove the partial file of a request at its end, unless it was completed."""
    _remove(_part())


def _sweep(folder: Path, before: float) -> None:
    for path in folder.glob(f"*{PART}"):
        if path.stat().st_mtime < before:
            path.unlink(missing_ok=True)
