"""A file as the body of a request: multipart with one part, read while it is sent, never held whole."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

from fate_flow.core.model.errors import FlowError

CHUNK = 256 * 1024


class MultipartFile:
    """One part named `file`; its length is known before it is read."""

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
        """As many bytes as were announced, also from a file that grows. Raises FlowError for one that shrinks."""
        left = self.size
        try:
            with self._path.open("rb") as file:
                while left and (chunk := file.read(min(CHUNK, left))):
                    left -= len(chunk)
                    yield chunk
                    self.on_sent(len(chunk))
        except OSError as error:        # not as it is: the HTTP library would take it for trouble with the network
            raise FlowError(f"{self._path}: cannot be read: {error.strerror}") from error
        if left:
            raise FlowError(f"{self._path}: became shorter while it was being sent")


def nobody(_count: int) -> None:
    """Is told how much was sent when nobody wants to know."""


def _quoted(name: str) -> bytes:
    """A file name as browsers write it into this header."""
    for letter, code in (('"', "%22"), ("\r", "%0D"), ("\n", "%0A")):
        name = name.replace(letter, code)
    return os.fsencode(name)
