"""The bodies of requests: read at once where that is cheap."""

from __future__ import annotations

from io import BytesIO
from typing import IO

from flask import Request
from werkzeug.exceptions import ClientDisconnected
from werkzeug.utils import cached_property

_AT_ONCE = 8 * 1024 * 1024       # bytes; a chunk of the exchange has at most 4 MiB


class BodyRequest(Request):
    """A request whose body of a known length is asked for in one call.

    werkzeug asks the server for 64 KiB after 64 KiB, and copies each several times: of a body of 1 MiB that takes four
    times as much processor time as to read it."""

    @cached_property
    def stream(self) -> IO[bytes]:
        """The body. Raises ClientDisconnected if it ends too early."""
        length, most = self.content_length, self.max_content_length
        is_form = self.mimetype == "multipart/form-data"          # its files go to disk piece by piece
        if is_form or length is None or length > (_AT_ONCE if most is None else min(most, _AT_ONCE)):
            return super().stream
        try:
            data = self.environ["wsgi.input"].read(length)
        except (OSError, ValueError) as error:
            raise ClientDisconnected from error
        if len(data) < length:
            raise ClientDisconnected
        return BytesIO(data)
