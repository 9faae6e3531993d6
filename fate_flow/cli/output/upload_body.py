"""A file as the body of a request: multipart with one part, read while it is sent, never whole in memory."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

from fate_flow.core.model.errors import FlowError

CHUNK = 256 * 1024


class MultipartFile:
    """A multipart body with one part named `file`; its length is known before the file is read."""

    def __init__(self, path: Path) -> None:
        boundary = secrets.token_hex(16)
        self.content_type = f"multipart/form-data; boundary={boundary}"
        self.size = path.stat().st_size
        self._path = path
        self.on_sent: Callable[[int], object] = nobody
        self._head = b"".join((
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="'.encode(), _quoted(path.name),
            b'"\r\nContent-Type: application/octet-stream\r\n\r\n',
        ))  # fmt: skip
        self._tail = f"\r\n--{boundary}--\r\n".encode()

    def __len__(self) -> int:
        return len(self._head) + self.size + len(self._tail)

    def __iter__(self) -> Iterator[bytes]:
        yield self._head
        yield from self._content()
        yield self._tail

    def _content(self) -> Iterator[bytes]:
        """Yield as many bytes as announced, even if the file grows. Raise FlowError if it shrinks."""
        left = self.size
        try:
            with self._path.open("rb") as file:
                while left and (chunk := file.read(min(CHUNK, left))):
                    left -= len(chunk)
                    yield chunk
                    self.on_sent(len(chunk))
        except OSError as error:        # the HTTP library would take an OSError for a network error
            raise FlowError(f"{self._path}: cannot be read: {error.strerror}") from error
        if left:
            raise FlowError(f"{self._path}: became shorter while it was being sent")


def nobody(_count: int) -> None:
    """Ignore the number of bytes sent."""


def _quoted(name: str) -> bytes:
    """Return a file name as browsers write it into this header."""
    for letter, code in (('"', "%22"), ("\r", "%0D"), ("\n", "%0A")):
        name = name.replace(letter, code)
    return os.fsencode(name)
