"""A file as the body of a request: multipart with one part, read while it is sent, never whole in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from fate_flow.core.model.errors import FlowError

CHUNK = 256 * 1024


class MultipartFile:
    """A multipart body with one part named `file`; its length is known before the file is read."""

    def __init__(self, path: Path) -> None:
        from urllib3.fields import RequestField
        from urllib3.filepost import choose_boundary

        boundary, part = choose_boundary(), RequestField("file", b"", path.name)
        part.make_multipart(content_type="application/octet-stream")
        self.content_type = f"multipart/form-data; boundary={boundary}"
        self.size = path.stat().st_size
        self._path = path
        self.on_sent: Callable[[int], object] = nobody
        self._head = f"--{boundary}\r\n{part.render_headers()}".encode(errors="surrogateescape")
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
